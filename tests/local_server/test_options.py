"""What a caller says about the local server: a wrong value is one error that names the
parameter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mongomem.errors import ConfigurationError, LocalServerError
from mongomem.local_server.options import checked_parameters
from mongomem.local_server.server import LocalServer, default_data_dir, find_mongod, local_uri

SECRET = "hunter2"


class BadPath(os.PathLike[str]):
    def __fspath__(self) -> str:
        raise RuntimeError("no path")


class BytesPath(os.PathLike[bytes]):
    def __fspath__(self) -> bytes:
        return b"/tmp/x"


class BadMapping(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        return 1


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("repr")


ANYTHING = (
    b"x",
    bytearray(b"x"),
    [],
    {},
    {"$ne": None},
    (),
    object(),
    BadRepr(),
    int,
    lambda: 0,
    np.array([1, 2]),
)
PATHS = (
    *(
        "",
        "\0",
        "a\0b",
        "\ud800",
        "x" * 5000,
        "/" + "x/" * 40_000,
        "~no-such-user-at-all/x",
        BadPath(),
        BytesPath(),
    ),
    *(0, 1, True, False, 1.5, f"mongodb://u:{SECRET}@h/\0", *ANYTHING),
)
FLAGS = (None, 0, 1, "yes", "", 1.0, np.bool_(True), *ANYTHING)
NUMBERS = (
    *(
        None,
        True,
        False,
        "1",
        "",
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        0,
        -0.5,
        10**400,
        -(10**400),
    ),
    *(2**70, Decimal(1), 1j, np.int64(-1), *ANYTHING),
)
PARAMETERS = (
    *("a=1", 1, True, 1.5, [("a", 1)], {"a"}, b"x", object(), BadMapping(), BadRepr()),
    *(
        {1: 1},
        {None: 1},
        {"": 1},
        {"a b": 1},
        {"a=b": 1},
        {"-a": 1},
        {"a\n": 1},
        {"$where": 1},
        {"x" * 200: 1},
    ),
    *(
        {"a": None},
        {"a": b"x"},
        {"a": [1]},
        {"a": {}},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 10**5000},
    ),
    *(
        {"a": ""},
        {"a": "x\0"},
        {"a": "x\ny"},
        {"a": "\ud800"},
        {"a": "x" * 2000},
        {"a": object()},
        {"a": BadRepr()},
    ),
    *({"enableLocalhostAuthBypass": True}, {"authenticationMechanisms": "PLAIN"}),
)
WRONG: Mapping[str, tuple[object, ...]] = {
    "data_dir": PATHS,
    "binary": PATHS,
    "members": (*NUMBERS, 1.0, 8, 50, "3"),
    "cache_gb": (*NUMBERS, 0.1, 1e9),
    "start_timeout": (*NUMBERS, 1e-9, 1e12),
    "parameters": PARAMETERS,
    "throw_away": FLAGS,
}
CASES = [
    pytest.param(name, value, id=f"{name}-{i}")
    for name, values in WRONG.items()
    for i, value in enumerate(values)
]
SHARED = [case for case in CASES if case.values[0] not in {"members", "parameters", "throw_away"}]


def check(error: ConfigurationError, name: str) -> None:
    message = str(error)
    assert name in message
    assert len(message) < 400
    assert SECRET not in message


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_wrong_argument_is_named_before_anything_is_touched(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        LocalServer(**{name: value})
    check(refused.value, name)


@pytest.mark.parametrize("uri", [None, "mongodb://elsewhere/"])
@pytest.mark.parametrize(("name", "value"), SHARED)
def test_so_by_local_uri(
    name: str, value: Any, uri: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    if uri is not None:
        monkeypatch.setenv("MONGODB_URI", uri)
    with pytest.raises(ConfigurationError) as refused:
        local_uri(**{name: value})
    check(refused.value, name)


@pytest.mark.parametrize("value", [pytest.param(value, id=str(i)) for i, value in enumerate(PATHS)])
def test_so_by_find_mongod(value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        find_mongod(value)
    check(refused.value, "binary")


@pytest.mark.parametrize("value", ["~no-such-user-at-all/x", "x" * 5000], ids=["no home", "long"])
def test_so_by_the_variables(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGOMEM_DATA_DIR", value)
    with pytest.raises(ConfigurationError, match="MONGOMEM_DATA_DIR"):
        default_data_dir()
    monkeypatch.setenv("MONGOMEM_MONGOD", value)
    with pytest.raises(ConfigurationError, match="MONGOMEM_MONGOD"):
        find_mongod()


def test_a_name_that_no_file_can_have_is_told_by_the_system(tmp_path: Path) -> None:
    name = "x" * 300
    with pytest.raises(LocalServerError, match="there is no mongod at"):
        find_mongod(tmp_path / name)
    with pytest.raises(LocalServerError, match=r"too long.*MONGOMEM_DATA_DIR"):
        LocalServer(tmp_path / name).start()


def test_a_relative_path_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert LocalServer("x")._data_dir == tmp_path / "gone" / "x"
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigurationError, match="data_dir cannot be made absolute"):
        LocalServer("x")


def test_right_values_are_taken() -> None:
    server = LocalServer(
        Path("/x"),
        binary="/y",
        members=7,
        cache_gb=np.float64(0.25),
        start_timeout=86_400,
        parameters={},
    )
    assert (server._data_dir, server._binary, server._members) == (Path("/x"), Path("/y"), 7)
    assert (server._cache_gb, server._start_timeout) == (0.25, 86_400.0)
    given = {"a": True, "b": 1, "c": 0.5, "d.e": "x y", "f": np.float64(2.5), "g": 2**63 - 1}
    expected = {"a": "true", "b": "1", "c": "0.5", "d.e": "x y", "f": "2.5", "g": str(2**63 - 1)}
    assert checked_parameters("parameters", given) == expected
