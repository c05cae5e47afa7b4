"""Benchmark of short chats: what a turn costs, many conversations side by side, a distant database.

    python benchmarks/short_chats.py            everything, about twenty minutes (Python 3.11)
    python benchmarks/short_chats.py --quick    small, to see that it runs

Each round measures every saver, one after the other, in a changing order; medians of the rounds are
compared. Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langgraph.graph import START, MessagesState, StateGraph

from delay import delayed
from mongomem import MongoSaver
from mongomem.engine.runners import BlockingRunner, Runners
from saver import header
from saver_chat import Chat, Saver, Script, WrongStateError
from saver_peers import OFFICIAL, OURS, POSTGRES, Uris
from saver_report import Compared, Row, Section, verdict
from servers import mongodb, postgres
from short_chat_calls import OPERATIONS, NoServer, Replayed, recorded_calls, repeat_puts, replay
from short_chat_peers import WORKERS, MongoDBSaver, async_savers, mongodb_saver, sync_savers

CALL_OF_OFFICIAL, TURN_OF_OFFICIAL, CPU_OF_POSTGRES = 1.05, 1.0, 1.25
"""A call, and the calls of a turn, as multiples of the official saver's; CPU of Postgres'."""

SIDE_BY_SIDE: Mapping[int, float] = {20: 1 / 1.1, 200: 1 / 2}
"""Time a turn of conversations side by side, of the official saver's, by the turns of each."""

ROUND_TRIP_SECONDS, DISTANT_OF_OFFICIAL = 0.005, 0.8


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is: rounds, threads of replayed calls, conversations by their turns."""

    rounds: int
    threads: int
    conversations: Mapping[int, int]
    turns: int


FULL = Scale(3, 5, {20: 64, 200: 6}, 20)
QUICK = Scale(1, 1, {4: 4}, 4)

Values = Mapping[str, float]


def in_rounds(
    names: Sequence[str], rounds: int, measure: Callable[[str], Sequence[float]]
) -> list[dict[str, float]]:
    """Measure each saver in each round; return the medians, a mapping for each number measured."""
    found: dict[str, list[Sequence[float]]] = {name: [] for name in names}
    for number in range(rounds):
        for offset in range(len(names)):
            name = names[(number + offset) % len(names)]
            gc.collect()
            found[name].append(measure(name))
    columns = {name: list(zip(*rows, strict=True)) for name, rows in found.items()}
    count = len(next(iter(columns.values())))
    return [
        {name: statistics.median(column[index]) for name, column in columns.items()}
        for index in range(count)
    ]


def compared(values: Values, other: str, limit: float | None) -> Compared:
    return Compared(f"/ {other}", values[OURS] / values[other], limit)


def call_section(savers: Mapping[str, Saver], scale: Scale) -> Section:
    """Tell what each call of a turn costs, made one after the other."""
    calls = recorded_calls(scale.turns)

    def measure(name: str) -> list[float]:
        replayed = Replayed()
        for _ in range(scale.threads):
            replay(savers[name], calls, uuid4().hex, replayed)
        walls = [replayed.wall_ms(operation) for operation in OPERATIONS]
        cpus = [replayed.cpu_ms(operation) for operation in OPERATIONS]
        turn = [replayed.turn_ms(replayed.wall_ms), replayed.turn_ms(replayed.cpu_ms)]
        return [*walls, *cpus, *turn]

    for name in savers:
        replay(savers[name], calls, uuid4().hex, Replayed())  # connections and indexes
    *of_calls, turn, turn_cpu = in_rounds(list(savers), scale.rounds, measure)
    section = Section(
        f"Saver calls of a chat of {scale.turns} turns, in ms",
        "calls that a graph made, repeated one by one; CPU of this process",
    )
    for label, values in zip(OPERATIONS, of_calls, strict=False):
        limit = CALL_OF_OFFICIAL
        section.rows.append(Row(label, values, [compared(values, OFFICIAL, limit)], digits=2))
    for label, values in zip(OPERATIONS, of_calls[len(OPERATIONS) :], strict=True):
        section.rows.append(
            Row(f"  CPU of {label}", values, [compared(values, OFFICIAL, None)], digits=2)
        )
    section.rows.append(
        Row("all of a turn", turn, [compared(turn, OFFICIAL, TURN_OF_OFFICIAL)], digits=2)
    )
    cpu_goals = [
        compared(turn_cpu, OFFICIAL, TURN_OF_OFFICIAL),
        compared(turn_cpu, POSTGRES, CPU_OF_POSTGRES),
    ]
    section.rows.append(Row("  CPU of a turn", turn_cpu, cpu_goals, digits=2))
    return section


def part_section(uris: Uris, scale: Scale) -> Section:
    """Tell where the time of a put goes: in the saver's own code, in the driver, at the server."""
    calls = recorded_calls(scale.turns)
    with ExitStack() as stack:
        makers: Mapping[str, Any] = {OURS: MongoSaver, OFFICIAL: MongoDBSaver}
        savers = {name: mongodb_saver(stack, uris.mongodb, made) for name, made in makers.items()}
        alone = {name: mongodb_saver(stack, uris.mongodb, made) for name, made in makers.items()}
        for saver in (*savers.values(), *alone.values()):
            repeat_puts(saver, calls, "first", Replayed())
        ours: Any = alone[OURS]
        official: Any = alone[OFFICIAL]
        ours._runners = Runners(BlockingRunner(NoServer()), ours._runners.arun)
        official.checkpoint_collection = NoServer()

        def measure(name: str) -> list[float]:
            own, whole = Replayed(), Replayed()
            for _ in range(scale.threads):
                repeat_puts(alone[name], calls, "first", own)
                repeat_puts(savers[name], calls, uuid4().hex, whole)
            code, cpu, wall = own.cpu_ms("put"), whole.cpu_ms("put"), whole.wall_ms("put")
            return [1e3 * part for part in (code, cpu - code, wall - cpu)]

        parts = in_rounds(list(savers), scale.rounds, measure)
    section = Section(
        "Where a put goes, in µs",
        "code: CPU of puts that no server is asked for; driver: CPU beyond that; server: the rest",
    )
    for label, values in zip(("the saver's code", "the driver", "the server"), parts, strict=True):
        section.rows.append(Row(label, values, [compared(values, OFFICIAL, None)], digits=0))
    return section


def chat_of(script: Script, saver: Saver, *, is_async: bool) -> Any:
    """Compile START -> reply, whose answers are those of a script."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [script.messages[len(state["messages"])]]}

    async def answer_awaited(state: MessagesState) -> dict[str, Any]:
        return answer(state)

    builder = StateGraph(MessagesState)
    builder.add_node("reply", answer_awaited if is_async else answer)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


def side_by_side(saver: Saver, conversations: int, script: Script) -> tuple[float, float]:
    """Play conversations in threads; return milliseconds of time and of CPU a turn."""
    graph, turns = chat_of(script, saver, is_async=False), len(script.messages) // 2

    def play(_: int) -> None:
        config = {"configurable": {"thread_id": uuid4().hex}}
        for turn in range(turns):
            state = graph.invoke({"messages": [script.messages[2 * turn]]}, config)
        check(state, script)

    begin, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(play, range(conversations)))
    return per_turn(begin, cpu, conversations * turns)


async def aside_by_side(saver: Saver, conversations: int, script: Script) -> tuple[float, float]:
    """Play conversations in one event loop, as `side_by_side` does in threads."""
    graph, turns = chat_of(script, saver, is_async=True), len(script.messages) // 2

    async def play() -> None:
        config = {"configurable": {"thread_id": uuid4().hex}}
        for turn in range(turns):
            state = await graph.ainvoke({"messages": [script.messages[2 * turn]]}, config)
        check(state, script)

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*[play() for _ in range(conversations)])
    return per_turn(begin, cpu, conversations * turns)


def check(state: Mapping[str, Any], script: Script) -> None:
    """Compare the last state of a conversation with the script.

    Raises:
        WrongStateError: It is another.
    """
    if state["messages"] != list(script.messages):
        raise WrongStateError("a conversation ended in another state than it should")


def per_turn(begin: float, cpu: float, turns: int) -> tuple[float, float]:
    wall = time.perf_counter() - begin
    return 1e3 * wall / turns, 1e3 * (time.process_time() - cpu) / turns


def throughput_rows(
    label: str, turns: int, found: Sequence[dict[str, float]], *, has_goal: bool
) -> list[Row]:
    wall, cpu = found
    goal = SIDE_BY_SIDE.get(turns) if has_goal else None
    cpu_goal = TURN_OF_OFFICIAL if turns == min(SIDE_BY_SIDE) and has_goal else None
    return [
        Row(label, wall, [compared(wall, OFFICIAL, goal)], digits=2),
        Row("  CPU of a turn", cpu, [compared(cpu, OFFICIAL, cpu_goal)], digits=2),
    ]


def throughput_section(uris: Uris, scale: Scale, *, is_async: bool) -> Section:
    """Tell what a turn takes while conversations go on side by side."""
    kind = "async" if is_async else "sync"
    section = Section(
        f"Conversations side by side, {kind}, in ms a turn",
        "one process; sync: 16 threads; a turn of all is what one takes of the time",
    )
    for turns, conversations in scale.conversations.items():
        script = Script.of(turns)
        measured = _async_rounds if is_async else _sync_rounds
        found = measured(uris, scale.rounds if turns <= scale.turns else 1, conversations, script)
        label = f"{conversations} of {turns} turns"
        section.rows += throughput_rows(label, turns, found, has_goal=turns in SIDE_BY_SIDE)
    return section


def _sync_rounds(
    uris: Uris, rounds: int, conversations: int, script: Script
) -> list[dict[str, float]]:
    with sync_savers(uris) as savers:
        return in_rounds(
            list(savers), rounds, lambda name: side_by_side(savers[name], conversations, script)
        )


def _async_rounds(
    uris: Uris, rounds: int, conversations: int, script: Script
) -> list[dict[str, float]]:
    with asyncio.Runner() as runner:
        context = async_savers(uris)
        savers = runner.run(context.__aenter__())
        try:
            return in_rounds(
                list(savers),
                rounds,
                lambda name: runner.run(aside_by_side(savers[name], conversations, script)),
            )
        finally:
            runner.run(context.__aexit__(None, None, None))


def distant_section(uris: Uris, scale: Scale) -> Section:
    """Tell what a turn takes where the database is some milliseconds away."""
    section = Section(
        f"A round trip of {ROUND_TRIP_SECONDS * 1e3:.0f} ms, in ms", "through a proxy on loopback"
    )
    script = Script.of(2 * scale.turns)
    with ExitStack() as stack:
        uri = stack.enter_context(delayed(uris.mongodb, ROUND_TRIP_SECONDS))
        savers = {
            OURS: mongodb_saver(stack, uri, MongoSaver),
            OFFICIAL: mongodb_saver(stack, uri, MongoDBSaver),
        }

        def measure(name: str) -> list[float]:
            chat = Chat.on(name, savers[name], script, uuid4().hex)
            turns = [chat.play(turn).wall for turn in range(1, scale.turns + 1)]
            return [1e3 * statistics.median(turns), 1e3 * chat.state(scale.turns)]

        turn, state = in_rounds(list(savers), scale.rounds, measure)
    goal = compared(turn, OFFICIAL, DISTANT_OF_OFFICIAL)
    section.rows.append(Row(f"a turn of {scale.turns}", turn, [goal]))
    section.rows.append(Row("get_state", state, [compared(state, OFFICIAL, None)]))
    return section


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--only", choices=("calls", "parts", "sync", "async", "distant"))
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else FULL
    done: list[Section] = []
    with ExitStack() as stack:
        uris = Uris(stack.enter_context(mongodb()), stack.enter_context(postgres()))
        print(header(uris), flush=True)
        savers = stack.enter_context(sync_savers(uris))
        sections: dict[str, Callable[[], Section]] = {
            "calls": lambda: call_section(savers, scale),
            "parts": lambda: part_section(uris, scale),
            "sync": lambda: throughput_section(uris, scale, is_async=False),
            "async": lambda: throughput_section(uris, scale, is_async=True),
            "distant": lambda: distant_section(uris, scale),
        }
        for name, measure in sections.items():
            if options.only in (None, name):
                section = measure()
                columns = dict.fromkeys(one for row in section.rows for one in row.values)
                print("\n".join(section.lines(list(columns))), flush=True)
                done.append(section)
    print(f"\n{verdict(done)}")
    return 0 if all(goal.is_met for section in done for goal in section.goals) else 1


if __name__ == "__main__":
    sys.exit(main())
