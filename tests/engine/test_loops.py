"""Sync methods on an AsyncMongoClient: from other threads they work, on its loop they say what to
do; none hangs.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.types import Command as Resume
from langgraph.types import Send, interrupt
from pymongo import AsyncMongoClient

import mongomem
from mongomem import MongoMemory, MongoSaver, MongoStore, UsageError
from mongomem.engine import loops
from mongomem.engine.commands import Plan
from mongomem.engine.effects import HEAVY_BYTES, Compute, Sleep
from mongomem.engine.runners import Concerns, Runners, runners_for
from support.graphs import State, Steps, chain_of
from support.savers import Calls, loop_in_thread
from support.stores import words
from support.waits import HANG_SECONDS, await_that

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
async def client(mongo_uri: str) -> AsyncIterator[AsyncMongoClient]:
    async with AsyncMongoClient(mongo_uri) as client:
        yield client


@pytest.fixture
async def memory(client: AsyncMongoClient, database_name: str) -> MongoMemory:
    return MongoMemory(client, database_name, index=words())


@pytest.fixture
async def runners(client: AsyncMongoClient) -> Runners:
    return runners_for(client, "d", Concerns())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waiting threads lose patience soon."""
    monkeypatch.setattr(loops, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(loops, "SLICE_SECONDS", 0.05)


def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a thread that no loop knows; return its result or raise its error."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result(HANG_SECONDS)


class Told:
    """A plan that waits, and keeps what it met."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.events: list[str] = []
        self.has_begun = threading.Event()

    async def plan(self) -> str:
        await Sleep(0)
        self.events.append("begun")
        self.has_begun.set()
        try:
            await Sleep(self.seconds)
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise
        return "done"


# What works.


async def test_a_saver_is_called_from_worker_threads(memory: MongoMemory) -> None:
    saver = memory.saver

    class FromThreads(Calls):
        async def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(getattr(saver, name), *args, **kwargs)

    calls = FromThreads(saver, "bridging")
    steps = Steps(calls)
    for number in range(5):
        await steps.put(number=number, text="x" * 5_000)
    await calls("put_writes", steps.config, [("text", "late")], "task")
    found = await calls("get_tuple", THREAD)
    assert found == await saver.aget_tuple(THREAD)
    assert found.pending_writes == [("task", "text", "late")]
    listed = await asyncio.to_thread(lambda: list(saver.list(THREAD)))
    assert listed == [one async for one in saver.alist(THREAD)]
    assert len(listed) == 5
    await calls("copy_thread", "t", "copy")
    assert {thread.thread_id for thread in await calls("list_threads")} == {"t", "copy"}
    await calls("prune", ["t"])
    await calls("delete_thread", "copy")
    assert [one.checkpoint["channel_values"]["number"] async for one in saver.alist(None)] == [4]


async def test_breaking_out_of_a_listing_in_a_thread_leaves_nothing_open(
    memory: MongoMemory,
) -> None:
    steps = Steps(Calls(memory.saver, "awaiting"))
    for number in range(50):
        await steps.put(number=number)

    def newest() -> int:
        for one in memory.saver.list(THREAD):
            return int(one.checkpoint["channel_values"]["number"])
        return -1

    assert await asyncio.to_thread(newest) == 49


async def test_a_store_is_called_from_worker_threads(memory: MongoMemory) -> None:
    store = memory.store

    def work() -> list[Any]:
        store.put(("ada", "facts"), "tea", {"text": "likes green tea"})
        store.put(("ada", "facts"), "cat", {"text": "has a cat"}, index=["text"])
        found = store.search(("ada",), query="tea", limit=1)
        listed = store.list_namespaces(prefix=("ada",))
        store.delete(("ada", "facts"), "cat")
        return [
            found[0].key,
            listed,
            store.get(("ada", "facts"), "cat"),
            store.delete_namespace(("ada",)),
        ]

    assert await asyncio.to_thread(work) == ["tea", [("ada", "facts")], None, 1]


async def test_everything_of_a_user_is_exported_and_erased_from_a_thread(
    memory: MongoMemory,
) -> None:
    graph = chain_of(memory.saver, "one", store=memory.store)
    config: Any = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    await graph.ainvoke({"topic": "tea"}, config)
    await memory.store.aput(("ada", "facts"), "k", {"text": "tea"})
    exported = await asyncio.to_thread(lambda: list(memory.export_user("ada")))
    assert exported == [one async for one in memory.aexport_user("ada")]
    erased = await asyncio.to_thread(memory.erase_user, "ada")
    assert (erased.threads, erased.memories) == (["t"], 1)
    await asyncio.to_thread(memory.setup)


async def test_sync_nodes_of_an_awaited_graph_use_store_and_saver(memory: MongoMemory) -> None:
    def remember(state: State, runtime: Runtime) -> State:
        assert runtime.store is not None
        runtime.store.put(("ada",), "topic", {"text": state["topic"]})
        found = runtime.store.search(("ada",), query=state["topic"], limit=1)
        return {"log": [found[0].value["text"]]}

    builder = StateGraph(State).add_node("remember", remember).add_edge(START, "remember")
    graph = builder.compile(checkpointer=memory.saver, store=memory.store)
    assert (await graph.ainvoke({"topic": "tea"}, THREAD))["log"] == ["tea"]


async def test_a_sync_tool_of_an_awaited_graph_uses_the_store(memory: MongoMemory) -> None:
    @tool
    def remember(text: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Remember a text."""
        store.put(("ada",), "fact", {"text": text})
        return store.get(("ada",), "fact").value["text"]

    builder = (
        StateGraph(MessagesState).add_node("tools", ToolNode([remember])).add_edge(START, "tools")
    )
    graph = builder.compile(checkpointer=memory.saver, store=memory.store)
    call = {"name": "remember", "args": {"text": "tea"}, "id": "1", "type": "tool_call"}
    result = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, THREAD)
    assert result["messages"][-1].content == "tea"


@pytest.mark.parametrize("has_memory", [True, None])
async def test_a_sync_subgraph_of_an_awaited_graph_keeps_its_state(
    memory: MongoMemory, has_memory: bool | None
) -> None:
    child = StateGraph(State)
    child.add_node("ask", lambda state: {"log": [f"answer {interrupt('well?')}"]})
    inner = child.add_edge(START, "ask").compile(checkpointer=has_memory)
    # Before Python 3.11 LangGraph hands the config of a task on where it is passed, and only there.
    parent = StateGraph(State).add_node(
        "call", lambda state, config: inner.invoke({"topic": state["topic"]}, config)
    )
    graph = parent.add_edge(START, "call").compile(checkpointer=memory.saver)
    assert "__interrupt__" in await graph.ainvoke({"topic": "tea"}, THREAD)
    assert (await graph.ainvoke(Resume(resume="yes"), THREAD))["log"] == ["answer yes"]


async def test_whole_graphs_run_sync_in_worker_threads(memory: MongoMemory) -> None:
    graph = chain_of(memory.saver, "one", "two")

    def endpoint(number: int) -> list[str]:
        config: Any = {"configurable": {"thread_id": str(number)}}
        graph.invoke({"topic": "tea"}, config)
        assert len(list(graph.get_state_history(config))) == 4
        return graph.get_state(config).values["log"]

    with ThreadPoolExecutor(40) as pool:  # as a web framework calls its `def` endpoints
        loop = asyncio.get_running_loop()
        answers = await asyncio.gather(
            *(loop.run_in_executor(pool, endpoint, number) for number in range(40))
        )
    assert answers == [["one", "two"]] * 40


async def test_a_saver_knows_the_loop_that_only_the_store_was_used_in(
    mongo_uri: str, database_name: str
) -> None:
    client: Any = await asyncio.to_thread(AsyncMongoClient, mongo_uri)
    saver = await asyncio.to_thread(MongoSaver, client, database_name)
    store = await asyncio.to_thread(MongoStore, client, database_name)
    with pytest.raises(UsageError, match="belongs to no event loop yet"):
        await asyncio.to_thread(saver.get_tuple, THREAD)
    await store.aput(("ada",), "k", {"text": "tea"})
    assert await asyncio.to_thread(saver.get_tuple, THREAD) is None
    await client.close()


@pytest.mark.parametrize("made", [MongoMemory, MongoSaver, MongoStore])
async def test_entering_and_making_within_a_loop_are_enough_to_know_it(
    made: Any, mongo_uri: str, database_name: str
) -> None:
    async with made.from_conn_string(mongo_uri, db_name=database_name, open_timeout=None) as one:
        await asyncio.to_thread(one.setup)
    client: Any = AsyncMongoClient(mongo_uri)
    await asyncio.to_thread(made(client, database_name).setup)
    await client.close()


async def test_the_loop_that_uses_a_client_first_is_its_own_wherever_it_was_made(
    mongo_uri: str, database_name: str
) -> None:
    client: Any = AsyncMongoClient(mongo_uri)
    saver = MongoSaver(client, database_name)  # here a loop runs, but not the one that will use it
    with loop_in_thread() as run:
        assert await run(saver.aget_tuple(THREAD)) is None
        assert saver.get_tuple(THREAD) is None
        with pytest.raises(UsageError, match="belongs to another event loop"):
            await saver.aget_tuple(THREAD)
        await run(client.close())


async def test_two_clients_of_two_loops_do_not_meet(mongo_uri: str, database_name: str) -> None:
    """They are equal, and of one hash: they lead to the same server."""
    async with AsyncMongoClient(mongo_uri) as here:
        own = MongoSaver(here, database_name)
        assert await own.aget_tuple(THREAD) is None
        with loop_in_thread() as run:
            there: Any = AsyncMongoClient(mongo_uri)
            other = MongoSaver(there, database_name)
            assert await run(other.aget_tuple(THREAD)) is None
            assert other.get_tuple(THREAD) is None
            assert await own.aget_tuple(THREAD) is None
            await run(there.close())


async def test_context_and_errors_of_a_plan_are_those_of_the_caller(runners: Runners) -> None:
    variable = contextvars.ContextVar("variable", default="default")

    async def plan() -> str:
        await Sleep(0)
        return variable.get()

    async def slow() -> None:
        await Sleep(0.3)
        raise TimeoutError("of the plan")

    def call() -> str:
        variable.set("of the caller")
        with pytest.raises(TimeoutError, match="of the plan"):
            runners.run(slow())
        with pytest.raises(LookupError, match="at once"):
            runners.run(raising())
        return runners.run(plan())

    async def raising() -> None:
        raise LookupError("at once")

    assert await asyncio.to_thread(call) == "of the caller"


async def test_what_a_plan_computes_first_is_computed_by_the_caller(runners: Runners) -> None:
    async def plan() -> list[str]:
        def here() -> str:
            return threading.current_thread().name

        first = [await Compute(here, 1), await Compute(here)]
        await Sleep(0)
        return [*first, await Compute(here, 1)]

    with ThreadPoolExecutor(1, thread_name_prefix="caller") as pool:
        names = await asyncio.get_running_loop().run_in_executor(pool, lambda: runners.run(plan()))
    assert names == ["caller_0", "caller_0", threading.current_thread().name]


async def test_threads_that_wait_leave_the_loop_what_it_needs_to_go_on(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers of the loop wait for plans that look up an address, compute for long and
    embed.
    """
    monkeypatch.setattr(loops, "RELIEF_SECONDS", 0.2)
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    async with AsyncMongoClient(mongo_uri) as client:
        memory = MongoMemory(client, database_name, index=words())
        graph = chain_of(memory.saver, "one", "two")
        given = {"topic": "x" * 2 * HEAVY_BYTES}
        await asyncio.to_thread(graph.invoke, given, THREAD)
        memory.saver._caches.forget_all()
        assert (await asyncio.to_thread(graph.get_state, THREAD)).values["topic"] == given["topic"]
        await asyncio.gather(
            *(
                asyncio.to_thread(memory.store.put, ("ada",), str(number), {"text": "tea"})
                for number in range(5)
            ),
            *(asyncio.to_thread(memory.store.search, ("ada",), query="tea") for _ in range(5)),
        )
        assert len(await memory.store.asearch(("ada",))) == 5


class Pool(ThreadPoolExecutor):
    """An executor whose threads never come free: what it is given waits."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.released = threading.Event()
        for _ in range(limit):
            self.submit(self.released.wait)


@pytest.fixture
def pool(clock: list[float]) -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.released.set()
    made.shutdown()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, in hand."""
    now = [1000.0]
    monkeypatch.setattr(loops, "monotonic", lambda: now[0])
    return now


def test_a_queue_that_moves_is_given_no_more_threads(pool: Pool, clock: list[float]) -> None:
    """However long, and however long each piece of work takes."""
    workers = loops._Workers()
    for _ in range(600):
        pool.submit(print)
    for _ in range(50):
        clock[0] += loops.RELIEF_SECONDS * 0.9
        workers.relieve(pool)
        workers.move()
    assert pool._max_workers == len(pool._threads) == 2


def test_where_nothing_moves_threads_are_lent_up_to_a_ceiling_and_taken_back(
    pool: Pool, clock: list[float]
) -> None:
    workers, limits = loops._Workers(), []
    for _ in range(3_000):
        pool.submit(pool.released.wait)
    for _ in range(12):
        workers.relieve(pool)
        assert pool._max_workers == (limits[-1] if limits else 2), "not before its time"
        clock[0] += loops.RELIEF_SECONDS
        workers.relieve(pool)
        limits.append(pool._max_workers)
    assert limits[:4] == [4, 8, 16, 32]
    assert limits[-1] == loops.MOST_THREADS
    pool.released.set()
    await_that(lambda: not pool._work_queue.qsize())
    workers.relieve(pool)
    assert pool._max_workers == 2


async def test_a_burst_after_a_rest_is_given_no_more_threads(clock: list[float]) -> None:
    loop, executor = asyncio.get_running_loop(), ThreadPoolExecutor(2)
    loop.set_default_executor(executor)

    limits = set()

    async def look() -> None:
        limits.add(executor._max_workers)

    for _ in range(2):
        clock[0] += 100 * loops.RELIEF_SECONDS
        await asyncio.gather(
            *(asyncio.to_thread(loops.run_on, loop, look(), None) for _ in range(30))
        )
    assert limits == {2}


async def test_a_fan_out_of_sync_nodes_on_a_cold_client(mongo_uri: str, database_name: str) -> None:
    async with AsyncMongoClient(mongo_uri) as cold, AsyncMongoClient(mongo_uri) as client:
        store = MongoStore(cold, database_name)

        def work(one: Any) -> State:
            store.put(("numbers",), str(one["number"]), {"n": one["number"]})
            return {"log": [one["number"]]}

        builder = (
            StateGraph(State)
            .add_node("plan", lambda state: {})
            .add_node("work", work)
            .add_edge(START, "plan")
        )
        builder.add_conditional_edges(
            "plan", lambda _: [Send("work", {"number": n}) for n in range(40)], ["work"]
        )
        graph = builder.compile(checkpointer=MongoSaver(client, database_name))
        assert sorted((await graph.ainvoke({"log": []}, THREAD))["log"]) == list(range(40))
        assert len(await store.asearch(("numbers",), limit=100)) == 40


# What says why it cannot work.


async def test_on_the_loop_itself_the_error_comes_at_once(memory: MongoMemory) -> None:
    store, saver = memory.store, memory.saver
    for call in (
        lambda: saver.get_tuple(THREAD),
        lambda: next(saver.list(THREAD)),
        lambda: store.get(("ada",), "k"),
        lambda: store.batch([]),
        lambda: next(memory.export_user("ada")),
        memory.setup,
    ):
        with pytest.raises(UsageError, match="await the async twin"):
            call()


async def test_below_another_loop_of_the_same_thread_the_error_comes_at_once(
    memory: MongoMemory,
) -> None:
    """As with nest_asyncio, or a sync node that runs a loop of its own: the client's loop waits
    below.
    """
    assert await memory.saver.aget_tuple(THREAD) is None

    async def nested() -> None:
        memory.saver.get_tuple(THREAD)

    outer = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    inner = asyncio.new_event_loop()
    try:
        with pytest.raises(UsageError, match="await the async twin"):
            memory.saver.get_tuple(THREAD)
        with pytest.raises(UsageError, match="await the async twin"):
            inner.run_until_complete(nested())
    finally:
        inner.close()
        asyncio._set_running_loop(outer)


async def test_a_loop_in_a_worker_thread_may_wait_for_the_client_s(memory: MongoMemory) -> None:
    async def elsewhere() -> Any:
        return memory.saver.get_tuple(THREAD)

    assert await asyncio.to_thread(asyncio.run, elsewhere()) is None


def test_a_client_that_no_loop_has_used_says_so(mongo_uri: str) -> None:
    saver = MongoSaver(AsyncMongoClient(mongo_uri))
    with pytest.raises(UsageError, match="belongs to no event loop yet"):
        saver.get_tuple(THREAD)

    async def within() -> None:
        with pytest.raises(UsageError, match="await the async twin"):
            saver.get_tuple(THREAD)

    asyncio.run(within())


def test_a_loop_that_has_ended_or_rests_is_named(mongo_uri: str, database_name: str) -> None:
    loop = asyncio.new_event_loop()
    client: Any = AsyncMongoClient(mongo_uri)
    saver = MongoSaver(client, database_name)
    loop.run_until_complete(saver.aget_tuple(THREAD))
    for call in (in_thread, lambda function: function()):
        with pytest.raises(UsageError, match="event loop of its AsyncMongoClient does not run"):
            call(lambda: saver.get_tuple(THREAD))
    loop.run_until_complete(client.close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    with pytest.raises(UsageError, match="event loop of its AsyncMongoClient has ended"):
        saver.get_tuple(THREAD)
    del loop
    gc.collect()
    with pytest.raises(UsageError, match="event loop of its AsyncMongoClient has ended"):
        saver.get_tuple(THREAD)


@pytest.fixture
def failures() -> Iterator[list[BaseException]]:
    """What was raised in the threads of a test."""
    found: list[BaseException] = []
    yield found
    assert found == [] or all(isinstance(one, UsageError) for one in found)


def waiting(runners: Runners, plan: Plan[Any], failures: list[BaseException]) -> threading.Thread:
    """Start a thread that waits for a plan, and keeps what it meets."""

    def wait() -> None:
        try:
            runners.run(plan)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_loop_that_ends_meanwhile_cancels_and_says_so(
    mongo_uri: str, failures: list[BaseException]
) -> None:
    told = Told()

    async def main() -> threading.Thread:
        client: Any = AsyncMongoClient(mongo_uri)
        thread = waiting(runners_for(client, "d", Concerns()), told.plan(), failures)
        await asyncio.to_thread(told.has_begun.wait, HANG_SECONDS)
        await client.close()
        return thread

    asyncio.run(main()).join(HANG_SECONDS)
    assert told.events == ["begun", "cancelled"]
    assert "was ending while a sync method waited for it" in str(failures[0])


def test_a_loop_that_stops_meanwhile_is_named(
    mongo_uri: str, failures: list[BaseException], impatient: None
) -> None:
    told, loop = Told(), asyncio.new_event_loop()

    async def main() -> threading.Thread:
        runners = runners_for(AsyncMongoClient(mongo_uri), "d", Concerns())
        thread = waiting(runners, told.plan(), failures)
        await asyncio.to_thread(told.has_begun.wait, HANG_SECONDS)
        return thread

    thread = loop.run_until_complete(main())
    thread.join(HANG_SECONDS)
    assert "stopped while a sync method waited for it" in str(failures[0])
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert told.events == ["begun", "cancelled"]


@pytest.mark.parametrize("begins", [False, True])
async def test_a_loop_that_waits_for_its_own_thread_is_no_deadlock(
    runners: Runners, failures: list[BaseException], impatient: None, begins: bool
) -> None:
    told = Told(1.0)
    thread = waiting(runners, told.plan(), failures)
    if begins:
        await asyncio.to_thread(told.has_begun.wait, HANG_SECONDS)
    thread.join(HANG_SECONDS)  # which blocks the loop
    assert not thread.is_alive()
    assert "something blocks it" in str(failures[0])
    assert (
        "was cancelled, and may have been done" if begins else "was withdrawn before it began"
    ) in str(failures[0])
    await asyncio.sleep(0.1)
    assert told.events == (["begun", "cancelled"] if begins else [])
    gc.collect()


async def test_a_slow_plan_on_a_loop_that_turns_is_waited_for(
    runners: Runners, impatient: None
) -> None:
    assert await asyncio.to_thread(runners.run, Told(1.0).plan()) == "done"


async def test_two_loops_that_wait_for_each_other_are_no_deadlock(
    mongo_uri: str, impatient: None
) -> None:
    async with AsyncMongoClient(mongo_uri) as here:
        mine = runners_for(here, "d", Concerns())
        with loop_in_thread() as run:
            both = threading.Barrier(2)

            async def there() -> Runners:
                return runners_for(AsyncMongoClient(mongo_uri), "d", Concerns())

            async def wait(runners: Runners) -> str:
                both.wait(HANG_SECONDS)
                try:
                    return runners.run(Told(0.01).plan())
                except UsageError as error:
                    return str(error)

            theirs = await run(there())
            other = run(wait(mine))
            answers = [await wait(theirs), await other]
    assert any("something blocks it" in answer for answer in answers)


async def test_what_never_ran_is_closed_and_nobody_warns(
    mongo_uri: str, database_name: str
) -> None:
    saver = MongoSaver(AsyncMongoClient(mongo_uri), database_name)
    for _ in range(3):
        with pytest.raises(UsageError):
            saver.get_tuple(THREAD)
    gc.collect()


async def test_cancelling_who_waits_for_the_thread_harms_nothing(runners: Runners) -> None:
    told = Told(0.2)
    task = asyncio.ensure_future(asyncio.to_thread(runners.run, told.plan()))
    await asyncio.to_thread(told.has_begun.wait, HANG_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await runners.arun(Told(0.01).plan()) == "done"


CTRL_C = """
import asyncio, signal, sys, threading
sys.path[:0] = [sys.argv[2]]
from pymongo import AsyncMongoClient
from mongomem.engine.runners import Concerns, runners_for
from mongomem.engine.effects import Sleep

has_begun = threading.Event()

def say(text):  # whole lines, from whatever thread
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

async def plan():
    await Sleep(0)
    has_begun.set()
    try:
        await Sleep(60)
    except asyncio.CancelledError:
        say("the plan was cancelled")
        raise

async def make():
    return runners_for(AsyncMongoClient(sys.argv[1], connect=False), "d", Concerns())

def interrupt_soon():
    has_begun.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt_soon, daemon=True).start()
"""

WAITING_IN_MAIN = (
    CTRL_C
    + """
loop = asyncio.new_event_loop()
thread = threading.Thread(target=loop.run_forever)
thread.start()
runners = asyncio.run_coroutine_threadsafe(make(), loop).result()
try:
    runners.run(plan())
except KeyboardInterrupt:
    say("interrupted")
asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop).result()
loop.call_soon_threadsafe(loop.stop)
thread.join()
loop.close()
"""
)

LOOP_IN_MAIN = (
    CTRL_C
    + """
def work(runners):
    try:
        runners.run(plan())
    except Exception as error:
        say(type(error).__name__)

async def main():
    await asyncio.to_thread(work, await make())

try:
    asyncio.run(main())
except KeyboardInterrupt:
    say("interrupted")
"""
)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (WAITING_IN_MAIN, ["interrupted", "the plan was cancelled"]),
        (LOOP_IN_MAIN, ["the plan was cancelled", "UsageError", "interrupted"]),
    ],
    ids=["the thread that waits", "the thread of the loop"],
)
def test_control_c_ends_the_wait_and_the_plan(
    program: str, said: list[str], mongo_uri: str
) -> None:
    root = str(Path(mongomem.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, mongo_uri, root],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (sorted(done.stdout.splitlines()), done.stderr, done.returncode) == (sorted(said), "", 0)


async def test_messages_of_a_thread_reach_the_next_turn(memory: MongoMemory) -> None:
    """A whole conversation, half of it sync from threads and half awaited."""
    builder = StateGraph(MessagesState).add_node(
        "answer", lambda state: {"messages": [AIMessage("ok")]}
    )
    graph = builder.add_edge(START, "answer").compile(checkpointer=memory.saver)
    for number in range(4):
        given: Any = {"messages": [HumanMessage(str(number))]}
        if number % 2:
            await asyncio.to_thread(graph.invoke, given, THREAD)
        else:
            await graph.ainvoke(given, THREAD)
    assert len((await asyncio.to_thread(graph.get_state, THREAD)).values["messages"]) == 8
