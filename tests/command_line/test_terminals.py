"""What the commands print on terminals, narrow and wide."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from pymongo import MongoClient
from rich.cells import cell_len

from mongomem import MongoMemory
from support.databases import drop
from support.migrations import chat, config_of
from support.terminals import on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")

THREADS = [f"0e8cf4d6-43a1-4a9c-9a35-1f0c2b7d5e{number}0" for number in range(3)]
NAMESPACE = ("customers-of-the-north@example%2Ecom", "memories")
KEY = "8d3f5c9e-57a4-4ffd-8b21-7c5d1e0a9b42"
TEXT = "I live in Lisbon, near the river, and would like to be called by my first name."


@pytest.fixture(scope="module")
def there(mongo_client: MongoClient, mongo_uri: str) -> Iterator[list[str]]:
    """A database whose ids are as long as those of applications; the options that name it."""
    name = f"test_{uuid4().hex}"
    memory = MongoMemory(mongo_client, name)
    talk = chat(memory.saver)
    for thread in THREADS:
        for text in (TEXT, "Hello"):
            talk.invoke({"messages": [HumanMessage(text)]}, config_of(thread, user_id="ada"))
    memory.store.put(NAMESPACE, KEY, {"text": TEXT})
    yield ["--uri", mongo_uri, "--db", name]
    drop(mongo_client, name)


NAMED = {
    "threads": THREADS,
    "delete --dry-run " + " ".join(THREADS): THREADS,
    "prune --all --dry-run": THREADS,
    "stats": [*THREADS, ".".join(NAMESPACE), "mongomem_checkpoint_writes"],
    "memories": [".".join(NAMESPACE), KEY],
    "namespaces": [".".join(NAMESPACE)],
}


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("asked", NAMED, ids=lambda asked: asked.split()[0])
def test_names_are_whole(asked: str, columns: int, there: list[str]) -> None:
    code, said = on_terminal(*asked.split(), *there, columns=columns)
    assert code == 0
    lines = said.split("\n")
    for name in NAMED[asked]:
        assert any(name in line.split() for line in lines), said
    assert max(map(cell_len, lines)) <= max(columns, 82), said


@pytest.mark.parametrize("columns", [60, 80])
def test_a_history_has_one_line_a_checkpoint(columns: int, there: list[str]) -> None:
    code, said = on_terminal("history", THREADS[0], *there, columns=columns)
    assert code == 0
    lines = said.rstrip().split("\n")
    assert len(lines) == 7
    assert all(line.startswith("●") for line in lines[1:])
    assert max(map(cell_len, lines)) <= columns


@pytest.mark.parametrize("name", ["delete", "prune", "erase"])
def test_what_was_shown_before_a_question_is_not_told_again(name: str, there: list[str]) -> None:
    asked = {"delete": THREADS[0], "prune": "--all", "erase": "ada"}
    code, said = on_terminal(name, asked[name], *there, columns=80, typed="n\n")
    assert (code, said.count("[y/N]"), said.count(THREADS[0])) == (2, 1, 1), said
    assert said.endswith("mongomem: nothing was done\n")
