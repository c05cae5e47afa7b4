"""Spans of OpenTelemetry: which there are, what they hang on, what they tell, and what they do not.

They are read by OpenTelemetry's own exporter. The commands are counted by PyMongo, on a real
server.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, PutOp, SearchOp
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError

from mongomem import (
    MongoCache,
    MongoMemory,
    MongoSaver,
    MongoStore,
    Retention,
    UnstorableValueError,
    User,
)
from support.savers import KINDS, Calls, client_of
from support.spans import Sent, Spans, name_of, provided
from support.stores import words

pytestmark = pytest.mark.shares_database

CANARY = "the-canary-that-nobody-may-see"
THREAD: Any = {"configurable": {"thread_id": "t-1", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
NAMESPACE = ("ada", "memories")


def checkpoint_of(**values: Any) -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, "1"),
        "versions_seen": {},
        "updated_channels": None,
    }


# Every operation.

Scenario = Callable[[Calls], Awaitable[Any]]


async def put(saver: Calls, **values: Any) -> Any:
    values = values or {"messages": [CANARY * 1000], "topic": CANARY}
    return await saver("put", THREAD, checkpoint_of(**values), {**METADATA, "note": CANARY}, {})


async def put_writes(saver: Calls) -> None:
    await saver("put_writes", await put(saver), [("messages", CANARY)], "task")


async def listed(saver: Calls) -> None:
    await put(saver)
    await saver.list(THREAD, filter={"note": CANARY})


async def update_thread(saver: Calls) -> None:
    await put(saver)
    await saver("update_thread", "t-1", {"title": CANARY})


OF_SAVER: dict[str, Scenario] = {
    "setup": lambda saver: saver("setup"),
    "put": put,
    "put_writes": put_writes,
    "get_tuple": lambda saver: saver("get_tuple", THREAD),
    "list": listed,
    "get_delta_channel_history": lambda saver: saver(
        "get_delta_channel_history", config=THREAD, channels=["messages"]
    ),
    "delete_thread": lambda saver: saver("delete_thread", "t-1"),
    "delete_for_runs": lambda saver: saver("delete_for_runs", ["run"]),
    "copy_thread": lambda saver: saver("copy_thread", "t-1", "t-2"),
    "prune": lambda saver: saver("prune", ["t-1"]),
    "delete_idle_threads": lambda saver: saver("delete_idle_threads", timedelta(days=1)),
    "apply_retention": lambda saver: saver("apply_retention", Retention(keep_last=1)),
    "update_thread": update_thread,
    "list_threads": lambda saver: saver("list_threads"),
}
OF_STORE: dict[str, Scenario] = {
    "setup": lambda store: store("setup"),
    "put": lambda store: store("put", NAMESPACE, "k", {"text": CANARY}),
    "get": lambda store: store("get", NAMESPACE, "k"),
    "search": lambda store: store("search", NAMESPACE, query=CANARY, filter={"text": CANARY}),
    "delete": lambda store: store("delete", NAMESPACE, "k"),
    "batch": lambda store: store("batch", [PutOp(NAMESPACE, "k", {"text": CANARY})]),
    "list_namespaces": lambda store: store("list_namespaces"),
    "delete_namespace": lambda store: store("delete_namespace", NAMESPACE),
    "sweep_ttl": lambda store: store("sweep_ttl"),
    "reindex": lambda store: store("reindex"),
    "get_vectors": lambda store: store("get_vectors", NAMESPACE),
}
KEY: Any = (("__pregel_ns_writes", "node"), "key")
OF_CACHE: dict[str, Scenario] = {
    "setup": lambda cache: cache("setup"),
    "set": lambda cache: cache("set", {KEY: (CANARY, None)}),
    "get": lambda cache: cache("get", [KEY]),
    "clear": lambda cache: cache("clear", [KEY[0]]),
}
BY_ANOTHER = {
    MongoSaver: {"get": "get_tuple"},
    MongoStore: dict.fromkeys(("start_ttl_sweeper", "stop_ttl_sweeper"), "nothing"),
    MongoCache: {},
}
"""Methods that are made of others, or that do nothing."""


def methods_of(cls: type) -> set[str]:
    found = {
        name
        for name, member in inspect.getmembers(cls, callable)
        if name[0] != "_" and member.__module__.startswith("mongomem")
    }
    return {name for name in found if not (name[0] == "a" and name[1:] in found)}


@pytest.mark.parametrize(
    ("cls", "scenarios"), [(MongoSaver, OF_SAVER), (MongoStore, OF_STORE), (MongoCache, OF_CACHE)]
)
def test_every_operation_has_a_scenario(cls: Any, scenarios: dict[str, Scenario]) -> None:
    without_commands = {"close", "from_conn_string", "get_next_version", "with_allowlist"}
    assert methods_of(cls) - without_commands - set(BY_ANOTHER[cls]) == set(scenarios)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_operation_is_a_span_without_values(
    kind: str, mongo_uri: str, database_name: str, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(kind, mongo_uri) as client:
        saver = Calls(MongoSaver(client, database_name, slow_ms=0), kind)
        store = Calls(MongoStore(client, database_name, index=words(), slow_ms=0), kind)
        cache: Calls = Calls(MongoCache(client, database_name, slow_ms=0), kind)
        for memory, calls, scenarios in (
            ("saver", saver, OF_SAVER),
            ("store", store, OF_STORE),
            ("cache", cache, OF_CACHE),
        ):
            for name, scenario in scenarios.items():
                spans.clear()
                await scenario(calls)
                is_batched = calls.is_async and name == "delete"  # as `put`: they share batches
                assert f"{memory}.{'put' if is_batched else name}" in spans.operations
                check(spans, database_name)
    assert CANARY not in caplog.text


def check(spans: Spans, database: str) -> None:
    for span in spans.own:
        told: Any = json.loads(span.to_json())
        assert CANARY not in json.dumps(told)
        assert span.kind is SpanKind.CLIENT
        assert span.status.status_code is StatusCode.UNSET
        attributes = dict(span.attributes or {})
        assert attributes["db.system.name"] == "mongodb"
        assert attributes["db.namespace"] == database
        assert span.name == f"{name_of(span)} {attributes['db.collection.name']}"
        assert isinstance(attributes["mongomem.round_trips"], int)


def test_operations_of_both_memories_are_spans(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    user = memory.user("ada")
    user.remember(CANARY)
    user.update_profile({"city": CANARY})
    exported = user.export().to_json()
    memory.import_user(exported)
    memory.erase_user("ada")
    assert spans.operations == [
        "store.put",
        "store.update_profile",
        "saver.export_user",
        "saver.import_user",
        "saver.erase_user",
    ]
    assert all(one.attributes["mongomem.round_trips"] for one in spans.own)
    assert methods_of(User) >= {"remember", "update_profile", "export", "erase"}


# What they are about.


async def test_the_subject_is_a_thread_or_a_namespace(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    saver, store = MongoSaver(mongo_client, database_name), MongoStore(mongo_client, database_name)
    saver.get_tuple({"configurable": {"thread_id": 7}})
    saver.prune(["one"])
    saver.prune(["one", "two"])
    store.search(NAMESPACE)
    store.batch([GetOp(("a",), "k"), GetOp(("a",), "l")])
    store.batch([GetOp(("a",), "k"), SearchOp(("b",))])
    store.batch(op for op in [GetOp(("a",), "k")])
    await asyncio.gather(*(store.aget(("a",), str(number)) for number in range(3)))
    subjects = [
        {
            name: one.attributes[name]
            for name in ("mongomem.thread_id", "mongomem.namespace", "db.operation.batch.size")
            if name in one.attributes
        }
        for one in spans.own
    ]
    assert subjects == [
        {"mongomem.thread_id": "7"},
        {"mongomem.thread_id": "one"},
        {"db.operation.batch.size": 2},
        {"mongomem.namespace": NAMESPACE},
        {"mongomem.namespace": ("a",), "db.operation.batch.size": 2},
        {"db.operation.batch.size": 2},
        {},
        {"mongomem.namespace": ("a",), "db.operation.batch.size": 3},
    ]


async def test_the_documents_name_every_attribute(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    saver, store = MongoSaver(mongo_client, database_name), MongoStore(mongo_client, database_name)
    store.setup()
    await put(Calls(saver, "blocking"))
    store.batch([GetOp(("a",), "k"), SearchOp(("a",))])
    mongo_client[database_name].command(
        {"collMod": "mongomem_store_items", "validator": {"canary": CANARY}}
    )
    with pytest.raises(PyMongoError):
        store.put(("a",), "k", {})
    mongo_client[database_name].command({"collMod": "mongomem_store_items", "validator": {}})
    found = {name for one in spans.own for name in one.attributes or {}}
    docs = Path(__file__).parents[2] / "docs"
    for page in ("how-to/observe.md", "reference/spans.rst"):
        told = re.findall(r"`((?:db|error|mongomem)\.[a-z_.]+)`", (docs / page).read_text("utf-8"))
        assert {*told} == found, page


# What they hang on.


@pytest.mark.parametrize("kind", ["blocking", "threaded", "awaiting"])
async def test_commands_are_sent_below_the_span_of_their_operation(
    kind: str, mongo_uri: str, database_name: str, spans: Spans
) -> None:
    sent = Sent()
    is_native = kind == "awaiting"
    client: Any = (AsyncMongoClient if is_native else MongoClient)(
        mongo_uri, event_listeners=[sent]
    )
    saver = Calls(MongoSaver(client, database_name), kind)
    await saver("setup")
    for call in (put, lambda saver: saver("get_tuple", THREAD), lambda saver: saver.list(THREAD)):
        sent.spans.clear()
        spans.clear()
        with spans.tracer.start_as_current_span("node") as parent:
            await call(saver)
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert sent.spans
        assert {one.context.span_id for one in spans.own} == set(sent.spans)
        assert {one.parent.span_id for one in spans.own if one.parent} == {
            parent.get_span_context().span_id
        }
    await client.close() if is_native else client.close()


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_tasks_beside_each_other_have_spans_of_their_own(
    kind: str, mongo_uri: str, database_name: str, spans: Spans
) -> None:
    async with client_of(kind, mongo_uri) as client:
        saver = MongoSaver(client, database_name)
        await saver.asetup()
        spans.clear()

        async def turn(number: int) -> tuple[str, int]:
            with spans.tracer.start_as_current_span("turn") as parent:
                config: Any = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
                await saver.aput(config, checkpoint_of(a=number), METADATA, {})
                await saver.aget_tuple(config)
                return str(number), parent.get_span_context().span_id

        parents = dict(await asyncio.gather(*(turn(number) for number in range(8))))
    found = [
        (one.attributes["mongomem.thread_id"], one.parent and one.parent.span_id)
        for one in spans.own
    ]
    assert sorted(found) == sorted([*parents.items(), *parents.items()])


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_a_sync_node_of_an_async_run_has_its_span_above(
    kind: str, mongo_uri: str, database_name: str, spans: Spans
) -> None:
    """The node runs in a thread of the executor, and calls the store of a loop from there."""
    seen: list[int] = []

    def node(state: MessagesState, runtime: Runtime) -> dict[str, Any]:
        with spans.tracer.start_as_current_span("node") as span:
            seen.append(span.get_span_context().span_id)
            assert runtime.store is not None
            runtime.store.put(NAMESPACE, "k", {"text": CANARY})
        return {"messages": [("ai", "Noted.")]}

    async with client_of(kind, mongo_uri) as client:
        memory = MongoMemory(client, database_name)
        builder = StateGraph(MessagesState).add_node(node).add_edge(START, "node")
        graph = builder.compile(checkpointer=memory.saver, store=memory.store)
        with spans.tracer.start_as_current_span("run") as run:
            await graph.ainvoke({"messages": [("user", CANARY)]}, memory.user("ada").config("t"))
    above = {name_of(one): one.parent and one.parent.span_id for one in spans.own}
    (of_node,) = [one for one in spans.own if one.attributes["mongomem.memory"] == "store"]
    assert of_node.parent is not None
    assert [of_node.parent.span_id] == seen
    assert above["get_tuple"] == run.get_span_context().span_id
    assert CANARY not in "".join(one.to_json() for one in spans.own)


def test_what_is_not_sampled_is_not_told_but_stays_the_parent(
    mongo_uri: str, database_name: str
) -> None:
    sent = Sent()
    with (
        provided(Spans(ALWAYS_OFF)) as spans,
        MongoClient(mongo_uri, event_listeners=[sent]) as client,
    ):
        MongoSaver(client, database_name).get_tuple(THREAD)
        assert spans.own == []
        assert 0 not in sent.spans


# What they count.


def test_round_trips_and_bytes_are_those_that_the_driver_sends(
    mongo_uri: str, database_name: str, spans: Spans
) -> None:
    sent = Sent()
    with MongoClient(mongo_uri, event_listeners=[sent]) as client:
        saver = MongoSaver(client, database_name)
        saver.setup()
        for call in (
            lambda: saver.put(THREAD, checkpoint_of(a="x" * 30_000, b=1.5), METADATA, {}),
            lambda: saver.get_tuple(THREAD),
            lambda: list(saver.list(THREAD)),
        ):
            sent.commands.clear()
            spans.clear()
            call()
            assert spans.own[0].attributes["mongomem.round_trips"] == len(sent.commands)
        spans.clear()
        sent.commands.clear()
        saver.put(THREAD, checkpoint_of(a="y" * 3_000, b=[1, None, {"c": 2**40}]), METADATA, {})
        (update,) = sent.commands
        statements = sum(len(bson.encode(one)) for one in update["updates"])
        # Beside the statements the command has its name, and each statement its braces.
        counted = spans.only().attributes["mongomem.sent_bytes"]
        assert abs(counted - statements) <= 40 * len(update["updates"])


def test_received_bytes_are_those_of_the_documents(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    store = MongoStore(mongo_client, database_name)
    store.put(NAMESPACE, "k", {"text": "Grüße " * 1000, "n": [1, 2.5, True, None] * 20})
    spans.clear()
    store.get(NAMESPACE, "k")
    stored: Any = mongo_client[database_name]["mongomem_store_items"].find_one()
    assert 0 < spans.only().attributes["mongomem.received_bytes"] <= len(bson.encode(stored))
    assert spans.only().attributes["mongomem.received_bytes"] > 6000


def cache_use(spans: Spans) -> tuple[Any, Any]:
    attributes = spans.only().attributes or {}
    return attributes.get("mongomem.cache.hits"), attributes.get("mongomem.cache.misses")


def test_hits_are_what_a_process_remembers(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    long = {"a": ["message " + str(number) * 700 for number in range(20)]}
    config = MongoSaver(mongo_client, database_name).put(
        THREAD, checkpoint_of(**long), METADATA, {}
    )
    saver = MongoSaver(mongo_client, database_name)
    saver.setup()
    uses = []
    for call in (
        lambda: saver.get_tuple(config),
        lambda: saver.get_tuple(config),
        lambda: saver.put(config, checkpoint_of(**long), METADATA, {}),
        lambda: saver.put(THREAD, checkpoint_of(**long), METADATA, {}),
    ):
        spans.clear()
        call()
        uses.append(cache_use(spans))
    (chunks,) = {misses for hits, misses in uses[:1] if hits == 0}
    assert uses[1] == (chunks, 0)
    assert uses[2] == (0, 1)  # the thread was not known when the parent was read
    assert uses[3] == (1, 0)


def test_hits_of_the_index_and_of_the_cache(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    store = MongoStore(mongo_client, database_name, index=words())
    cache: MongoCache[Any] = MongoCache(mongo_client, database_name)
    store.put(NAMESPACE, "k", {"text": "green tea"})
    cache.set({KEY: (1, None)})
    uses = []
    for call in (
        lambda: store.search(NAMESPACE, query="tea"),
        lambda: store.search(NAMESPACE, query="tea"),
        lambda: cache.get([KEY, (KEY[0], "other")]),
    ):
        spans.clear()
        call()
        uses.append(cache_use(spans))
    assert uses == [(0, 1), (1, 0), (1, 1)]


# How they end.


def test_an_error_is_told_by_its_type(
    mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    store = MongoStore(mongo_client, database_name)
    with pytest.raises(UnstorableValueError, match="canary"):
        store.put(NAMESPACE, "k", {"canary": object()})
    span = spans.only()
    assert span.attributes["error.type"] == "mongomem.errors.UnstorableValueError"
    assert (span.status.status_code, span.status.description) == (
        StatusCode.ERROR,
        "UnstorableValueError",
    )
    assert span.events == ()
    assert "canary" not in span.to_json()


@pytest.mark.parametrize("kind", ["blocking", "threaded", "awaiting"])
async def test_an_error_of_the_server_is_told_with_its_code(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str, spans: Spans
) -> None:
    async with client_of(kind, mongo_uri) as client:
        saver = Calls(MongoSaver(client, database_name), kind)
        await saver("setup")
        collection = {"collMod": "mongomem_checkpoints"}
        mongo_client[database_name].command({**collection, "validator": {"canary": CANARY}})
        spans.clear()
        with pytest.raises(PyMongoError) as met:
            await put(saver)
        mongo_client[database_name].command({**collection, "validator": {}})
    span = spans.only()
    assert span.attributes["error.type"] == "pymongo.errors.BulkWriteError"
    assert span.attributes["db.response.status_code"] == "121"
    assert span.attributes["mongomem.round_trips"] >= 1
    assert CANARY not in span.to_json()
    if sys.version_info >= (3, 11):
        assert met.value.__notes__ == ["mongomem: UpdateCommand on mongomem_checkpoints"]


async def test_a_call_that_is_cancelled_or_forgotten_ends_its_span(
    mongo_uri: str, database_name: str, spans: Spans
) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        saver = MongoSaver(client, database_name)
        await saver.asetup()
        spans.clear()
        task = asyncio.create_task(saver.aget_tuple(THREAD))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert spans.only().attributes["error.type"] == "asyncio.exceptions.CancelledError"
        spans.clear()
        with pytest.warns(RuntimeWarning, match="coroutine 'get_tuple' was never awaited"):
            saver.aget_tuple(THREAD)
        assert spans.only().attributes["error.type"] == "builtins.GeneratorExit"


# Where nobody looks.


def test_where_no_spans_are_provided_a_plan_stays_as_it_is(
    mongo_client: MongoClient, database_name: str
) -> None:
    async def plan() -> int:
        return 7

    saver, given = MongoSaver(mongo_client, database_name), plan()
    assert saver._observed("put", given, config=THREAD) is given
    with provided(Spans()):
        observed = saver._observed("put", given, config=THREAD)
        assert observed is not given
        assert saver._runners.run(observed) == 7


def test_opentelemetry_is_not_imported_for_it() -> None:
    code = (
        "import sys, mongomem; from pymongo import MongoClient; "
        "saver = mongomem.MongoSaver(MongoClient(connect=False)); "
        "saver._observed('x', (lambda: None)()); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
