"""What the variables of a LangGraph server say, and what is said where they say it wrongly."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.errors import ConfigurationError
from mongomem.langgraph.embedder_file import named_embedder
from mongomem.langgraph.settings import (
    CHECKPOINTER,
    STORE,
    THREAD_TTL,
    URI,
    VARIANT,
    Environment,
)
from mongomem.store.documents.index_config import resolve_index

NAMES = (URI, STORE, CHECKPOINTER, THREAD_TTL, VARIANT)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def options(monkeypatch: pytest.MonkeyPatch, **variables: Any) -> dict[str, Any]:
    """Return the options that variables stand for, given as text or as what is written as JSON."""
    for name, given in variables.items():
        monkeypatch.setenv(name, given if isinstance(given, str) else json.dumps(given))
    return Environment.read().options()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({STORE: "", CHECKPOINTER: " ", THREAD_TTL: ""}, {}),
        ({STORE: {"path": "p", "index": None, "ttl": None}, CHECKPOINTER: {"path": "p"}}, {}),
        (
            {STORE: {"index": {"embed": "openai:m", "dims": 3, "fields": ["a"], "metric": "dot"}}},
            {"index": {"embed": "openai:m", "dims": 3, "fields": ["a"], "metric": "dot"}},
        ),
        ({STORE: {"index": {"rank": "words"}}}, {"index": {"rank": "words"}}),
        (
            {STORE: {"ttl": {"default_ttl": 1.5, "refresh_on_read": False}}},
            {"ttl": {"default_ttl": 1.5, "refresh_on_read": False}},
        ),
        ({CHECKPOINTER: {"backend": "custom", "ttl": {"default_ttl": 5}}}, {"thread_ttl": 5}),
        (
            {CHECKPOINTER: {"ttl": {"strategy": "delete", "sweep_interval_minutes": 5}}},
            {},
        ),
        ({CHECKPOINTER: {"ttl": {"default_ttl": None}}}, {"thread_ttl": None}),
        ({CHECKPOINTER: {"ttl": {"default_ttl": 5}}, THREAD_TTL: "7.5"}, {"thread_ttl": 7.5}),
        (
            {THREAD_TTL: {"strategy": "delete", "default_ttl": 8, "sweep_limit": 9}},
            {"thread_ttl": 8},
        ),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_what_is_said(
    variables: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert options(monkeypatch, **variables) == expected


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({STORE: "{"}, "store in langgraph.json (LANGGRAPH_STORE) is no JSON: '{'"),
        ({STORE: [1]}, "store in langgraph.json (LANGGRAPH_STORE) must be a JSON object"),
        ({STORE: {"indx": {}}}, "Unknown options of store in langgraph.json (LANGGRAPH_STORE)"),
        ({STORE: {"index": "openai:m"}}, "index of store in langgraph.json"),
        ({STORE: {"index": {"embed": 7}}}, "embed of store in langgraph.json"),
        ({CHECKPOINTER: {"ttl": {"ttl": 5}}}, "Unknown options of ttl of checkpointer"),
        ({CHECKPOINTER: {"ttl": 5}}, "ttl of checkpointer in langgraph.json"),
        ({THREAD_TTL: {"strategy": "keep_latest"}}, "LANGGRAPH_THREAD_TTL: there is no strategy"),
        ({THREAD_TTL: "soon"}, "LANGGRAPH_THREAD_TTL is no JSON: 'soon'"),
        ({CHECKPOINTER: {"serde": {"pickle": True}}}, "Unknown options of serde of checkpointer"),
        ({CHECKPOINTER: {"serde": {"pickle_fallback": 1}}}, "pickle_fallback of serde"),
        ({CHECKPOINTER: {"serde": {"allowed_msgpack_modules": ["m"]}}}, "allowed modules are"),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_what_is_said_wrongly_is_one_error(
    variables: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        options(monkeypatch, **variables)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_connection_string_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URI, "mongodb://ada:s3cret@host/app")
    assert "s3cret" not in repr(Environment.read())


@pytest.mark.parametrize(
    ("serde", "json_types", "msgpack_types", "pickles"),
    [
        ({"pickle_fallback": True}, None, None, True),
        ({"allowed_msgpack_modules": True}, None, True, False),
        ({"allowed_msgpack_modules": [["m", "T"]]}, None, {("m", "T")}, False),
        ({"allowed_json_modules": [["m", "T"]]}, {("m", "T")}, None, False),
        (
            {"allowed_json_modules": True, "allowed_msgpack_modules": None},
            True,
            None,
            False,
        ),
    ],
    ids=lambda given: str(given)[:50],
)
def test_serializers(
    serde: dict[str, Any],
    json_types: Any,
    msgpack_types: Any,
    pickles: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = options(monkeypatch, **{CHECKPOINTER: {"serde": serde}})["serde"]
    assert isinstance(made, JsonPlusSerializer)
    assert made._allowed_json_modules == json_types
    assert made._allowed_msgpack_modules == msgpack_types
    assert made.pickle_fallback is pickles


# Embedders in files.

FILE = """
from langchain_core.embeddings import Embeddings, FakeEmbeddings

loads = []
loads.append(1)


def embed(texts):
    return [[1.0, 2.0, 3.0] for _ in texts]


async def aembed(texts):
    return embed(texts)


instance = FakeEmbeddings(size=3)
number = 7
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a server, with a file of embedders in a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "embed.py").write_text(FILE, "utf-8")
    (tmp_path / "raises.py").write_text("1 / 0", "utf-8")
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def index_of(monkeypatch: pytest.MonkeyPatch, embed: str) -> dict[str, Any]:
    index = {"embed": embed, "dims": 3}
    return dict(options(monkeypatch, **{STORE: {"index": index}})["index"])


@pytest.mark.parametrize("name", ["embed", "aembed", "instance"])
async def test_an_embedder_in_a_file(
    name: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(monkeypatch, f"./a folder/embed.py:{name}")
    assert callable(index["embed"]) or isinstance(index["embed"], Embeddings)
    settings = resolve_index(index)
    assert settings is not None
    assert (await settings.embedder.aembed_documents(["a"])).shape == (1, 3)


@pytest.mark.parametrize("first", ["./a folder/embed.py", "{directory}/a folder/embed.py"])
def test_a_file_is_run_once(first: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = first.format(directory=directory)
    one, other = (index_of(monkeypatch, f"{path}:{name}") for name in ("embed", "loads"))
    assert other["embed"] == [1]
    assert index_of(monkeypatch, f"{path}:embed")["embed"] is one["embed"]


def test_a_file_that_is_being_run_is_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "events_of_embed", (begun, may_end), raising=False)
    (directory / "late.py").write_text(
        "import sys\nbegun, may_end = sys.events_of_embed\nbegun.set()\nmay_end.wait(60)\n"
        "def embed(texts):\n    return [[1.0] for _ in texts]\n",
        "utf-8",
    )
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(named_embedder, "./late.py:embed")
        assert begun.wait(60)
        second = pool.submit(named_embedder, "./late.py:embed")
        wait([second], timeout=0.2)  # unless it waits, it has ended by then
        may_end.set()
        assert first.result(60) is second.result(60)


def test_a_module_of_the_same_name_is_not_taken(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, ".__a_folder__embed", sys)
    assert callable(index_of(monkeypatch, "./a folder/embed.py:embed")["embed"])


@pytest.mark.parametrize(
    ("embed", "told"),
    [
        ("./none.py:embed", "its file raised FileNotFoundError"),
        ("./raises.py:embed", "its file raised ZeroDivisionError: 'division by zero'"),
        ("./a folder/embed.py:none", "the file has no 'none'"),
        ("./a folder/embed.py:", "the file has no ''"),
    ],
)
def test_no_embedder_in_a_file(
    embed: str, told: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="No embedder for embed=") as raised:
        index_of(monkeypatch, embed)
    assert told in str(raised.value)


def test_what_is_no_embedder_in_a_file(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="embed must be"):
        resolve_index(index_of(monkeypatch, "./a folder/embed.py:number"))


@pytest.mark.parametrize("nested", ["[", '{"a":'])
@pytest.mark.parametrize("variable", [STORE, CHECKPOINTER, THREAD_TTL])
def test_what_is_nested_without_end_is_one_error(
    variable: str, nested: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=f"{variable}.* is nested too deeply") as caught:
        options(monkeypatch, **{variable: nested * 100_000})
    assert len(str(caught.value)) < 200
