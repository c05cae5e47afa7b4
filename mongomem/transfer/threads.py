"""Plans: a thread as JSON, and back.

Values pass as the bytes that the serializer made, so that nothing is lost where the classes of an
application are not imported. The import lets the serializer of the saver read each of them before
the first write: what that does not revive, no import does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import CHECKPOINT, checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import checked_identity, named
from mongomem.checkpoint.documents.preview import CHANNEL
from mongomem.checkpoint.plans.load import (
    Body,
    Loaded,
    Placed,
    load,
    read_writes,
    retry_if_chunk_missing,
    revive,
    revive_body,
    sound_records,
)
from mongomem.checkpoint.plans.put import checked_checkpoint, put
from mongomem.checkpoint.plans.put_writes import PendingWrite, store_writes
from mongomem.checkpoint.plans.thread_state import (
    known_thread,
    read_members,
    thread_document,
    thread_query,
)
from mongomem.checkpoint.plans.threads import Thread, check_labels, read_listed, update_thread
from mongomem.checkpoint.serde.channels import BODY, Serialized
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.engine.commands import BulkWrite, Document, Find, Update, UpdateMany
from mongomem.engine.effects import Compute
from mongomem.errors import InvalidInputError
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import Pieces, decode_value
from mongomem.transfer.transcript import Transcript

TASK = ("task_id", "task_path")

MOST_IDS = 10_000
"""How many ids one command names."""


# --- a thread as JSON


async def export_thread(context: Context, thread_id: str) -> dict[str, Any] | None:
    """Return a thread as JSON; None where it is not there any more. Damaged checkpoints are left
    out.
    """
    return await retry_if_chunk_missing(partial(_exported, context, thread_id))


async def living_document(context: Context, thread_id: str) -> Document | None:
    """Return the document of a thread that has checkpoints, else None."""
    document = await thread_document(context, thread_id)
    thread = known_thread(context, document)
    return None if thread is None or thread.begins else document


async def _exported(context: Context, thread_id: str) -> dict[str, Any] | None:
    document = await living_document(context, thread_id)
    if document is None:
        return None
    own = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": document["epoch"]}
    records = await sound_records(context, await Find(context.checkpoints, own))
    living = [record for record in records if context.is_alive(record.touched_at)]
    writes = await _writes_by_checkpoint(context, thread_id, document["epoch"])
    pages = ThreadJson(context)
    for record in sorted(living, key=lambda record: record.address.checkpoint_id or ""):
        with context.state.damage.left_out(checkpoint_doc_id(record.address)):
            await pages.add(record, writes.get(record.address, []))
    return {**_described(document), **pages.parts()}


async def _writes_by_checkpoint(
    context: Context, thread_id: str, epoch: int
) -> dict[CheckpointRef, list[StoredWrite]]:
    """Read the pending writes of the life that a thread has, in their order."""
    found: dict[CheckpointRef, list[StoredWrite]] = {}
    for document in await Find(context.writes, {"thread_id": thread_id}):
        with context.state.damage.left_out(document["_id"]):
            (write,) = await read_writes(context, [document])
            if write.epoch in (None, epoch):
                found.setdefault(write.address, []).append(write)
    return {place: sorted(own, key=StoredWrite.sort_key) for place, own in found.items()}


def _described(document: Document) -> dict[str, Any]:
    """Return what a thread document says of its thread."""
    thread = read_listed(document)
    members = {
        key: sorted(one for one in found if isinstance(one, str))
        for key, found in read_members(document).items()
    }
    return {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.updated_at.isoformat(),
        "labels": document.get("labels") or {},
        "users": members,
    }


@dataclass(slots=True)
class ThreadJson:
    """The checkpoints of a thread that were gathered so far, in the order of their ids."""

    context: Context
    pieces: Pieces = field(default_factory=Pieces)
    transcript: Transcript = field(default_factory=Transcript)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)

    def parts(self) -> dict[str, Any]:
        """Return the members of the JSON of a thread that they make."""
        return {
            "transcript": self.transcript.lines,
            "checkpoints": self.checkpoints,
            "pieces": self.pieces.encoded,
        }

    async def add(self, record: StoredCheckpoint, writes: Sequence[StoredWrite]) -> None:
        """Gather a checkpoint and its writes.

        Raises:
            CorruptDataError: It is damaged.
        """
        values = [record.body, *record.channels.values(), *(write.value for write in writes)]
        loaded = await load(self.context, [Placed(record.address, value) for value in values])
        work = partial(self._encode, record, writes, values, loaded)
        await Compute(work, sum(len(one.data) for one in loaded))

    def _encode(
        self,
        record: StoredCheckpoint,
        writes: Sequence[StoredWrite],
        values: Sequence[StoredValue],
        loaded: Sequence[Loaded],
    ) -> None:
        self._tell(record, writes, loaded)
        pairs = zip(values, loaded, strict=True)
        encoded = [self.pieces.encode((value.type, one.data)) for value, one in pairs]
        body, *others = encoded
        channels = dict(zip(record.channels, others, strict=False))
        kept = others[len(record.channels) :]
        self.checkpoints.append(
            {
                "namespace": record.address.checkpoint_ns,
                "id": record.address.checkpoint_id,
                "parent_id": record.parent_id,
                **({"hidden": True} if record.hidden else {}),
                "checkpoint": body,
                "channels": channels,
                "writes": [_write_json(*pair) for pair in zip(writes, kept, strict=True)],
            }
        )

    def _tell(
        self, record: StoredCheckpoint, writes: Sequence[StoredWrite], loaded: Sequence[Loaded]
    ) -> None:
        """Add the messages of a checkpoint of the root graph to the transcript."""
        address = record.address
        body = revive_body(self.context, address, record.body, loaded[0].data)
        if address.checkpoint_ns:
            return
        values = [*record.channels.items(), *((write.channel, write.value) for write in writes)]
        said = [
            revive(self.context, address, value, one.data)
            for (channel, value), one in zip(values, loaded[1:], strict=True)
            if channel == CHANNEL
        ]
        count = int(CHANNEL in record.channels)
        self.transcript.add(body.checkpoint, said[:count], said[count:])


def _write_json(write: StoredWrite, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "task_id": write.task_id,
        "task_path": write.task_path,
        "idx": write.idx,
        "channel": write.channel,
        "value": value,
    }


# --- and back


@dataclass(frozen=True, slots=True)
class GivenThread:
    """A thread of a document that is imported, its parts checked as they are read."""

    part: Part
    thread_id: str
    pieces: list[bytes]

    @classmethod
    def of(cls, part: Part) -> GivenThread:
        pieces = [one.data() for one in part.member("pieces").parts()]
        return cls(part, part.member("thread_id").identifier(), pieces)

    def checkpoints(self) -> list[GivenCheckpoint]:
        """Return the checkpoints, each behind its parent."""
        parts = self.part.member("checkpoints").parts()
        given = [GivenCheckpoint.of(self.thread_id, part) for part in parts]
        return sorted(given, key=lambda one: one.address.checkpoint_id or "")


@dataclass(frozen=True, slots=True)
class GivenCheckpoint:
    """A checkpoint of a thread that is imported; its values are decoded when they are needed."""

    part: Part
    address: CheckpointRef
    parent_id: str | None
    hidden: bool

    @classmethod
    def of(cls, thread_id: str, part: Part) -> GivenCheckpoint:
        namespace = part.member("namespace").identifier(optional=True)
        address = CheckpointRef(thread_id, namespace, part.member("id").identifier())
        parent, hidden = part.optional("parent_id"), part.optional("hidden")
        if hidden is not None and hidden.value is not True:
            raise hidden.wrong("true, or not there")
        return cls(
            part, address, None if parent is None else parent.identifier(), hidden is not None
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """A checkpoint that is imported, as the serializer reads it and as bytes; whom it names, by
    identity key; its writes by task and path.
    """

    checkpoint: Checkpoint
    metadata: Any
    users: Mapping[str, tuple[str, ...]]
    values: dict[str, Serialized]
    writes: dict[tuple[str, str], list[PendingWrite]]


def decode(context: Context, thread: GivenThread, given: GivenCheckpoint) -> Decoded:
    """Decode a checkpoint and its writes, and let the serializer read every value.

    Raises:
        InvalidInputError: One is no value, or none that the serializer reads.
    """
    body = _Value.of(given.part.member("checkpoint"), thread)
    parts = given.part.member("channels").members()
    channels = {name: _Value.of(part, thread) for name, part in parts}
    found = _body(context, given, body)
    revived = {name: one.revived(context, given) for name, one in channels.items()}
    try:
        checkpoint = checked_checkpoint(found.checkpoint | {"channel_values": revived})
        users = named({}, found.metadata, context.options.metadata_keys).by_key
    except InvalidInputError as error:
        raise given.part.named(error) from error
    return Decoded(
        checkpoint,
        found.metadata,
        users,
        {BODY: body.serialized} | {name: one.serialized for name, one in channels.items()},
        _writes(context, thread, given),
    )


def _body(context: Context, given: GivenCheckpoint, value: _Value) -> Body:
    """Let the serializer read the body of a checkpoint.

    Raises:
        InvalidInputError: It is none, or that of another checkpoint.
    """
    try:
        found = revive_body(context, given.address, value.stored, value.data)
    except Exception as error:
        raise value.part.named(error) from error
    if found.checkpoint.get("id") != given.address.checkpoint_id:
        raise value.part.wrong(f"checkpoint {shown(given.address.checkpoint_id)}")
    return found


@dataclass(frozen=True, slots=True)
class _Value:
    """A serialized value of a document that is imported."""

    part: Part
    serialized: Serialized

    @classmethod
    def of(cls, part: Part, thread: GivenThread) -> _Value:
        return cls(part, decode_value(part, thread.pieces))

    @property
    def data(self) -> bytes:
        return self.serialized[1]

    @property
    def stored(self) -> StoredValue:
        kind, data = self.serialized
        return StoredValue(kind, data, (), len(data))

    def revived(self, context: Context, given: GivenCheckpoint) -> Any:
        """Let the serializer read the value.

        Raises:
            InvalidInputError: It does not.
        """
        try:
            return revive(context, given.address, self.stored, self.data)
        except Exception as error:
            raise self.part.named(error) from error


def _writes(
    context: Context, thread: GivenThread, given: GivenCheckpoint
) -> dict[tuple[str, str], list[PendingWrite]]:
    """Return the writes of a checkpoint by task and path."""
    found: dict[tuple[str, str], list[PendingWrite]] = {}
    for part in given.part.member("writes").parts():
        value = _Value.of(part.member("value"), thread)
        value.revived(context, given)
        task, path = (part.member(name).identifier(optional=True) for name in TASK)
        idx, channel = part.member("idx").number(-(2**31)), part.member("channel").identifier()
        found.setdefault((task, path), []).append(PendingWrite(idx, channel, value.serialized))
    return found


async def check_thread(context: Context, thread: GivenThread) -> None:
    """Decode everything of a thread that is imported, and keep nothing. Writes nothing.

    Raises:
        InvalidInputError: Something cannot be imported. Names it.
    """
    for name in ("created_at", "updated_at"):
        thread.part.member(name).time()
    _check_labels(context, thread.part.member("labels"))
    for key, users in thread.part.member("users").members():
        for user in users.parts():
            user.checked(partial(checked_identity, key, user.text()), "a user")
    for given in thread.checkpoints():
        await Compute(partial(decode, context, thread, given))


def _check_labels(context: Context, labels: Part) -> None:
    try:
        check_labels(context, labels.object())
    except InvalidInputError as error:
        raise labels.named(error) from error


async def import_thread(
    context: Context, thread: GivenThread, user_key: str, user_id: str, before: Thread | None
) -> None:
    """Store a thread that was checked: checkpoints, each behind its parent, then what the thread
    shows. Repeating it finishes what was cut short.

    Args:
        context: What every plan of the saver is given.
        thread: The thread.
        user_key: The metadata key that names its user.
        user_id: The user, whose the thread is afterwards.
        before: The thread of that id as it was before, None where there was none.
    """
    given, known = thread.checkpoints(), {user_key: {user_id}}
    for one in given:
        decoded: Decoded = await Compute(partial(decode, context, thread, one))
        await _store(context, one, decoded, {user_key: user_id})
        for key, users in decoded.users.items():
            known.setdefault(key, set()).update(users)
    await _hide(context, given)
    await _label(context, thread, known)
    await _date(context, thread, before)
    context.state.invalidate_thread(thread.thread_id)


async def _date(context: Context, thread: GivenThread, before: Thread | None) -> None:
    """Give a thread the times that it had, or those of the thread that was there, which span
    more.
    """
    created_at, updated_at = (
        thread.part.member(name).time() for name in ("created_at", "updated_at")
    )
    if before is not None:
        created_at = min(created_at, before.created_at)
        updated_at = max(updated_at, before.updated_at)
    times = {"created_at": created_at, "updated_at": updated_at}
    await BulkWrite(context.checkpoints, [Update(thread_query(thread.thread_id), {"$set": times})])


async def _store(
    context: Context, given: GivenCheckpoint, decoded: Decoded, user: Mapping[str, str]
) -> None:
    """Store a checkpoint on its parent, then its writes. The thread is the user's from its first
    checkpoint on, also where the checkpoints name nobody: else a thread that was cut short would be
    nobody's.
    """
    config = given.address.at(given.parent_id).config()
    config["configurable"] |= {key: one for key, one in user.items() if not decoded.users.get(key)}
    await put(context, config, decoded.checkpoint, decoded.metadata, decoded.values)
    for (task, path), writes in decoded.writes.items():
        await store_writes(context, given.address, task, path, writes)


async def _hide(context: Context, given: Sequence[GivenCheckpoint]) -> None:
    """Hide what was hidden, and say on its children that their parent is."""
    hidden = {one.address for one in given if one.hidden}
    children = [one.address for one in given if one.address.at(one.parent_id) in hidden]
    for places, change in (
        ([*hidden], {"hidden": True}),
        (children, {"parent_is_hidden": True}),
    ):
        keys = [checkpoint_doc_id(place) for place in places]
        for start in range(0, len(keys), MOST_IDS):
            condition = {"_id": {"$in": keys[start : start + MOST_IDS]}}
            await UpdateMany(context.checkpoints, condition, {"$set": change})


async def _label(
    context: Context, thread: GivenThread, known: Mapping[str, Collection[str]]
) -> None:
    """Give a thread its labels, and the users whom it does not know yet."""
    told = {key: part.texts() for key, part in thread.part.member("users").members()}
    for key in context.options.metadata_keys:
        for user in told.get(key, []):
            if user not in known.get(key, ()):
                await update_thread(context, thread.thread_id, {key: user})
    if labels := thread.part.member("labels").object():
        await update_thread(context, thread.thread_id, labels)
