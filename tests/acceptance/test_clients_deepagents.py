"""deepagents, which keeps files in the store, on every kind of client as on LangGraph's in-memory
classes.

Its `StoreBackend` has native async twins of `read`, `write`, `edit` and `delete` only; `als`,
`agrep`, `aglob`, uploads and downloads call the sync methods of the store in a worker thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend

from support.agents import (
    KINDS,
    Memories,
    ScriptedModel,
    assert_as_in_memory,
    memories_of,
    obeying,
    says,
)

pytestmark = pytest.mark.shares_database

FILES = 120
"""More than a page of the backend, which reads a hundred files at a time."""


@pytest.fixture(params=KINDS)
async def memories(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str
) -> AsyncIterator[Memories]:
    async with memories_of(request.param, mongo_uri, database_name) as made:
        yield made


def files_of(user: str, store: Any = None) -> StoreBackend:
    return StoreBackend(store=store, namespace=lambda runtime: (user, "files"))


async def test_every_call_of_the_backend(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        files = files_of("ada", memories.store)

        async def call(name: str, *args: Any, **kwargs: Any) -> Any:
            return await memories.call(files, name, *args, **kwargs)

        many = [
            (f"/many/{number}.txt", f"line of {number}\nthe end".encode())
            for number in range(FILES)
        ]
        told = [await call("upload_files", [*many, ("/picture.png", b"\x89PNG\xff\x00")])]
        told += [
            await call("write", "/notes.md", "one\ntwo\n"),
            await call("write", "/notes.md", "one\ntwo\nthree\n"),
        ]
        told += [
            await call("edit", "/notes.md", "two", "2"),
            await call("edit", "/notes.md", "absent", "2"),
        ]
        told += [
            await call("read", "/notes.md"),
            await call("read", "/picture.png"),
            await call("read", "/none"),
        ]
        told += [_sorted(await call("ls", "/")), _sorted(await call("ls", "/many"))]
        told += [_sorted(await call("grep", "line of 11")), _sorted(await call("glob", "*.md"))]
        told += [await call("download_files", ["/picture.png", "/none"])]
        told += [
            await call("delete", "/many"),
            await call("delete", "/many"),
            _sorted(await call("ls", "/")),
        ]
        return told

    await assert_as_in_memory(scenario, memories)


def _sorted(result: Any) -> Any:
    """Put what a listing found in order: the store gives items of one moment in no promised
    order.
    """
    found = next(
        found
        for name in ("entries", "matches")
        if (found := getattr(result, name, None)) is not None
    )
    return sorted(map(repr, found))


async def test_a_deep_agent_keeps_files_across_threads(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        backend = CompositeBackend(default=StateBackend(), routes={"/memories/": files_of("ada")})
        agent = create_deep_agent(
            ScriptedModel(reply=obeying),
            backend=backend,
            checkpointer=memories.saver,
            store=memories.store,
        )
        first, second = ({"configurable": {"thread_id": name}} for name in ("first", "second"))

        async def say(thread: dict[str, Any], *calls: tuple[str, dict[str, Any]]) -> str:
            answer = await memories.call(agent, "invoke", says(*calls), thread)
            return str(answer["messages"][-1].content)

        kept = {"file_path": "/memories/likes.md", "content": "jazz\n"}
        told = [
            await say(
                first, ("write_file", kept), ("write_file", {**kept, "file_path": "/draft.md"})
            )
        ]
        told += [await say(first, ("ls", {"path": "/"}), ("read_file", {"file_path": "/draft.md"}))]
        told += [
            await say(
                second, ("ls", {"path": "/memories/"}), ("read_file", {"file_path": "/draft.md"})
            )
        ]
        edit = {"file_path": "/memories/likes.md", "old_string": "jazz", "new_string": "the blues"}
        told += [await say(second, ("edit_file", edit))]
        told += [await say(first, ("grep", {"pattern": "blues"}), ("glob", {"pattern": "**/*.md"}))]
        told += [(await memories.call(agent, "get_state", first)).values["messages"]]
        return told

    await assert_as_in_memory(scenario, memories)
