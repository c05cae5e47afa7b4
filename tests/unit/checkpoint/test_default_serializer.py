"""The serializer of a saver that is not given one: data comes back, and no function is called on
the way.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import deque
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langgraph.types import Send
from pydantic import BaseModel, SecretStr

from mongomem.checkpoint.serde.default import checked_serde, default_serializer, is_data_type
from mongomem.errors import ConfigurationError
from support.stores import named


class Colour(Enum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


class Point(NamedTuple):
    x: int
    y: int


class Model(BaseModel):
    name: str
    inner: dict[str, int] = {}


@dataclasses.dataclass
class Profile:
    name: str
    tags: list[str]


VALUES: list[Any] = [
    *(Colour.RED, Rank.FIRST, Point(1, 2), Model(name="a", inner={"b": 1}), Profile("a", ["b"])),
    *({1, 2}, frozenset({1}), deque([1, 2]), UUID(int=7), Decimal("1.5"), Path("/a/b")),
    *(
        date(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        timedelta(seconds=1),
        SecretStr("s"),
    ),
    *(HumanMessage("hi", id="1"), Document(page_content="text"), Send("node", {"a": 1})),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_data_comes_back_as_it_was(value: Any) -> None:
    serde = default_serializer()
    given = {"alone": value, "in a list": [value]}
    found = serde.loads_typed(serde.dumps_typed(given))
    assert found == given
    assert type(found["alone"]) is type(value)


class Gadget:
    """A class of no data, whose constructor does something."""

    made: list[Any] = []  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made.append(args or kwargs)


def payloads(module: str, name: str, argument: Any) -> list[bytes]:
    """Write what names a module and a name in it, in every way that there is."""
    packed = [
        (module, name, argument),
        (module, name, (argument,)),
        (module, name, {"path": argument}),
    ]
    packed += [
        (module, name, argument, "__init__"),
        (module, name, {"name": argument}),
        (module, name, {}, "x"),
    ]
    return [
        ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(one)))
        for code, one in zip(range(6), packed, strict=True)
    ]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "mkdir"),
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "open"),
        (__name__, "Gadget"),
        ("os", "no"),
    ],
)
def test_nothing_is_called_that_holds_no_data(module: str, name: str, tmp_path: Path) -> None:
    target = tmp_path / "made"
    serde = default_serializer()
    for payload in payloads(module, name, str(target)):
        serde.loads_typed(("msgpack", payload))
    assert Gadget.made == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_imported() -> None:
    code = """if True:
        import sys, ormsgpack
        from mongomem.checkpoint.serde.default import default_serializer
        serde = default_serializer()
        before = set(sys.modules)
        content = ormsgpack.packb(("this", "s", "x"))
        print(repr(serde.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(0, content))))))
        print("this" in sys.modules)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["'x'", "False"]


@pytest.mark.parametrize(
    "callable_one", [print, Gadget, subprocess.Popen, type, object, int, len, None, "os.system"]
)
def test_what_holds_no_data_is_no_data_type(callable_one: Any) -> None:
    assert not is_data_type(callable_one)


@pytest.mark.parametrize(
    "wrong", [7, "json", object(), dict, type(default_serializer()), []], ids=named
)
def test_what_is_no_serializer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="serde must be a serializer"):
        checked_serde(wrong)
