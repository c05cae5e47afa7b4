"""`mongomem.langgraph` under a real `langgraph dev`, asked over HTTP by LangGraph's own client.

The server enters the factories once in each of its event loops, reports blocking calls in them as
errors, wraps the saver in an adapter of its own, and keeps its records of threads and runs in its
directory: states, histories and items are to be in MongoDB."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Command
from pymongo import MongoClient

from mongomem import MongoSaver
from support import served_auth, served_graphs
from support.agents import says
from support.databases import with_database
from support.langgraph_server import LangGraphServer, langgraph_dev, write_config
from support.openai_server import OpenAIServer
from support.pages import blocks_of, commands, write_files
from support.waits import HANG_SECONDS, LOOKS

GRAPHS = {name: f"{served_graphs.__file__}:{name}" for name in ("chat", "log")}
AGENT = {"agent": str(Path(__file__).parents[1] / "support" / "served_agent.py") + ":agent"}
CHECKPOINTER = {"path": "mongomem.langgraph.checkpointer", "ttl": {"default_ttl": 600}}
INDEX = {"embed": "openai:text-embedding-3-small", "dims": 1536, "fields": ["text"]}
STORE = {
    "path": "mongomem.langgraph.store",
    "index": INDEX,
    "ttl": {"default_ttl": 60, "refresh_on_read": True, "sweep_interval_minutes": 5},
}
ISOLATED = {"BG_JOB_ISOLATED_LOOPS": "true"}
"""Each run in the event loop of one of the workers, beside that of the requests."""


@pytest.fixture(scope="module")
def model() -> Iterator[dict[str, str]]:
    """Where a server finds a model for embeddings."""
    with OpenAIServer() as openai:
        yield {"OPENAI_BASE_URL": openai.base_url, "OPENAI_API_KEY": "test-key"}


@pytest.fixture(scope="module")
def served(
    mongo_uri: str, shared_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LangGraphServer]:
    """One server for the tests that need no other; each of them is another user. Its model is a
    function in a file.
    """
    environment = {
        "MONGODB_URI": with_database(mongo_uri, shared_database),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        **ISOLATED,
    }
    directory = tmp_path_factory.mktemp("served")
    auth = {"path": f"{served_auth.__file__}:auth"}
    store = STORE | {"index": INDEX | {"embed": "./model.py:embed", "dims": 64}}
    model = "from support.bag_of_words import bag_of_words\n\nembed = bag_of_words(64)\n"
    (directory / "model.py").write_text(model, "utf-8")
    graphs = GRAPHS | AGENT
    write_config(directory, graphs, checkpointer=CHECKPOINTER, store=store, auth=auth)
    with langgraph_dev(directory, environment, "--n-jobs-per-worker", "2") as server:
        yield server
        assert "BlockingError" not in server.log
    assert server.process.returncode == 0
    assert "never retrieved" not in server.log


@pytest.fixture
async def client(served: LangGraphServer) -> AsyncIterator[LangGraphClient]:
    async with served.client() as client:
        yield client


async def begin(client: LangGraphClient) -> str:
    """Begin a thread."""
    return str((await client.threads.create())["thread_id"])


def said(text: str) -> dict[str, Any]:
    """Make the input of the chat."""
    return {"messages": [{"role": "user", "content": text}]}


def of(user: str) -> Any:
    """Make the config of a run."""
    return {"configurable": {"user_id": user}}


async def say(
    client: LangGraphClient, user: str, thread_id: str, text: str, **options: Any
) -> list[str]:
    """Run the chat, and return the end of the conversation."""
    state: Any = await client.runs.wait(
        thread_id, "chat", input=said(text), config=of(user), **options
    )
    return texts_of(state)[-3:]


def texts_of(state: Any) -> list[str]:
    return [message["content"] for message in state["messages"]]


async def test_threads_and_items_outlive_the_server(
    model: dict[str, str],
    tmp_path: Path,
    mongo_uri: str,
    mongo_client: MongoClient[Any],
    database_name: str,
) -> None:
    """First with one event loop, then with isolated ones and paths of files; a person decides after
    the restart.
    """
    environment = {"MONGODB_URI": with_database(mongo_uri, database_name), **model}
    write_config(tmp_path, GRAPHS, checkpointer=CHECKPOINTER, store=STORE)
    with langgraph_dev(tmp_path, environment) as server:
        async with server.client() as client:
            thread_id = await begin(client)
            assert await say(client, "ada", thread_id, "tea") == ["tea", "known: []", "1 notes"]
            await say(client, "ada", thread_id, "refund")
            before = await client.threads.get_history(thread_id, limit=100)
            assert (await client.threads.get(thread_id))["status"] == "interrupted"
    own = "from mongomem.langgraph import checkpointer as saver, store as items"
    (tmp_path / "own.py").write_text(own, "utf-8")
    checkpointer = CHECKPOINTER | {"path": "./own.py:saver"}
    write_config(
        tmp_path, GRAPHS, checkpointer=checkpointer, store=STORE | {"path": "./own.py:items"}
    )
    with langgraph_dev(tmp_path, environment | ISOLATED) as server:
        async with server.client() as client:
            assert await client.threads.get_history(thread_id, limit=100) == before
            state: Any = await client.threads.get_state(thread_id)
            assert (state["next"], texts_of(state["values"])) == (
                ["answer"],
                ["tea", "known: []", "1 notes", "refund"],
            )
            resumed = await client.runs.wait(
                thread_id, "chat", command=Command(resume="granted"), config=of("ada")
            )
            assert texts_of(resumed)[-2:] == ["decided: granted", "1 notes"]
            found = await client.store.search_items(["ada", "notes"], query="tea")
            assert [item["value"] for item in found["items"]] == [{"text": "tea"}]
        assert "BlockingError" not in server.log
    saver = MongoSaver(mongo_client, database_name)
    (thread,) = saver.list_threads(filter={"user_id": "ada"})
    assert thread.thread_id == thread_id
    assert not [key for key in thread.metadata if key.startswith("langgraph_auth")]


async def test_runs_on_several_threads_at_once(client: LangGraphClient) -> None:
    """In the event loops of both workers, beside requests in that of the server."""
    threads = [await begin(client) for _ in range(4)]
    runs = [say(client, "bea", one, f"thing {number}") for number, one in enumerate(threads)]
    told, _ = await asyncio.gather(
        asyncio.gather(*runs), client.store.put_item(["other"], "k", {"text": "thing"})
    )
    assert [one[0] for one in told] == [f"thing {number}" for number in range(4)]
    notes = await client.store.search_items(["bea", "notes"], limit=100)
    assert {item["key"] for item in notes["items"]} == {one[0] for one in told}
    states = [await client.threads.get_state(thread) for thread in threads]
    assert [texts_of(state["values"])[0] for state in states] == [one[0] for one in told]


async def test_streamed_steps_and_a_fork(client: LangGraphClient) -> None:
    thread_id = await begin(client)
    events = [
        event
        async for event in client.runs.stream(
            thread_id,
            "chat",
            input=said("tea"),
            config=of("cid"),
            stream_mode="updates",
            after_seconds=1,  # what a run sends before its stream is subscribed to is lost
        )
    ]
    assert [[*event.data] for event in events if event.event == "updates"] == [
        ["answer"],
        ["count"],
    ]
    first = (await client.threads.get_history(thread_id, limit=100))[-2]
    assert first["next"] == ["answer"]
    fork = await client.threads.update_state(
        thread_id, said("cake"), checkpoint=first["checkpoint"]
    )
    run: Any = await client.runs.wait(
        thread_id, "chat", checkpoint=fork["checkpoint"], config=of("cid")
    )
    assert texts_of(run) == ["tea", "cake", "known: ['tea']", "2 notes"]


async def test_deltas(client: LangGraphClient) -> None:
    """The adapter of the server reads their history by its own way through the saver."""
    thread_id = await begin(client)
    for number in range(5):
        state: Any = await client.runs.wait(thread_id, "log", input={"lines": [f"said {number}"]})
    expected = [
        line for number in range(5) for line in (f"said {number}", f"line {2 * number + 1}")
    ]
    assert state["lines"] == expected
    history = await client.threads.get_history(thread_id, limit=100)
    assert [one["values"].get("lines", []) for one in history][-3] == expected[:2]


async def test_an_agent_whose_memory_tool_is_approved(client: LangGraphClient) -> None:
    """LangMem's tools take the store of the server."""
    first, second = await begin(client), await begin(client)
    jazz = says(("manage_memory", {"content": "I like jazz"}))
    state: Any = await client.runs.wait(first, "agent", input=jazz, config=of("joe"))
    assert state["__interrupt__"][0]["value"]["action_requests"][0]["name"] == "manage_memory"
    approval = Command(resume={"decisions": [{"type": "approve"}]})
    state = await client.runs.wait(first, "agent", command=approval, config=of("joe"))
    assert texts_of(state)[-1].startswith("created memory")
    asked = says(("search_memory", {"query": "music: jazz"}))
    state = await client.runs.wait(second, "agent", input=asked, config=of("joe"))
    assert "I like jazz" in texts_of(state)[-1]


async def test_a_sync_call_in_an_async_node_fails_at_once(client: LangGraphClient) -> None:
    thread_id = await begin(client)
    given = {"input": said("block"), "config": of("ida"), "raise_error": False}
    state: Any = await client.runs.wait(thread_id, "chat", **given)
    assert state["__error__"]["error"] == "UsageError"
    assert "await the async twin" in state["__error__"]["message"]


async def test_a_run_that_is_rolled_back_leaves_nothing(client: LangGraphClient) -> None:
    thread_id = await begin(client)
    await client.runs.create(thread_id, "chat", input=said("wait"), config=of("dan"))
    for _ in range(LOOKS):
        if (await client.threads.get_state(thread_id))["next"]:
            break
        await asyncio.sleep(0.01)
    await say(client, "dan", thread_id, "tea", multitask_strategy="rollback")
    history = await client.threads.get_history(thread_id, limit=100)
    texts = {text for one in history for text in texts_of({"messages": [], **one["values"]})}
    assert texts == {"tea", "known: []", "1 notes"}


async def test_threads_are_copied_and_deleted(
    client: LangGraphClient, mongo_client: MongoClient[Any], shared_database: str
) -> None:
    thread_id = await begin(client)
    await say(client, "eve", thread_id, "refund")
    copy: Any = await client.threads.copy(thread_id)
    states = [await client.threads.get_state(one) for one in (thread_id, copy["thread_id"])]
    assert states[0]["values"] == states[1]["values"]
    await client.threads.delete(thread_id)
    resumed = await client.runs.wait(
        copy["thread_id"], "chat", command=Command(resume="no"), config=of("eve")
    )
    assert texts_of(resumed) == ["refund", "decided: no", "0 notes"]
    listed = MongoSaver(mongo_client, shared_database).list_threads(filter={"user_id": "eve"})
    assert [thread.thread_id for thread in listed] == [copy["thread_id"]]


async def test_runs_without_a_thread_leave_none(
    client: LangGraphClient, mongo_client: MongoClient[Any], shared_database: str
) -> None:
    state = await client.runs.wait(None, "chat", input=said("tea"), config=of("fay"))
    assert texts_of(state) == ["tea", "known: []", "1 notes"]
    listed = MongoSaver(mongo_client, shared_database).list_threads(filter={"user_id": "fay"})
    assert [*listed] == []


async def test_the_store_over_http(
    client: LangGraphClient, mongo_client: MongoClient[Any], shared_database: str
) -> None:
    store = client.store
    for key, text in (("a", "I like jazz"), ("b", "my dog is old"), ("c", "")):
        await store.put_item(["gil", "notes"], key, {"text": text, "n": 1})
    await store.put_item(["gil", "plans"], "d", {"text": "jazz"}, index=False, ttl=5)
    found = await store.search_items(["gil"], query="an old dog", limit=1)
    assert [item["key"] for item in found["items"]] == ["b"]
    assert found["items"][0]["score"] > 0
    found = await store.search_items(["gil"], filter={"text": {"$gt": "I"}})
    assert {item["key"] for item in found["items"]} == {"a", "b", "d"}
    assert (await store.get_item(["gil", "notes"], "a"))["value"] == {"text": "I like jazz", "n": 1}
    listed = await store.list_namespaces(prefix=["gil"])
    assert sorted(listed["namespaces"]) == [["gil", "notes"], ["gil", "plans"]]
    await say(client, "gil", await begin(client), "tea")
    items = mongo_client[shared_database]["mongomem_store_items"].find()
    minutes = {item["key"]: item.get("ttl_minutes") for item in items}
    # The API passes None on where a request says nothing: such an item lives for ever.
    assert minutes.items() >= {("a", None), ("d", 5), ("tea", 60)}
    await store.delete_item(["gil", "notes"], "a")
    assert await store.get_item(["gil", "notes"], "a") is None


async def test_who_is_authenticated_is_the_user_of_a_thread_and_finds_own_items(
    served: LangGraphServer, mongo_client: MongoClient[Any], shared_database: str
) -> None:
    async with served.client(authorization="Bearer gus") as gus:
        for owner, text in (("gus", "jazz"), ("hal", "jazz"), ("gus", "tea")):
            await gus.store.put_item(["shared"], f"{owner} {text}", {"owner": owner, "text": text})
        for more in ({"filter": {"text": "jazz"}}, {"query": "jazz", "limit": 1}):
            found = await gus.store.search_items(["shared"], **more)
            assert [item["key"] for item in found["items"]] == ["gus jazz"]
        thread_id = await begin(gus)
        state: Any = await gus.runs.wait(thread_id, "chat", input=said("refund"))
        assert texts_of(state) == ["refund"]
    (thread,) = MongoSaver(mongo_client, shared_database).list_threads(filter={"user_id": "gus"})
    assert thread.thread_id == thread_id
    assert not [key for key in thread.metadata if key.startswith("langgraph_auth")]


STARTS = "```sh\nlanggraph dev\n```"
URL = re.compile(r"http://127\.0\.0\.1:\d+")


def run(command: str, directory: Path) -> str:
    """Run a command of the page; return what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PATH": path},
        timeout=HANG_SECONDS,
    )
    assert ran.stderr == ""
    return ran.stdout


def test_the_page_leads_where_it_says(tmp_path: Path) -> None:
    """As a reader follows it, without ``MONGODB_URI``: each ``langgraph dev`` starts the server
    anew, and the commands up to the next one are run beside it.
    """
    page = (Path(__file__).parents[2] / "docs/how-to/langgraph-dev.md").read_text("utf-8")
    write_files(page, tmp_path)
    config = next(code for language, code in blocks_of(page) if language == "json")
    (tmp_path / "langgraph.json").write_text(config, "utf-8")
    environment = {"MONGODB_URI": "", "MONGOMEM_DATA_DIR": str(tmp_path / "data")}
    asks = tmp_path / "ask.py"
    parts = page.split(STARTS)[1:]
    assert len(parts) == 2
    for part in parts:
        with langgraph_dev(tmp_path, environment) as server:
            asks.write_text(URL.sub(str(server.url), asks.read_text("utf-8")), "utf-8")
            told = [text for language, text in blocks_of(part) if language == "console"]
            assert told
            for command, printed in commands("".join(told)):
                assert run(command, tmp_path) == printed
            assert "MONGODB_URI is not set" in server.log


async def test_a_misconfigured_server_says_so_and_ends(tmp_path: Path, mongo_uri: str) -> None:
    store = {"path": "mongomem.langgraph.store", "indx": INDEX}
    write_config(tmp_path, GRAPHS, checkpointer=CHECKPOINTER, store=store)
    with langgraph_dev(tmp_path, {"MONGODB_URI": mongo_uri}) as server:
        assert server.process.returncode
        lines = [line for line in server.log.splitlines() if "ConfigurationError" in line]
    assert lines[-1] == (
        "mongomem.errors.ConfigurationError: Unknown options of store in langgraph.json "
        "(LANGGRAPH_STORE): ['indx']; there are ['index', 'path', 'ttl']"
    )
