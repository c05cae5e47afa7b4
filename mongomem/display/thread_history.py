"""The checkpoints of a history as steps: what each changed, what it asked, and where it leads.

Reads what ``graph.get_state_history`` gives (``StateSnapshot``) and what ``saver.list`` gives
(``CheckpointTuple``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from langgraph.checkpoint.base import CheckpointTuple

from mongomem.arguments import looking_at, shown
from mongomem.display.descriptions import described, same
from mongomem.display.markup import one_line
from mongomem.errors import InvalidInputError

if TYPE_CHECKING:  # importing it takes as long as all the rest: commands do without
    from langgraph.types import StateSnapshot

INTERRUPT, ERROR = "__interrupt__", "__error__"
"""Channels of pending writes, as LangGraph names them (``langgraph._internal._constants``)."""

TRIGGER = "branch:to:"
"""What the names of the channels begin with that start a node (``StateGraph.attach_edge``)."""

START = "__start__"

LONGEST_NAME, LONGEST_WORD = 30, 12
"""Characters of the name of a channel, and of a step and a source."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a snapshot and a tuple have in common."""

    id: str
    parent_id: str | None
    namespace: str
    metadata: Mapping[str, Any]
    created_at: str
    values: Mapping[str, Any]
    next: tuple[str, ...]
    interrupts: tuple[Any, ...]
    errors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What differs in one channel.

    Attributes:
        effect: What became of it: "+" and what was appended, "=" and the value, or "removed".
    """

    channel: str
    effect: str

    def __str__(self) -> str:
        return f"{self.channel} {self.effect}"


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint as a timeline shows it.

    Attributes:
        number: The super-step, counted from -1, the input.
        source: What made it: "input", "loop", "update" or "fork".
        changes: How its values differ from those of its parent.
        next: The nodes that run next; none where the graph has ended.
        interrupts: What a node asked here, described.
        errors: How nodes failed here, described.
        namespace: The checkpoint namespace; empty for the graph itself.
    """

    id: str
    parent_id: str | None
    number: str
    source: str
    changes: tuple[Change, ...]
    next: tuple[str, ...]
    interrupts: tuple[str, ...]
    errors: tuple[str, ...]
    created_at: str
    namespace: str


def steps_of(history: Iterable[StateSnapshot | CheckpointTuple]) -> list[Step]:
    """Read a history, in any order; return its steps, oldest first.

    Ids of checkpoints are ordered by time, see ``langgraph.checkpoint.base.id``.

    Raises:
        InvalidInputError: It is no history.
    """
    _check_history(history)
    found = {one.id: one for one in map(_read, history) if one is not None}
    with looking_at("history"):
        return [_step(found[key], found) for key in sorted(found)]


def _check_history(history: object) -> None:
    if isinstance(history, AsyncIterator):
        raise InvalidInputError(
            "history is read asynchronously: pass [one async for one in history]"
        )
    is_single = isinstance(history, (str, bytes, Mapping, CheckpointTuple)) or _is_snapshot(history)
    if is_single or not isinstance(history, Iterable):
        raise InvalidInputError(f"history must be a list of snapshots, not {shown(history)}")


def _read(one: object) -> Checkpoint | None:
    """Read a snapshot or a tuple; None for the snapshot of a thread that has no checkpoint."""
    with looking_at("history"):
        if isinstance(one, CheckpointTuple):
            return _of_tuple(one)
        if _is_snapshot(one):
            return None if _id_in(one.config) is None else _of_snapshot(one)
    raise InvalidInputError(
        f"history must hold StateSnapshots or CheckpointTuples, not {shown(one)}"
    )


def _is_snapshot(one: object) -> TypeGuard[StateSnapshot]:
    from langgraph.types import StateSnapshot

    return isinstance(one, StateSnapshot)


def _id_in(config: Mapping[str, Any] | None) -> str | None:
    """Return the id of the checkpoint that a config leads to, None where it leads to none."""
    found = _configurable(config).get("checkpoint_id")
    return None if found is None else str(found)


def _configurable(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (config or {}).get("configurable") or {}


def _place(
    config: Mapping[str, Any], parent_config: Mapping[str, Any] | None
) -> tuple[str, str | None, str]:
    """Return the id of a checkpoint, that of its parent, and its namespace.

    Raises:
        InvalidInputError: It has no id.
    """
    own = _id_in(config)
    if own is None:
        raise InvalidInputError(
            f"history must hold checkpoints that their config names, not {shown(config)}"
        )
    namespace = str(_configurable(config).get("checkpoint_ns") or "")
    return own, _id_in(parent_config), namespace


def _of_snapshot(snapshot: StateSnapshot) -> Checkpoint:
    values: Any = snapshot.values
    return Checkpoint(
        *_place(snapshot.config, snapshot.parent_config),
        snapshot.metadata or {},
        str(snapshot.created_at or ""),
        values if isinstance(values, Mapping) else {"value": values},
        tuple(snapshot.next),
        tuple(one.value for one in snapshot.interrupts),
        tuple(task.error for task in snapshot.tasks if task.error is not None),
    )


def _of_tuple(one: CheckpointTuple) -> Checkpoint:
    checkpoint = one.checkpoint
    values = {
        name: value
        for name, value in checkpoint["channel_values"].items()
        if not name.startswith((TRIGGER, "__"))
    }
    return Checkpoint(
        *_place(one.config, one.parent_config),
        one.metadata or {},
        str(checkpoint["ts"]),
        values,
        next_nodes(checkpoint),
        tuple(_interrupts(one)),
        tuple(value for _, channel, value in one.pending_writes or () if channel == ERROR),
    )


def _interrupts(one: CheckpointTuple) -> Iterator[Any]:
    """Yield what nodes asked: a write holds a list of ``Interrupt``."""
    for _, channel, written in one.pending_writes or ():
        if channel == INTERRUPT:
            each = written if isinstance(written, (list, tuple)) else [written]
            yield from (getattr(interrupt, "value", interrupt) for interrupt in each)


def next_nodes(checkpoint: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the nodes whose trigger has a version that they have not seen.

    Of the channels of the checkpoint the names suffice.
    """
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    waiting = [
        (name.removeprefix(TRIGGER), name)
        for name in checkpoint["channel_values"]
        if name.startswith(TRIGGER) or name == START
    ]
    return tuple(
        node
        for node, channel in waiting
        if versions.get(channel) != seen.get(node, {}).get(channel)
    )


def _step(one: Checkpoint, found: Mapping[str, Checkpoint]) -> Step:
    parent = found.get(one.parent_id or "")
    return Step(
        id=one.id,
        parent_id=one.parent_id,
        number=described(one.metadata.get("step", "?"), LONGEST_WORD),
        source=described(one.metadata.get("source", "?"), LONGEST_WORD),
        changes=tuple(changes(parent.values if parent else {}, one.values)),
        next=one.next,
        interrupts=tuple(map(described, one.interrupts)),
        errors=tuple(map(described, one.errors)),
        created_at=one.created_at,
        namespace=one.namespace,
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Describe how the values of a state differ, channel by channel: of a list that only grew, what
    was added. A channel that is there for the first time and empty says nothing.
    """
    different = [
        Change(one_line(name, LONGEST_NAME), _effect(before.get(name), value))
        for name, value in after.items()
        if not (same(before[name], value) if name in before else _is_empty(value))
    ]
    gone = [Change(one_line(name, LONGEST_NAME), "removed") for name in before if name not in after]
    return [*different, *gone]


def _is_empty(value: object) -> bool:
    return isinstance(value, (list, tuple, dict, str)) and not value


def _effect(old: object, new: object) -> str:
    if isinstance(new, list) and new and isinstance(old, list | None):
        known = old or []
        if len(known) < len(new) and same(known, new[: len(known)]):
            return _added(new[len(known) :])
    return f"= {described(new)}"


def _added(elements: Sequence[object]) -> str:
    others = f" (and {len(elements) - 1} before it)" if len(elements) > 1 else ""
    return f"+ {described(elements[-1])}{others}"
