"""Everything of a user as JSON, imported into another database: the thread goes on there, and
nothing is lost.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import types
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import mongomock
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pymongo import MongoClient
from pymongo.errors import AutoReconnect
from typing_extensions import TypedDict

from mongomem import CorruptDataError, InvalidInputError, MongoMemory
from mongomem.testing import FailingRunner
from support.graphs import asking, chain_of, counting, extend, nested, normalised, passing_database
from support.savers import KINDS, Calls, client_of
from support.stores import words

INDEX: Any = words(64, fields=["text"])
SECRET = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
LONG = random.Random(5).randbytes(4500).hex()


def talk(*, is_async: bool = False) -> StateGraph:
    """Make a graph that answers at length, and asks before it answers a question."""

    def answer(state: MessagesState) -> dict[str, Any]:
        said = str(state["messages"][-1].text)
        if said.endswith("?"):
            return {"messages": [AIMessage(f"{interrupt('sure')}: {LONG}")]}
        return {"messages": [AIMessage(f"{said}: {LONG}")]}

    async def aanswer(state: MessagesState) -> dict[str, Any]:
        return answer(state)

    builder = StateGraph(MessagesState)
    builder.add_node("answer", aanswer if is_async else answer)
    return builder.add_edge(START, "answer")


@dataclass
class World:
    """A memory, called in the way of its client's kind."""

    memory: MongoMemory
    kind: str

    @property
    def is_async(self) -> bool:
        return self.kind in ("threaded", "awaiting")

    async def __call__(self, name: str, *args: Any) -> Any:
        return await Calls(self.memory, self.kind)(name, *args)

    async def graph(self, name: str, *args: Any) -> Any:
        graph = talk(is_async=self.is_async).compile(
            checkpointer=self.memory.saver, store=self.memory.store
        )
        return await Calls(graph, self.kind)(name, *args)

    async def json(self, user: Any) -> str:
        if self.is_async:
            return await self.memory.aexport_user(user).to_json()
        return self.memory.export_user(user).to_json()

    async def history(self, thread: str) -> list[str]:
        config: Any = {"configurable": {"thread_id": thread}}
        graph = talk(is_async=self.is_async).compile(checkpointer=self.memory.saver)
        if self.is_async:
            return normalised([one async for one in graph.aget_state_history(config)])
        return normalised(list(graph.get_state_history(config)))

    async def tuples(self, thread: str) -> Any:
        saver = Calls(self.memory.saver, self.kind)
        return await saver.list({"configurable": {"thread_id": thread}})

    async def memories(self, query: str | None = None) -> list[Any]:
        found = await Calls(self.memory.store, self.kind)(
            "search", ("ada@example%2Ecom",), query=query
        )
        return [(one.dict(), one.score) for one in found]


@pytest.fixture(params=KINDS)
async def worlds(
    request: Any, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> AsyncIterator[tuple[World, World]]:
    """A memory, and one on an empty database."""
    with passing_database(mongo_client) as other:
        async with client_of(request.param, mongo_uri) as client:
            yield (
                World(MongoMemory(client, database_name, index=INDEX), request.param),
                World(MongoMemory(client, other, index=INDEX), request.param),
            )


VALUES: dict[str, dict[str, Any]] = {
    "plain": {"text": "I like tea", "n": 1, "deep": {"list": [1.5, None, True, "ü"]}},
    "exact": {
        "text": "I like rum",
        "at": (1, b"\x00\xff", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)),
        "large": 2**80,
        "larger": 10**5000,
        "inf": float("inf"),
        "a.b": {"$x": 1},
    },
    "unfound": {"text": "nobody looks for this"},
}


async def fill(world: World) -> None:
    ada = world.memory.user("ada@example.com")
    for thread in ("1", "2"):
        for text in ("Hello", "I live in Lisbon"):
            given = {"messages": [HumanMessage(f"{text} {thread}")]}
            await world.graph("invoke", given, ada.config(thread))
    await world.graph("invoke", {"messages": [HumanMessage("Am I?")]}, ada.config("1"))
    bob = world.memory.user("bob").config("3")
    await world.graph("invoke", {"messages": [HumanMessage("of bob")]}, bob)
    saver, store = Calls(world.memory.saver, world.kind), Calls(world.memory.store, world.kind)
    await saver("update_thread", "2", {"title": "Lisbon", "tags": ["a"]})
    await saver("update_thread", "2", {"user_id": "grace"})
    for key, value in VALUES.items():
        index = False if key == "unfound" else None
        await store(
            "put",
            (*ada.namespace, "memories"),
            key,
            value,
            index,
            ttl=9 if index is False else None,
        )
    await store("put", ada.namespace, "of the root", {"text": "here"})
    await Calls(ada, world.kind)("update_profile", {"name": "Ada"})


async def test_a_user_moves_to_another_database(worlds: tuple[World, World]) -> None:
    here, there = worlds
    await fill(here)
    text = await here.json("ada@example.com")
    imported = await there("import_user", text)
    assert (imported.user_id, sorted(imported.threads)) == ("ada@example.com", ["1", "2"])
    assert imported.memories == 5
    for thread in ("1", "2"):
        assert await there.history(thread) == await here.history(thread)
        assert normalised(await there.tuples(thread)) == normalised(await here.tuples(thread))
    assert await there.memories() == await here.memories()
    assert await there.memories("who likes rum") == await here.memories("who likes rum")
    assert await there("erase_user", "bob") == await there("erase_user", "nobody")
    calls = [Calls(one.memory.user("ada@example.com"), one.kind) for one in worlds]
    shown = [await call("threads", count_checkpoints=True) for call in calls]
    assert shown[1] == shown[0]
    listed = [Calls(one.memory.user("grace"), one.kind) for one in worlds]
    assert [[one.thread_id for one in await call("threads")] for call in listed] == [["2"], ["2"]]
    again = json.loads(await there.json("ada@example.com"))
    assert strip(again) == strip(json.loads(text))


def strip(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out when it was exported."""
    return {key: value for key, value in document.items() if key != "exported_at"}


async def test_a_thread_goes_on_where_it_was_interrupted(worlds: tuple[World, World]) -> None:
    here, there = worlds
    await fill(here)
    await there("import_user", json.loads(await here.json("ada@example.com")))
    config = there.memory.user("ada@example.com").config("1")
    for world in worlds:
        result = await world.graph("invoke", Command(resume="Yes"), config)
        assert [message.text for message in result["messages"]][-2:] == ["Am I?", f"Yes: {LONG}"]
        result = await world.graph("invoke", {"messages": [HumanMessage("Thanks")]}, config)
        assert len(result["messages"]) == 8
    assert len(await there.tuples("1")) == len(await here.tuples("1"))


async def test_importing_again_changes_nothing(worlds: tuple[World, World]) -> None:
    here, there = worlds
    await fill(here)
    text = await here.json("ada@example.com")
    for _ in range(2):
        await there("import_user", text)
    assert strip(json.loads(await there.json("ada@example.com"))) == strip(json.loads(text))
    for thread in ("1", "2"):
        assert await there.history(thread) == await here.history(thread)


def pair(client: Any, **options: Any) -> tuple[MongoMemory, MongoMemory]:
    """Make memories on two databases."""
    return MongoMemory(client, "one", **options), MongoMemory(client, "two")


def test_the_transcript_is_for_people() -> None:
    here, _ = pair(mongomock.MongoClient())
    graph = talk().compile(checkpointer=here.saver)
    config = here.user("ada").config("1")
    for text in ("Hi", "Hi", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]):
        graph.invoke({"messages": [HumanMessage(text)]}, config)
    (thread,) = json.loads(here.export_user("ada").to_json())["threads"]
    lines = thread["transcript"]
    assert [(line["role"], line["text"].replace(LONG, "...")) for line in lines] == [
        ("human", "Hi"),
        ("ai", "Hi: ..."),
        ("human", "Hi"),
        ("ai", "Hi: ..."),
        ("human", "ab"),
        ("ai", "ab: ..."),
    ]
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert len(set(times)) == 6


@pytest.mark.parametrize("frequency", [1, 3, 1000])
def test_messages_of_a_delta_channel_are_told(frequency: int) -> None:
    here, _ = pair(mongomock.MongoClient())
    channel = DeltaChannel(extend, list, snapshot_frequency=frequency)
    schema = TypedDict("Delta", {"messages": Annotated[list, channel]})  # noqa: UP013 (a type made here)
    builder = StateGraph(schema)
    builder.add_node("answer", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=here.saver)
    for _ in range(3):
        graph.invoke({"messages": [HumanMessage("Hi")]}, here.user("ada").config("1"))
    (thread,) = json.loads(here.export_user("ada").to_json())["threads"]
    assert [line["text"] for line in thread["transcript"]] == ["Hi", "1", "Hi", "3", "Hi", "5"]


def test_messages_that_are_no_objects_are_told_too() -> None:
    here, _ = pair(mongomock.MongoClient())
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": "", "user_id": "ada"}}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {
        "messages": [{"role": "user", "content": "a"}, {"content": 7}, 3, None, "no role"]
    }
    checkpoint["channel_versions"] = {"messages": 1}
    here.saver.put(config, checkpoint, {"source": "input", "step": -1, "parents": {}}, {})
    (thread,) = json.loads(here.export_user("ada").to_json())["threads"]
    assert [(line["role"], line["text"]) for line in thread["transcript"]] == [("user", "a")]


def test_what_checkpoints_share_stands_there_once() -> None:
    here, there = pair(mongomock.MongoClient())
    graph = talk().compile(checkpointer=here.saver)
    for number in range(8):
        graph.invoke({"messages": [HumanMessage(str(number))]}, here.user("ada").config("1"))
    text = here.export_user("ada").to_json()
    (thread,) = json.loads(text)["threads"]
    assert sum(len(piece) for piece in thread["pieces"]) < 2 * 8 * len(LONG)
    there.import_user(text)
    state = talk().compile(checkpointer=there.saver).get_state(there.user("ada").config("1"))
    assert len(state.values["messages"]) == 16


@pytest.mark.parametrize("frequency", [1, 3, 1000])
def test_a_delta_channel_comes_along_also_after_a_prune(
    frequency: int, mongo_client: MongoClient, database_name: str
) -> None:
    with passing_database(mongo_client) as other:
        here, there = (MongoMemory(mongo_client, name) for name in (database_name, other))
        config = here.user("ada").config("1")
        graph = counting(here.saver, frequency)
        for number in range(6):
            graph.invoke({"items": [f"input {number}"]}, config)
        here.saver.prune(["1"], keep_last=2)
        there.import_user(here.export_user("ada").to_json())
        copied = counting(there.saver, frequency)
        assert normalised([*copied.get_state_history(config)]) == normalised(
            [*graph.get_state_history(config)]
        )
        for one in (graph, copied):
            one.invoke({"items": ["more"]}, config)
        assert copied.get_state(config).values == graph.get_state(config).values
        there.saver.prune(["1"])
        assert copied.get_state(config).values == graph.get_state(config).values


@pytest.mark.parametrize("make", [nested, asking, lambda saver: chain_of(saver, "a", "b", "c")])
def test_subgraphs_interrupts_and_forks_come_along(
    make: Callable[[Any], Any], mongo_client: MongoClient, database_name: str
) -> None:
    with passing_database(mongo_client) as other:
        here, there = (MongoMemory(mongo_client, name) for name in (database_name, other))
        config = here.user("ada").config("1")
        graph, copied = make(here.saver), make(there.saver)
        graph.invoke({"log": ["x"]}, config)
        first = [*graph.get_state_history(config)][-2]
        graph.update_state(first.config, {"log": ["forked"]})
        there.import_user(here.export_user("ada").to_json())
        assert normalised([*copied.get_state_history(config)]) == normalised(
            [*graph.get_state_history(config)]
        )
        listed = [normalised([*memory.saver.list(config)]) for memory in (here, there)]
        assert listed[1] == listed[0]


@pytest.mark.parametrize(("source", "target"), [(SECRET, None), (None, SECRET), (SECRET, SECRET)])
def test_encryption_is_that_of_each_database(
    source: Any, target: Any, mongo_client: MongoClient, database_name: str
) -> None:
    with passing_database(mongo_client) as other:
        here = MongoMemory(mongo_client, database_name, serde=source)
        there = MongoMemory(mongo_client, other, serde=target)
        config = here.user("ada").config("1")
        graph = talk().compile(checkpointer=here.saver)
        graph.invoke({"messages": [HumanMessage("canary")]}, config)
        there.import_user(here.export_user("ada").to_json())
        stored = str([*mongo_client[other]["mongomem_checkpoints"].find()])
        assert ("canary" in stored) is (target is None)
        copied = talk().compile(checkpointer=there.saver)
        assert copied.get_state(config).values == graph.get_state(config).values
        assert there.erase_user("ada").threads == ["1"]


@dataclass
class Trip:
    city: str


def test_types_that_are_not_imported_here_are_not_lost() -> None:
    """The import keeps the bytes: where the class is known again it comes back."""
    module = types.ModuleType("app_of_today")
    sys.modules["app_of_today"] = module
    local = type("Trip", (Trip,), {"__module__": "app_of_today"})
    module.Trip = dataclass(local)  # type: ignore[attr-defined]
    here, there = pair(mongomock.MongoClient())
    put_value(here, module.Trip("Lisbon"))  # type: ignore[attr-defined]
    text = here.export_user("ada").to_json()
    del sys.modules["app_of_today"]
    there.import_user(text)
    config: Any = {"configurable": {"thread_id": "1"}}
    found = there.saver.get_tuple(config)
    assert found is not None
    assert not isinstance(found.checkpoint["channel_values"]["a"], Trip)
    sys.modules["app_of_today"] = module
    try:
        fresh = MongoMemory(there._client, "two").saver.get_tuple(config)
    finally:
        del sys.modules["app_of_today"]
    assert fresh is not None
    assert fresh.checkpoint["channel_values"]["a"] == module.Trip("Lisbon")  # type: ignore[attr-defined]


def put_value(memory: MongoMemory, value: Any, thread: str = "1", user: str | None = "ada") -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "user_id": user}}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"a": value}, {"a": 1}
    stored = memory.saver.put(config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, {})
    memory.saver.put_writes(stored, [("a", value), ("b", 1)], "task", "path")


def label_only(memory: MongoMemory, user: str | None) -> None:
    """Store a thread that its checkpoints say another user of, or none, with what a checkpoint and
    a thread can have.
    """
    put_value(memory, "x" * 70_000, user=user)
    put_value(memory, "y", user=user)
    memory.saver.update_thread("1", {"user_id": "ada", "title": "T"})
    memory.store.put(("ada",), "k", {"n": (1,)})


@pytest.mark.parametrize("user", [None, "bob"])
def test_an_import_that_was_cut_short_is_finished_by_repeating_it(user: str | None) -> None:
    client = mongomock.MongoClient()
    here = MongoMemory(client, "one")
    label_only(here, user)
    text = here.export_user("ada").to_json()
    for broken_off_at in range(60):
        there = MongoMemory(client, f"two {broken_off_at}".replace(" ", "_"), auto_setup=False)
        whole = there._runners
        failing = FailingRunner(whole.run.database, broken_off_at)  # type: ignore[attr-defined]
        there._runners = replace(whole, run=failing)
        try:
            there.import_user(text)
        except AutoReconnect:
            there._runners = whole
            there.import_user(text)
            assert strip(json.loads(there.export_user("ada").to_json())) == strip(json.loads(text))
        else:
            break
    assert 8 < broken_off_at < 59


def test_a_thread_of_another_user_is_not_touched() -> None:
    here, there = pair(mongomock.MongoClient())
    put_value(here, "of ada")
    put_value(there, "of bob", user="bob")
    here.store.put(("ada",), "k", {"n": 1})
    with pytest.raises(InvalidInputError, match="thread '1' is there and not of user 'ada'"):
        there.import_user(here.export_user("ada").to_json())
    assert len(list(there.saver.list(None))) == 1
    assert there.store.search(()) == []


def test_a_thread_that_cannot_be_read_is_named_in_the_document(
    mongo_client: MongoClient, database_name: str
) -> None:
    other = EncryptedSerializer.from_pycryptodome_aes(key=b"fedcba9876543210")
    put_value(MongoMemory(mongo_client, database_name, serde=other), 1, "foreign", "grace")
    memory = MongoMemory(mongo_client, database_name, serde=SECRET)
    put_value(memory, 2, "own")
    document = json.loads(memory.export_user("ada").to_json())
    assert [one["thread_id"] for one in document["threads"]] == ["own"]
    assert document["undecided"] == ["foreign"]
    with pytest.raises(CorruptDataError, match="foreign"):
        list(memory.export_user("ada"))


def test_expired_and_damaged_items_are_left_out() -> None:
    client, now = mongomock.MongoClient(), [datetime.now(timezone.utc)]
    memory = MongoMemory(client, "one", store_options={"clock": lambda: now[0]})
    for key, ttl in (("a", None), ("b", 1), ("c", None)):
        memory.store.put(("ada",), key, {"n": 1}, ttl=ttl)
    now[0] += timedelta(minutes=2)
    client["one"]["mongomem_store_items"].update_one({"key": "c"}, {"$set": {"value": 7}})
    document = json.loads(memory.export_user("ada").to_json())
    assert [one["key"] for one in document["memories"]] == ["a"]


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document with another value in a place; ... takes it away."""
    made = json.loads(json.dumps(document))
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    part = made
    for step in way:
        part = part[step]  # type: ignore[index]
    if value is ...:
        del part[last]  # type: ignore[arg-type]
    else:
        part[last] = value  # type: ignore[index]
    return made


B64 = base64.b64encode(b"\xc1").decode()
CHECKPOINT = "threads.0.checkpoints.0"
WRONG: list[tuple[str, Any, str]] = [
    ("format", "other", r"data\.format must be \"mongomem\.user\", not 'other'"),
    ("format", ..., r"data has no 'format'"),
    ("version", 2, r"data\.version must be 1.* not 2"),
    ("version", True, r"data\.version"),
    ("user_id", "", r"data\.user_id: user_id is empty"),
    ("user_id", 7, r"data\.user_id must be a string"),
    ("threads", {}, r"data\.threads must be a list"),
    ("threads.0", 7, r"data\.threads\[0\] must be an object"),
    ("threads.0.thread_id", "", r"data\.threads\[0\]\.thread_id must be an identifier"),
    ("threads.0.created_at", "then", r"threads\[0\]\.created_at must be a time in ISO 8601"),
    (
        "threads.0.updated_at",
        "2026-01-01T00:00:00",
        r"updated_at must be a time with its time zone",
    ),
    ("threads.0.labels", [], r"threads\[0\]\.labels must be an object"),
    ("threads.0.users", {"user_id": "ada"}, r"threads\[0\]\.users\.user_id must be a list"),
    ("threads.0.pieces.0", "###", r"threads\[0\]\.pieces\[0\] must be base64"),
    (f"{CHECKPOINT}.id", ..., r"checkpoints\[0\] has no 'id'"),
    (f"{CHECKPOINT}.id", "other", r"checkpoints\[0\]\.checkpoint must be checkpoint 'other'"),
    (f"{CHECKPOINT}.namespace", None, r"checkpoints\[0\]\.namespace must be a string"),
    (f"{CHECKPOINT}.parent_id", 7, r"checkpoints\[0\]\.parent_id must be a string"),
    (f"{CHECKPOINT}.hidden", 1, r"checkpoints\[0\]\.hidden must be true"),
    (f"{CHECKPOINT}.checkpoint.type", "secret", r"cannot read a value of type 'secret'"),
    (f"{CHECKPOINT}.channels.a", {"type": "msgpack", "data": B64}, r"channels\.a: .*cannot read"),
    (f"{CHECKPOINT}.channels.a", {"type": "msgpack"}, r"channels\.a has no 'pieces'"),
    (f"{CHECKPOINT}.channels.a", {"type": "x", "pieces": [99]}, r"pieces\[0\] must be the place"),
    (f"{CHECKPOINT}.channels.a", {"type": "x", "pieces": [-1]}, r"pieces\[0\] must be a whole"),
    (f"{CHECKPOINT}.channels.a.type", "pickle", r"channels\.a: .*type 'pickle'"),
    ("threads.0.labels", {"a.b": 1}, r"threads\[0\]\.labels: the keys of metadata"),
    ("threads.0.labels", {"a": "x" * 20_000}, r"threads\[0\]\.labels: .*cannot stand readable"),
    ("threads.0.users", {"user_id": [7]}, r"threads\[0\]\.users\.user_id\[0\] must be a string"),
    ("threads.0.users", {"user_id": ["x" * 3000]}, r"users\.user_id\[0\] must be a user"),
    ("threads.0.updated_at", "0001-01-01T00:00:00+14:00", r"updated_at must be a time in UTC"),
    (f"{CHECKPOINT}.channels", {"": {"type": "null", "data": ""}}, r"checkpoints\[0\]: .*channel"),
    (f"{CHECKPOINT}.writes.0.channel", "", r"writes\[0\]\.channel must be an identifier"),
    (f"{CHECKPOINT}.writes.0.task_id", "x" * 70_000, r"writes\[0\]\.task_id must be an identifier"),
    (f"{CHECKPOINT}.writes.0.idx", "0", r"writes\[0\]\.idx must be a whole number"),
    (f"{CHECKPOINT}.writes.0.value", 7, r"writes\[0\]\.value must be an object"),
    ("memories.0.namespace", ["a.b"], r"memories\[0\]: A label of namespace holds a period"),
    ("memories.0.namespace", "a", r"memories\[0\]\.namespace must be a list"),
    ("memories.0.key", 7, r"memories\[0\]\.key must be a string"),
    ("memories.0.value", [], r"memories\[0\]\.value must be an object"),
    ("memories.0.encoded", B64, r"memories\[0\]\.encoded must be an encoded value"),
    ("memories.0.ttl_minutes", -1, r"memories\[0\]: ttl counts minutes"),
    ("memories.0.index", "text", r"memories\[0\]: .*index must be"),
    ("memories.0.created_at", None, r"memories\[0\]\.created_at must be a string|time"),
]


@pytest.mark.parametrize(("path", "value", "told"), WRONG)
def test_what_is_wrong_is_named_and_nothing_is_written(path: str, value: Any, told: str) -> None:
    here, there = pair(mongomock.MongoClient())
    put_value(here, "x" * 20_000)
    here.store.put(("ada",), "k", {"n": 1})
    document = json.loads(here.export_user("ada").to_json())
    with pytest.raises(InvalidInputError, match=told) as caught:
        there.import_user(changed(document, path, value))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert list(there.saver.list(None)) == there.store.search(()) == []


@pytest.mark.parametrize(
    "data", ["", "{", "[]", "7", b"\xff", "[" * 100_000, None, 7, [], object()]
)
def test_what_is_no_document_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^data "):
        MongoMemory(mongomock.MongoClient()).import_user(data)


def test_a_document_calls_nothing() -> None:
    """What msgpack names is revived as the serializer of the saver allows: nothing is called."""
    import ormsgpack
    from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG

    here, there = pair(mongomock.MongoClient())
    put_value(here, "x")
    called: list[str] = []
    module = types.ModuleType("app_with_a_function")
    module.function = called.append  # type: ignore[attr-defined]
    sys.modules["app_with_a_function"] = module
    evil = ormsgpack.packb(
        ormsgpack.Ext(
            EXT_CONSTRUCTOR_SINGLE_ARG,
            ormsgpack.packb(("app_with_a_function", "function", "called")),
        )
    )
    value = {"type": "msgpack", "data": base64.b64encode(evil).decode()}
    document = json.loads(here.export_user("ada").to_json())
    there.import_user(changed(document, f"{CHECKPOINT}.channels.a", value))
    assert there.saver.get_tuple({"configurable": {"thread_id": "1"}}) is not None
    del sys.modules["app_with_a_function"]
    assert called == []
