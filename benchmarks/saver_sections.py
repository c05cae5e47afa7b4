"""From measurements to tables: what each number is compared with, and the goal of it.

The goals are about 400 and 1,000 turns; a smaller run prints the same tables and holds only what
does not depend on the size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saver_commands import Commands
from saver_measures import HISTORY, Growth, Reads, Scale, Values
from saver_peers import IN_MEMORY, OFFICIAL, OURS, POSTGRES, SEALED, Size
from saver_report import Compared, Row, Section

DATA_MB, DATA_GROWTH, SEALED_DATA = 5.0, 2.2, 1.5
"""Most data after 400 turns, its growth from 200, and that under encryption as a multiple."""

TURN_OF_OFFICIAL: Mapping[int, float] = {20: 1.0, 400: 0.6, 1000: 0.35}
TURN_OF_POSTGRES: Mapping[int, float] = {400: 1.0}
"""The median turn as a multiple of another saver's, by the turn it is measured at."""

FLAT = 1.5
"""What "stays flat" means here: the overhead over InMemorySaver at turn 1,000 as a multiple of that
at turn 20."""

WARM_OF_IN_MEMORY, COLD_OF_OFFICIAL, LISTING_OF_OFFICIAL = 1.3, 1.0, 0.4

READS_AT = 400

OPERATIONS: Mapping[str, int] = {"put": 2, "put_writes": 1, "get_tuple": 2, "list, first page": 4}
"""Most round trips of an operation on a warm saver."""


def ratio(values: Values, other: str, limit: float | None = None) -> Compared:
    """Compare mongomem's number with another saver's."""
    return Compared(f"/ {other}", values[OURS] / values[other], limit)


def scaled(values: Values, factor: float) -> Values:
    return {name: value * factor for name, value in values.items()}


def size_section(found: Mapping[int, Mapping[str, Size]]) -> Section:
    """Tell how many bytes the chats occupy after some turns."""
    section = Section(
        "Data in MB",
        (
            "dbStats dataSize of all collections; Postgres: its tables with TOAST; InMemory: the "
            "serialized bytes it holds"
        ),
    )
    data = {
        turn: {name: size.data / 1e6 for name, size in sizes.items()}
        for turn, sizes in found.items()
    }
    for turn, values in data.items():
        section.rows.append(Row(f"after {turn} turns", values, _size_goals(data, turn), digits=2))
    last, sizes = list(found.items())[-1]
    indexes = {name: size.index / 1e6 for name, size in sizes.items() if size.index}
    section.rows.append(Row(f"indexes after {last} turns", indexes, digits=2))
    return section


def _size_goals(data: Mapping[int, Values], turn: int) -> list[Compared]:
    if turn != READS_AT or turn // 2 not in data:
        return []
    now = data[turn]
    return [
        Compared("MB", now[OURS], DATA_MB),
        Compared("/ turn 200", now[OURS] / data[turn // 2][OURS], DATA_GROWTH),
        Compared("AES / plain", now[SEALED] / now[OURS], SEALED_DATA),
    ]


def turn_section(growth: Growth, scale: Scale, counts: Mapping[str, Commands]) -> Section:
    """Tell how long a turn takes, and what of it is beyond the graph itself."""
    section = Section(
        "Median turn in ms",
        f"windows of {2 * scale.half + 1} turns, the savers in turn; before turn {scale.seeded} "
        f"every thread skips {scale.seeded - 3 * scale.half - scale.grown} turns by one "
        "update_state with their messages",
    )
    for middle in (*scale.windows, scale.seeded):
        section.rows += _turn_rows(growth, scale, middle)
    section.rows.append(
        Row("durable commands a turn", {name: count.durable for name, count in counts.items()})
    )
    section.rows.append(Row("reads a turn", {name: count.reads for name, count in counts.items()}))
    return section


def _turn_rows(growth: Growth, scale: Scale, middle: int) -> list[Row]:
    wall = scaled(growth.wall(scale.window(middle)), 1e3)
    beyond = beyond_in_memory(wall)
    compared = [ratio(wall, OFFICIAL, TURN_OF_OFFICIAL.get(middle))]
    if middle in TURN_OF_POSTGRES:
        compared.append(ratio(wall, POSTGRES, TURN_OF_POSTGRES[middle]))
    compared_beyond = [ratio(beyond, OFFICIAL)]
    if middle == max(TURN_OF_OFFICIAL):
        first = beyond_in_memory(growth.wall(scale.window(scale.windows[0])))
        compared_beyond.append(Compared("/ turn 20", beyond[OURS] / first[OURS] / 1e3, FLAT))
    return [
        Row(f"at turn {middle}", wall, compared),
        Row("  beyond InMemory", beyond, compared_beyond),
        Row("  computing in this process", scaled(growth.cpu(scale.window(middle)), 1e3)),
        Row("  InMemory / official", {IN_MEMORY: wall[IN_MEMORY] / wall[OFFICIAL]}, digits=2),
    ]


def beyond_in_memory(wall: Values) -> Values:
    """Return what the savers add to a turn that takes as long as it does without a database."""
    return {name: value - wall[IN_MEMORY] for name, value in wall.items() if name != IN_MEMORY}


def read_section(found: Reads, turn: int) -> Section:
    """Tell how long reads take."""
    section = Section(
        f"Reads at turn {turn} in ms", "cold: a saver that has read nothing, on an open connection"
    )
    table = (
        ("get_state, warm", found.state_warm, IN_MEMORY, WARM_OF_IN_MEMORY),
        (f"history of {HISTORY}, warm", found.history_warm, IN_MEMORY, WARM_OF_IN_MEMORY),
        ("get_state, cold", found.state_cold, OFFICIAL, COLD_OF_OFFICIAL),
        (f"history of {HISTORY}, cold", found.history_cold, OFFICIAL, COLD_OF_OFFICIAL),
    )
    for label, seconds, other, limit in table:
        goals = [ratio(seconds, other, limit)] if turn == READS_AT else []
        section.rows.append(Row(label, scaled(seconds, 1e3), goals))
    return section


def listing_section(checkpoints: int, notes: Values, chats: Values | None) -> Section:
    """Tell how long it takes to list checkpoints with their writes."""
    section = Section(
        f"{checkpoints:,} checkpoints listed, in s",
        (
            "notes: each of 1 KB, savers that have read nothing. Chat: decoding of messages is "
            "most of "
            "it, for every saver"
        ),
    )
    section.rows.append(
        Row("of notes", notes, [ratio(notes, OFFICIAL, LISTING_OF_OFFICIAL)], digits=3)
    )
    if chats:
        section.rows.append(Row("of the chat, its newest", chats, digits=2))
    return section


def command_section(counts: Mapping[str, Commands]) -> Section:
    """Tell how many round trips the operations take."""
    section = Section(
        "Round trips, warm",
        "counted by a command listener; cold get_tuple: 2 and one a level of names",
    )
    ours = counts[OURS]
    limits = {**OPERATIONS, "get_tuple, cold": 2 + ours.levels}
    for operation, limit in limits.items():
        values = {name: count.operations[operation] for name, count in counts.items()}
        section.rows.append(Row(operation, values, [Compared("", values[OURS], limit)], digits=0))
    return section


def large_section(megabytes: int, seconds: Sequence[float]) -> Section:
    """Tell how long a very large state takes."""
    stored, read = seconds
    section = Section(
        f"A state of {megabytes} MB, in s",
        "by update_state, and read by a saver that has read nothing",
    )
    section.rows.append(Row("stored", {OURS: stored}))
    section.rows.append(Row("read", {OURS: read}))
    return section
