"""`timeline`: the history of a thread, a step a row, its forks as branches beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langgraph.checkpoint.base import CheckpointTuple

from mongomem.arguments import checked_number
from mongomem.display.descriptions import short_id
from mongomem.display.lane_drawings import ROW, colour_of, drawing, text_rail, width_of
from mongomem.display.lanes import Layout, layout_of
from mongomem.display.markup import Html, cell, element, fitted, one_line, page
from mongomem.display.results import Rendered, aligned
from mongomem.display.thread_history import Change, Step, steps_of

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

AMBER, RED = "#d97706", "#ef4444"
"""Of what a node asks, and of its errors."""

HEAD = ("step", "source", "what changed", "next", "checkpoint")

FORK = "fork"
"""The source of a checkpoint from which a run begins anew."""

LONGEST_EFFECT, MOST_CHANGES = 60, 3
"""Characters of what changed in all channels, and of a question; how many channels are shown."""

OTHERS = 29
"""Width of the columns that are never cut, without the lanes, in ems."""

CHANGES, CHANGES_ALONE = 0.54, 0.7
"""Which part of the room that is left what changed has at most, and where no step asks or fails.
Where a step leads has the rest, so that the column behind it stays in sight.
"""

LONGEST_NODE = 24


def timeline(history: Iterable[StateSnapshot | CheckpointTuple], *, limit: int = 200) -> Rendered:
    """Show the history of a thread: oldest step first, forks as branches.

    A row has the step and its source, what it changed, the nodes that run next, what they asked,
    and the last characters of the checkpoint's id.

    Args:
        history: ``list(graph.get_state_history(config))``, or ``list(saver.list(config))``, in any
            order. In async code ``[one async for one in graph.aget_state_history(config)]``.
        limit: How many steps are shown at most: the newest.

    Raises:
        InvalidInputError: An argument is of the wrong kind.
    """
    most = checked_number("limit", limit, least=1)
    found = steps_of(history)
    steps = found[-most:]
    if not steps:
        return Rendered("(no checkpoints)", page(element("em", "no checkpoints")))
    layout = layout_of(steps)
    lines, blocks = _lines(steps, layout), [_table(steps, layout)]
    if len(found) > most:
        note = f"{len(found) - most} earlier steps are not shown"
        lines.insert(0, note)
        blocks.insert(0, element("div", note, class_="dim"))
    return Rendered("\n".join(lines), page(*blocks))


def made_by(row: int, steps: Sequence[Step], layout: Layout) -> str:
    """Say what made a step, and of a fork where it leaves."""
    source, origin = steps[row].source, layout.origin(row)
    if origin is None:
        return source
    return f"{'' if source == FORK else f'{source}, '}fork of step {steps[origin].number}"


def leads_to(step: Step) -> str:
    """Name the nodes that run next."""
    names = ", ".join(one_line(name, LONGEST_NODE) for name in step.next)
    return f"→ {names}" if names else "end"


def _lines(steps: Sequence[Step], layout: Layout) -> list[str]:
    """Draw the steps as text, as ``git log --graph`` does."""
    return aligned(
        [
            (
                text_rail(row, layout),
                step.number.rjust(2),
                made_by(row, steps, layout),
                leads_to(step),
                "; ".join(said(step)),
            )
            for row, step in enumerate(steps)
        ]
    )


def said(step: Step) -> list[str]:
    """Say what a step changed, what its nodes ask, and how they failed."""
    asked = [f"asks: {value}" for value in step.interrupts]
    return [*map(str, step.changes), *asked, *step.errors]


def _table(steps: Sequence[Step], layout: Layout) -> Html:
    """Draw the steps as a table; the lanes are one drawing in its first column, as high as all
    rows, and a text in each row for viewers that drop drawings.
    """
    style = (
        f"padding:0 8px 0 0;border:0;overflow:visible;max-width:none;min-width:{width_of(layout)}px"
    )
    lanes = cell(drawing(steps, layout), rowspan=len(steps), style=style)
    widths = _widths(steps, layout)
    rows = [
        _row(row, steps, layout, widths, [lanes] if row == 0 else []) for row in range(len(steps))
    ]
    before = cell("", tag="th"), cell("", tag="th", class_="plain")
    head = element("tr", *before, *(cell(name, tag="th") for name in HEAD))
    return element("table", element("thead", head), element("tbody", *rows))


def _row(
    row: int,
    steps: Sequence[Step],
    layout: Layout,
    widths: tuple[str, str],
    before: Sequence[Html],
) -> Html:
    step = steps[row]
    cells = [
        _rail_cell(row, layout),
        cell(step.number, align="right"),
        _made_by_cell(row, steps, layout),
        cell(fitted(widths[0], *_change_chips(step.changes)), style="max-width:none"),
        cell(fitted(widths[1], *_next_parts(step)), style="max-width:none"),
        cell(*_checkpoint_cell(step, step is steps[-1])),
    ]
    return element("tr", *before, *cells, title=_tip(step), style=f"height:{ROW}px")


def _tip(step: Step) -> str:
    return one_line(f"{step.id} {step.created_at} {step.namespace}", 200)


def _rail_cell(row: int, layout: Layout) -> Html:
    rail = text_rail(row, layout).replace(" ", "\u00a0")
    return cell(element("code", rail), class_="plain")


def _made_by_cell(row: int, steps: Sequence[Step], layout: Layout) -> Html:
    """Say what made a step, in the colour of its branch."""
    style = f"color:{colour_of(layout.of_row[row])};font-weight:600"
    return cell(element("span", made_by(row, steps, layout), style=style))


def _widths(steps: Sequence[Step], layout: Layout) -> tuple[str, str]:
    """Say how wide what changed may be, and where a step leads with what is asked there."""
    has_notes = any(step.interrupts or step.errors for step in steps)
    part = CHANGES if has_notes else CHANGES_ALONE
    room = f"(100cqw - {width_of(layout)}px - {OTHERS}em)"
    return f"max(8em,{room}*{part})", f"max(8em,{room}*{1 - part:.2f})"


def _change_chips(changes: Sequence[Change]) -> list[Html]:
    """Show the first changes, the shorter the more there are, so that they fit beside each other;
    and how many others there are.
    """
    first, others = changes[:MOST_CHANGES], changes[MOST_CHANGES:]
    length = LONGEST_EFFECT // max(1, len(first))
    chips = [_change_chip(change, length) for change in first]
    told = "; ".join(map(str, others))
    more = element("span", f"and {len(others)} more", class_="chip", title=one_line(told, 600))
    return [*chips, more] if others else chips


def _change_chip(change: Change, length: int) -> Html:
    name = element("span", change.channel, class_="dim")
    effect = f" {one_line(change.effect, length)}"
    return element("span", name, effect, class_="chip", title=str(change))


def _next_parts(step: Step) -> list[Html]:
    """Say where a step leads, and beside it what its nodes ask and how they failed."""
    lead = element("span", leads_to(step) + " ", class_="kept" if step.next else "kept dim")
    asked = [_note(f"asks: {value}", AMBER) for value in step.interrupts]
    return [lead, *asked, *(_note(value, RED) for value in step.errors)]


def _checkpoint_cell(step: Step, is_newest: bool) -> list[Html]:
    short = element("code", one_line(short_id(step.id)), class_="dim")
    return [short, Html(" "), element("span", "latest", class_="chip")] if is_newest else [short]


def _note(text: str, colour: str) -> Html:
    style = f"color:{colour};background:{colour}22"
    return element("span", one_line(text, LONGEST_EFFECT), class_="chip", style=style, title=text)
