"""The family of a thread's checkpoints, and what may go from it. Pure.

A checkpoint that is kept must stay readable as it was. Its own document suffices, but for channels
that LangGraph rebuilds from writes (``DeltaChannel``): those need the ancestors back to the nearest
one that stores the channel's value, with their writes; and but for the sends that a checkpoint of
format v < 4 left with its parent. Where a removal asks for such an ancestor it is hidden instead:
kept for the replay, and in no listing. A run that began at a checkpoint may put the next one on it
after others went on and it was pruned. So where channels are rebuilt, what is pruned is hidden at
first, and removed once it has been that for the grace.

A subgraph has a namespace of its own. One whose parts name a task (``child:4f2a...``) belongs to
one call, and goes with the checkpoint that called it. Any other (``child``, of a subgraph compiled
with ``checkpointer=True``) is the memory of that subgraph, whoever called it last: it goes by its
own age alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from mongomem.arguments import checked_number, shown
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import RUN, identity
from mongomem.errors import CorruptDataError, InvalidInputError

NS_SEP, NS_END = "|", ":"
"""What LangGraph puts between the graphs of a namespace, and between a graph and the task that
called it."""


@dataclass(frozen=True, slots=True)
class CheckpointNode:
    """A checkpoint as its family sees it.

    Attributes:
        ref: Where it is.
        parent_id: The checkpoint it continues, in the same namespace.
        created_at: When it was stored.
        hidden: Whether it is kept for replay only.
        hidden_at: Since when; None where that is not known.
        run_id: The run that made it, by the string that identifies it.
        caller: The checkpoint of the graph above that called this subgraph; None where its
            namespace outlives a call.
        sends_in_parent: Whether its pending sends stand among the writes of its parent.
        stored: The channels whose values it holds.
        versioned: The channels that it has at all.
        delta: The channels that it counts updates of since their last snapshot: these are rebuilt.
    """

    ref: CheckpointRef
    parent_id: str | None
    created_at: datetime
    hidden: bool = False
    hidden_at: datetime | None = None
    run_id: str | None = None
    caller: CheckpointRef | None = None
    sends_in_parent: bool = False
    stored: frozenset[str] = frozenset()
    versioned: frozenset[str] = frozenset()
    delta: frozenset[str] = frozenset()

    @property
    def needs_parent(self) -> bool:
        """Whether it is not read whole without its parent."""
        return self.sends_in_parent or bool((self.delta & self.versioned) - self.stored)

    @classmethod
    def of(
        cls,
        stored: StoredCheckpoint,
        versions: Collection[str],
        metadata: Mapping[str, Any],
    ) -> CheckpointNode:
        """Return the node of a stored checkpoint, of which also the channels that have a version
        and the metadata were read.
        """
        ref = stored.ref
        counters = metadata.get("counters_since_delta_snapshot")
        return cls(
            ref,
            stored.parent_id,
            stored.created_at,
            stored.hidden,
            stored.hidden_at,
            identity(metadata.get(RUN)),
            caller_of(ref.thread_id, ref.checkpoint_ns, metadata.get("parents")),
            stored.sends_in_parent,
            frozenset(stored.channels),
            frozenset(versions),
            frozenset(counters if isinstance(counters, Mapping) else ()),
        )


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What goes from a thread, what is hidden, and which kept ones lose their parent to it."""

    removed: list[CheckpointRef] = field(default_factory=list)
    hidden: list[CheckpointRef] = field(default_factory=list)
    orphaned: list[CheckpointRef] = field(default_factory=list)
    with_hidden_parent: list[CheckpointRef] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.removed or self.hidden or self.orphaned or self.with_hidden_parent)


def all_but_newest(
    nodes: Iterable[CheckpointNode], keep: int, before: datetime | None = None
) -> set[CheckpointRef]:
    """Return all but the newest `keep` of each namespace; where `before` is given, only those made
    earlier.
    """
    visible = sorted(
        (node for node in nodes if not node.hidden),
        key=lambda node: node.ref.checkpoint_id or "",
    )
    by_namespace: dict[str, list[CheckpointNode]] = {}
    for node in visible:
        by_namespace.setdefault(node.ref.checkpoint_ns, []).append(node)
    return {
        node.ref
        for family in by_namespace.values()
        for node in family[:-keep]
        if before is None or node.created_at < before
    }


@dataclass(frozen=True, slots=True)
class Wait:
    """How long what is pruned waits for a run that began at it.

    Attributes:
        now: The time.
        grace: How long.
    """

    now: datetime
    grace: timedelta

    def is_over(self, node: CheckpointNode) -> bool:
        """Say whether a checkpoint that goes has been hidden for that long. One that is not yet
        hidden is hidden now.
        """
        since = node.hidden_at if node.hidden else self.now
        return since is None or since + self.grace <= self.now


def plan_removal(
    nodes: Sequence[CheckpointNode], to_remove: set[CheckpointRef], wait: Wait | None = None
) -> RemovalPlan:
    """Decide what becomes of a thread whose `to_remove` checkpoints are to go.

    What is kept decides, and not what goes: first the subgraphs that a removed checkpoint called
    join it, then every kept checkpoint names the ancestors that it needs, and only what is going
    and needed by none is removed. What was hidden before is going too, so it is removed once the
    last that needed it is. Hidden checkpoints keep nothing themselves: else a chain of them would
    outlive every reader. A count of its readers in each document would do without the family, but a
    put would write to documents of others, and a removal that breaks off leave it wrong.
    """
    by_ref = {node.ref: node for node in nodes}
    to_remove = _with_called(nodes, to_remove)
    kept = [node for node in nodes if node.ref not in to_remove and not node.hidden]
    going = by_ref.keys() - {node.ref for node in kept}
    needed = _needed(kept, [by_ref[ref] for ref in going], by_ref, wait)
    gone, replayed = going - needed, going & needed
    newly_hidden = {ref for ref in replayed if not by_ref[ref].hidden}
    parents = _parents(kept).items()
    return RemovalPlan(
        removed=sorted(gone, key=_innermost_first),
        hidden=[ref for ref in by_ref if ref in newly_hidden],
        orphaned=[child for child, parent in parents if parent in gone or parent not in by_ref],
        with_hidden_parent=[child for child, parent in parents if parent in replayed],
    )


def _needed(
    kept: Sequence[CheckpointNode],
    going: Sequence[CheckpointNode],
    by_ref: Mapping[CheckpointRef, CheckpointNode],
    wait: Wait | None,
) -> set[CheckpointRef]:
    """Return what reading any of the kept checkpoints needs, and would need of a late child of one
    that goes.
    """
    delta = _delta_channels(by_ref.values())
    awaited = [
        node
        for node in going
        if wait is not None and delta[node.ref.checkpoint_ns] and not wait.is_over(node)
    ]
    own = {node.ref for node in awaited}
    return own.union(*(_needed_ancestors(node, by_ref, delta) for node in [*kept, *awaited]))


def _innermost_first(ref: CheckpointRef) -> tuple[int, str]:
    """Order subgraphs before their callers: a removal that breaks off can then still be found and
    finished.
    """
    depth = ref.checkpoint_ns.count(NS_SEP) + bool(ref.checkpoint_ns)
    return -depth, ref.checkpoint_id or ""


def _with_called(
    nodes: Sequence[CheckpointNode], to_remove: set[CheckpointRef]
) -> set[CheckpointRef]:
    """Add the checkpoints of subgraphs that a checkpoint to remove called, and of those that they
    called.
    """
    found = set(to_remove)
    # Callers come first.
    for node in sorted(nodes, key=lambda node: node.ref.checkpoint_ns.count(NS_SEP)):
        if node.caller in found:
            found.add(node.ref)
    return found


def _parent(node: CheckpointNode) -> CheckpointRef | None:
    return node.ref.at(node.parent_id) if node.parent_id else None


def _parents(nodes: Iterable[CheckpointNode]) -> dict[CheckpointRef, CheckpointRef]:
    """Return the parents of checkpoints, by the refs of those that have one."""
    return {node.ref: parent for node in nodes if (parent := _parent(node))}


def _delta_channels(nodes: Iterable[CheckpointNode]) -> Mapping[str, frozenset[str]]:
    """Return the channels that are rebuilt, by namespace: what any checkpoint there has counted."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        found[node.ref.checkpoint_ns] = found.get(node.ref.checkpoint_ns, frozenset()) | node.delta
    return found


def _needed_ancestors(
    node: CheckpointNode,
    by_ref: Mapping[CheckpointRef, CheckpointNode],
    delta: Mapping[str, frozenset[str]],
) -> Iterator[CheckpointRef]:
    """Yield the ancestors that reading a checkpoint and rebuilding its channels needs."""
    wanting = (delta[node.ref.checkpoint_ns] & node.versioned) - node.stored
    for number, ancestor in enumerate(ancestors(node, by_ref)):
        if not wanting and not (number == 0 and node.sends_in_parent):
            return
        yield ancestor.ref
        wanting -= ancestor.stored


def ancestors(
    node: CheckpointNode, by_ref: Mapping[CheckpointRef, CheckpointNode]
) -> Iterator[CheckpointNode]:
    """Yield parent, grandparent and so on, as far as they are there.

    Raises:
        CorruptDataError: A checkpoint is its own ancestor.
    """
    seen = {node.ref}
    ref = _parent(node)
    while ref is not None and ref in by_ref:
        if ref in seen:
            raise CorruptDataError(f"{ref} is its own ancestor")
        seen.add(ref)
        node = by_ref[ref]
        yield node
        ref = _parent(node)


def caller_of(thread_id: str, own_ns: str, parents: Any) -> CheckpointRef | None:
    """Return the checkpoint that called the subgraph of a namespace, or None where the namespace is
    not of one call.

    Args:
        thread_id: The thread of both.
        own_ns: The namespace.
        parents: ``metadata["parents"]``: the checkpoint of each graph above by its namespace, the
            root's first.
    """
    if NS_END not in own_ns or not isinstance(parents, Mapping):
        return None
    above = [
        (namespace, checkpoint_id)
        for namespace, checkpoint_id in parents.items()
        if namespace != own_ns
    ]
    return CheckpointRef(thread_id, *map(str, above[-1])) if above else None


@dataclass(frozen=True, slots=True)
class PruneRule:
    """Which checkpoints of a thread go: all, or those beyond the newest `keep_last` that were made
    before a time.
    """

    strategy: str
    keep_last: int
    before: datetime | None

    def to_remove(self, nodes: Sequence[CheckpointNode]) -> set[CheckpointRef]:
        if self.strategy == "delete":
            return {node.ref for node in nodes}
        return all_but_newest(nodes, self.keep_last, self.before)


def checked_rule(
    now: datetime, strategy: object, keep_last: object, older_than: object
) -> PruneRule:
    """Check the arguments of ``prune``.

    Raises:
        InvalidInputError: For an unknown strategy, fewer than one to keep, or no span of time.
    """
    if type(strategy) is not str or strategy not in ("keep_latest", "delete"):
        raise InvalidInputError(
            f'strategy must be "keep_latest" or "delete", not {shown(strategy)}'
        )
    keep = checked_number("keep_last", keep_last, least=1)
    if older_than is None:
        return PruneRule(strategy, keep, None)
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError(
            f"older_than must be a timedelta that is not negative, not {shown(older_than)}"
        )
    return PruneRule(strategy, keep, time_before(now, older_than))


def time_before(now: datetime, span: timedelta) -> datetime:
    """Return the time that lies so far back, or the earliest there is."""
    try:
        return now - span
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)
