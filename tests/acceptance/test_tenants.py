"""Several users on one database, step by random step: nobody gets what is another's, and erasing
leaves nothing.

Two processes with caches of their own put, label, copy, delete, export and erase; a put may be
overtaken by a deletion between its statements. A model of a few lines says whose each thread is.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import mongomock
import pytest
from bson import ObjectId
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import MongoMemory, ThreadNotFoundError, user_namespace
from mongomem.checkpoint.plans import delete
from mongomem.engine.runners import Runners
from support.databases import drop
from support.stepping import Split

GRACE = timedelta(hours=1)
USERS: list[tuple[Any, str]] = [
    ("zoe-lee", "zoe-lee"),
    ("zoe-le", "zoe-le"),
    ("zoe.le@example.com", "zoe.le@example.com"),
    (7_000_001, "7000001"),
    (2**70, str(2**70)),
    (uuid.UUID(int=2**127 + 5), str(uuid.UUID(int=2**127 + 5))),
    (ObjectId(b"abcdefghijkl"), b"abcdefghijkl".hex()),
]
users = st.sampled_from(USERS)
processes = st.integers(0, 1)
SHARED = ("shared 1", "shared 2")


class TenantMachine(RuleBasedStateMachine):
    """Does what users do, and keeps whose each thread is, and who was erased since they did
    anything.
    """

    clients: tuple[Any, ...]
    options: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.name = f"test_{uuid.uuid4().hex}"
        self.memories = [self.memory(), self.memory()]
        self.owners: dict[str, set[str]] = {}
        self.erased: set[str] = set()

    def memory(self) -> MongoMemory:
        own = {"clock": lambda: self.now, "grace": GRACE, "auto_setup": False}
        saver_options = {key: value for key, value in own.items() if key != "auto_setup"}
        return MongoMemory(
            self.clients[0],
            self.name,
            auto_setup=False,
            saver_options=saver_options,
            **self.options,
        )

    def teardown(self) -> None:
        drop(self.clients[0], self.name)

    def thread_of(self, text: str, shared: int | None) -> str:
        return f"{text}'s" if shared is None else SHARED[shared]

    def _put(self, memory: MongoMemory, thread: str, user: Any, text: str) -> None:
        self.now += timedelta(seconds=1)
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "user_id": user}}
        last = memory.saver.get_tuple({"configurable": {"thread_id": thread}})
        if last is not None:
            config["configurable"]["checkpoint_id"] = last.config["configurable"]["checkpoint_id"]
        checkpoint: Any = {
            "v": 4,
            "id": str(uuid6()),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {"messages": [f"of {text} " + "x" * 3000], "note": f"note of {text}"},
            "channel_versions": {"messages": str(uuid6()), "note": str(uuid6())},
            "versions_seen": {},
            "updated_channels": None,
        }
        stored = memory.saver.put(
            config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, {}
        )
        memory.saver.put_writes(
            stored, [("note", f"write of {text}"), ("long", text * 9000)], "task"
        )

    @rule(process=processes, user=users, shared=st.none() | st.integers(0, 1))
    def put(self, process: int, user: tuple[Any, str], shared: int | None) -> None:
        thread = self.thread_of(user[1], shared)
        self._put(self.memories[process], thread, *user)
        self.owners.setdefault(thread, set()).add(user[1])
        self.erased.discard(user[1])

    @rule(
        process=processes,
        user=users,
        shared=st.none() | st.integers(0, 1),
        by=st.sampled_from(["delete", "erase"]),
    )
    def put_that_is_overtaken(
        self, process: int, user: tuple[Any, str], shared: int | None, by: str
    ) -> None:
        thread, overtaken = self.thread_of(user[1], shared), []
        if thread not in self.owners:
            return

        def remove() -> None:
            overtaken.append(by)
            self.memory().erase_user(
                user[0]
            ) if by == "erase" else self.memory().saver.delete_thread(thread)

        saver = self.memories[process].saver
        plain = saver._runners
        saver._runners = Runners(Split(plain.run.database, remove), plain.arun)  # type: ignore[attr-defined]
        try:
            self._put(self.memories[process], thread, *user)
        finally:
            saver._runners = plain
        self.owners[thread].add(user[1])  # the statement before said so
        for one in (
            [one for one, owners in self.owners.items() if user[1] in owners]
            if by == "erase"
            else [thread]
        ):
            if overtaken:
                del self.owners[one]
        (self.erased.add if overtaken and by == "erase" else self.erased.discard)(user[1])
        for memory in (*self.memories, self.memory()):
            assert (
                memory.saver.get_tuple({"configurable": {"thread_id": thread}}) is None
            ) == bool(overtaken)
            assert {
                one.config["configurable"]["thread_id"] for one in memory.saver.list(None)
            } == self.owners.keys()

    @rule(process=processes, user=users)
    def remember(self, process: int, user: tuple[Any, str]) -> None:
        self.memories[process].store.put(
            user_namespace(user[0]), "fact", {"text": f"memory of {user[1]}"}
        )
        self.erased.discard(user[1])

    @rule(process=processes, source=users, onto=users, shared=st.none() | st.integers(0, 1))
    def copy(
        self, process: int, source: tuple[Any, str], onto: tuple[Any, str], shared: int | None
    ) -> None:
        one, other = self.thread_of(source[1], None), self.thread_of(onto[1], shared)
        if one == other:
            return
        self.now += timedelta(seconds=1)
        self.memories[process].saver.copy_thread(one, other)
        if one in self.owners:
            self.owners[other] = self.owners.get(other, set()) | self.owners[one]

    @rule(process=processes, user=users, shared=st.none() | st.integers(0, 1), adds=st.booleans())
    def label(self, process: int, user: tuple[Any, str], shared: int | None, adds: bool) -> None:
        thread = self.thread_of(user[1], shared)
        labels = {
            "title": f"title of {sorted(self.owners.get(thread, ()))}",
            **({"user_id": user[0]} if adds else {}),
        }
        if "serde" in self.options:
            return
        if thread not in self.owners:
            with pytest.raises(ThreadNotFoundError):
                self.memories[process].saver.update_thread(thread, labels)
            return
        self.memories[process].saver.update_thread(thread, labels)
        if adds:
            self.owners[thread].add(user[1])
            self.erased.discard(user[1])

    @rule(process=processes, user=users, shared=st.none() | st.integers(0, 1), whole=st.booleans())
    def delete(self, process: int, user: tuple[Any, str], shared: int | None, whole: bool) -> None:
        thread = self.thread_of(user[1], shared)
        if whole:
            self.memories[process].saver.delete_thread(thread)
            self.owners.pop(thread, None)
        else:
            self.memories[process].saver.prune([thread])

    @rule(process=processes, user=users)
    def erase(self, process: int, user: tuple[Any, str]) -> None:
        owned = {thread for thread, owners in self.owners.items() if user[1] in owners}
        erased = self.memories[process].erase_user(user[0])
        assert (set(erased.threads), erased.undecided) == (owned, [])
        for thread in owned:
            del self.owners[thread]
        self.erased.add(user[1])
        assert list(self.memory().export_user(user[0])) == []

    @rule(process=processes, user=users)
    def export(self, process: int, user: tuple[Any, str]) -> None:
        owned = {thread for thread, owners in self.owners.items() if user[1] in owners}
        exported = list(self.memories[process].export_user(user[0]))
        seen: set[str] = set()
        for one in exported:
            if hasattr(one, "checkpoint"):
                thread = one.config["configurable"]["thread_id"]
                seen.add(thread)
                note = one.checkpoint["channel_values"]["note"].removeprefix("note of ")
                assert note in self.owners[thread]
            else:
                assert one.value["text"] == f"memory of {user[1]}"
        assert seen == owned
        if "serde" not in self.options:
            listed = self.memories[1 - process].saver.list_threads(filter={"user_id": user[0]})
            assert {one.thread_id for one in listed} == owned

    @rule(minutes=st.sampled_from([20, 61]))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @precondition(lambda self: self.erased)
    @rule()
    def nothing_is_left_of_who_was_erased(self) -> None:
        for _ in range(4):
            self.now += GRACE
            saver = self.memory().saver
            saver._runners.run(delete.remove_tombstones(saver._context()))
        database = self.clients[0][self.name]
        stored = b"".join(
            bson.encode(one)
            for name in database.list_collection_names()
            for one in database[name].find()
        )
        threads = [thread for thread, owners in self.owners.items() if owners & self.erased]
        assert threads == []
        for text in self.erased:
            others = [
                one
                for one in (*(user for _, user in USERS), *SHARED)
                if one != text and text in one
            ]
            remaining = stored
            for other in others:  # "zoe-le" is in "zoe-lee"
                remaining = remaining.replace(other.encode(), b"")
            assert text.encode() not in remaining
        ids = {
            one["thread_id"] for one in database["mongomem_checkpoints"].find({}, {"thread_id": 1})
        }
        assert ids == set(self.owners)


SECRET = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")


@pytest.mark.parametrize("kind", ["mongod", "mongomock"])
@pytest.mark.parametrize("options", [{}, {"serde": SECRET}], ids=["plain", "encrypted"])
def test_tenants(kind: str, options: dict[str, Any], mongo_client: MongoClient) -> None:
    client = mongo_client if kind == "mongod" else mongomock.MongoClient()
    machine = type("Machine", (TenantMachine,), {"clients": (client,), "options": options})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
