"""Benchmark of MongoSaver against InMemorySaver, the official Mongo saver and PostgresSaver.

    python benchmarks/saver.py                 everything, about ten minutes
    python benchmarks/saver.py --quick         small, to see that it runs
    python benchmarks/saver.py --json out.json

Every state that is read is compared with what was said. Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pymongo import MongoClient

import saver_sections as sections
from saver_chat import Chat, Script
from saver_commands import Commands, count_commands
from saver_measures import Growth, Scale, listing_of_chats, listing_of_notes, reads, sizes
from saver_notes import round_trip
from saver_peers import OURS, PEERS, SEALED, Opened, Uris
from saver_report import Section, verdict
from servers import mongodb, postgres

PACKAGES = (
    "mongomem",
    "langgraph",
    "langgraph-checkpoint-mongodb",
    "langgraph-checkpoint-postgres",
    "pymongo",
)


def measured(opened: Sequence[Opened], scale: Scale) -> Iterator[Section]:
    """Measure everything; yield each section as soon as it is complete."""
    script = Script.of(scale.last)
    growth = Growth(
        opened, [Chat.on(one.name, one.saver, script) for one in opened], scale.interleaved
    )
    found = {}
    for turn in scale.sizes:
        growth.advance(turn)
        found[turn] = sizes(opened)
    yield sections.size_section(found)
    yield sections.read_section(reads(growth, scale.repeats), growth.played)
    growth.advance(scale.grown + scale.half)
    growth.jump(scale.seeded - 2 * scale.half)
    growth.advance(scale.last)
    counts = _counts(opened, script, scale.grown)
    yield sections.turn_section(growth, scale, counts)
    yield sections.command_section(counts)
    plain = [one for one in opened if one.name != SEALED]
    notes = listing_of_notes(plain, scale.listed)
    yield sections.listing_section(scale.listed, notes, listing_of_chats(growth, scale.listed))
    yield sections.large_section(scale.large, _large(opened, scale.large))


def _counts(opened: Sequence[Opened], script: Script, turn: int) -> dict[str, Commands]:
    return {one.name: count_commands(one, script, turn) for one in opened if one.counted}


def _large(opened: Sequence[Opened], megabytes: int) -> tuple[float, float]:
    ours = next(one for one in opened if one.name == OURS)
    return round_trip(ours.saver, ours.fresh() if ours.fresh else ours.saver, megabytes)


def header(uris: Uris) -> str:
    """Tell what is measured, where."""
    client: MongoClient[Any]
    with MongoClient(uris.mongodb) as client:
        server = client.server_info()["version"]
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {load()}, MongoDB "
        f"{server}\n{packages}"
    )


def load() -> str:
    """Tell how busy the machine is: above its number of CPUs, what waits for it is slower than it
    is.
    """
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def is_busy() -> bool:
    """Say whether more wants to run than this benchmark and its servers."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) + 0.5


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(source)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--turns", type=int, help="how far the chats grow turn by turn (400; with --quick 40)"
    )
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--json", type=Path, help="where to write the numbers as well")
    options = parser.parse_args(arguments)
    scale = Scale.of(options.turns or (40 if options.quick else 400), options.quick)
    began = time.monotonic()
    done: list[Section] = []
    with ExitStack() as stack:
        uris = Uris(stack.enter_context(mongodb()), stack.enter_context(postgres()))
        print(header(uris), flush=True)
        opened = [stack.enter_context(peer.open(uris)) for peer in PEERS]
        for section in measured(opened, scale):
            print("\n".join(section.lines([one.name for one in opened])), flush=True)
            done.append(section)
    print(f"\n{verdict(done)} in {time.monotonic() - began:.0f} s, load {load()}")
    if is_busy():
        print(
            "Others use this machine too: what waits for the disk or for a server is slower than "
            "it is. Run again."
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(section) for section in done], indent=1))
    return 0 if all(goal.is_met for section in done for goal in section.goals) else 1


if __name__ == "__main__":
    sys.exit(main())
