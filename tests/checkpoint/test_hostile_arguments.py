"""Every public parameter of saver and memory x every hostile value: answered, or refused by an
error that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from mongomem import MongoMemory, MongoSaver, Retention
from support.hostile import HOSTILE, Verdict

CHECKPOINT: dict[str, Any] = {
    "v": 4,
    "id": "1f000000-0000-6000-8000-000000000001",
    "ts": "2026-01-01T00:00:00+00:00",
    "channel_values": {"a": 1},
    "channel_versions": {"a": "1"},
    "versions_seen": {},
    "updated_channels": None,
}
CONFIG: Any = {
    "configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": CHECKPOINT["id"]}
}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
NEVER = timedelta(days=9999)

Calls = dict[str, tuple[str, Callable[[Any, Any], Any]]]
"""By a name: what the message of an error says, as a regular expression, and the call with a value
in its place."""


def inside(place: str, value: Any) -> Any:
    """Return a config with a value in one place of it."""
    return {"configurable": {**CONFIG["configurable"], place: value}}


def checkpoint(**fields: Any) -> Any:
    return {**CHECKPOINT, "id": str(uuid4()), **fields}


def answer(found: Any) -> Any:
    return list(found) if inspect.isgenerator(found) else found


READS: Calls = {
    "get config": ("config|thread_id", lambda saver, bad: saver.get(bad)),
    "get_tuple config": ("config|thread_id", lambda saver, bad: saver.get_tuple(bad)),
    "get_tuple configurable": ("config", lambda saver, bad: saver.get_tuple({"configurable": bad})),
    "list config": ("config|thread_id", lambda saver, bad: saver.list(bad)),
    "list filter": ("filter", lambda saver, bad: saver.list(None, filter=bad)),
    "list filter value": (
        "filter|user_id",
        lambda saver, bad: saver.list(None, filter={"a": bad, "user_id": bad}),
    ),
    "list before": ("before|config|checkpoint_id", lambda saver, bad: saver.list(None, before=bad)),
    "list before id": (
        "checkpoint_id",
        lambda saver, bad: saver.list(None, before=inside("checkpoint_id", bad)),
    ),
    "list limit": ("limit", lambda saver, bad: saver.list(None, limit=bad)),
    **{
        f"{method} {place}": (
            place,
            lambda saver, bad, method=method, place=place: getattr(saver, method)(
                inside(place, bad)
            ),
        )
        for method in ("get_tuple", "list")
        for place in ("thread_id", "checkpoint_ns", "checkpoint_id")
    },
    "get_delta_channel_history config": (
        "config|thread_id",
        lambda saver, bad: saver.get_delta_channel_history(config=bad, channels=["a"]),
    ),
    "get_delta_channel_history channels": (
        "channel",
        lambda saver, bad: saver.get_delta_channel_history(config=CONFIG, channels=bad),
    ),
    "get_delta_channel_history channel": (
        "channel",
        lambda saver, bad: saver.get_delta_channel_history(config=CONFIG, channels=[bad]),
    ),
    "list_threads filter": ("filter", lambda saver, bad: saver.list_threads(filter=bad)),
    "list_threads filter value": (
        "filter|user_id",
        lambda saver, bad: saver.list_threads(filter={"a": bad, "user_id": bad}),
    ),
    "list_threads limit": ("limit", lambda saver, bad: saver.list_threads(limit=bad)),
    "list_threads before": ("before", lambda saver, bad: saver.list_threads(before=bad)),
    "get_next_version": ("version", lambda saver, bad: saver.get_next_version(bad, None)),
    "with_allowlist": ("allowlist", lambda saver, bad: saver.with_allowlist(bad)),
}

WRITES: Calls = {
    "put config": (
        "config|thread_id",
        lambda saver, bad: saver.put(bad, checkpoint(), METADATA, {}),
    ),
    "put thread_id": (
        "thread_id",
        lambda saver, bad: saver.put(inside("thread_id", bad), checkpoint(), METADATA, {}),
    ),
    "put user_id": (
        "user_id|metadata",
        lambda saver, bad: saver.put(inside("user_id", bad), checkpoint(), METADATA, {}),
    ),
    "put other key": (
        "metadata",
        lambda saver, bad: saver.put(inside("mine", bad), checkpoint(), METADATA, {}),
    ),
    "put checkpoint": ("checkpoint", lambda saver, bad: saver.put(CONFIG, bad, METADATA, {})),
    **{
        f"put checkpoint {field}": (
            f"{field}|checkpoint|channel",
            lambda saver, bad, field=field: saver.put(
                CONFIG, checkpoint(**{field: bad}), METADATA, {}
            ),
        )
        for field in CHECKPOINT
    },
    "put value": (
        "channel",
        lambda saver, bad: saver.put(CONFIG, checkpoint(channel_values={"a": bad}), METADATA, {}),
    ),
    "put values": (
        "channel",
        lambda saver, bad: saver.put(CONFIG, checkpoint(channel_values={"a": [bad]}), METADATA, {}),
    ),
    "put version": (
        "channel|version",
        lambda saver, bad: saver.put(CONFIG, checkpoint(channel_versions={"a": bad}), METADATA, {}),
    ),
    "put metadata": ("metadata", lambda saver, bad: saver.put(CONFIG, checkpoint(), bad, {})),
    "put metadata value": (
        "metadata|user_id",
        lambda saver, bad: saver.put(
            CONFIG, checkpoint(), {**METADATA, "mine": bad, "run_id": bad}, {}
        ),
    ),
    "put metadata parents": (
        "metadata",
        lambda saver, bad: saver.put(CONFIG, checkpoint(), {**METADATA, "parents": bad}, {}),
    ),
    "put new_versions": (
        "new_versions",
        lambda saver, bad: saver.put(CONFIG, checkpoint(), METADATA, bad),
    ),
    "put_writes config": (
        "config|thread_id",
        lambda saver, bad: saver.put_writes(bad, [("a", 1)], "task"),
    ),
    "put_writes writes": (
        "write|channel",
        lambda saver, bad: saver.put_writes(CONFIG, bad, "task"),
    ),
    "put_writes write": (
        "write|channel",
        lambda saver, bad: saver.put_writes(CONFIG, [bad], "task"),
    ),
    "put_writes channel": (
        "channel",
        lambda saver, bad: saver.put_writes(CONFIG, [(bad, 1)], "task"),
    ),
    "put_writes value": (
        "channel",
        lambda saver, bad: saver.put_writes(CONFIG, [("a", bad)], str(uuid4())),
    ),
    "put_writes task_id": ("task_id", lambda saver, bad: saver.put_writes(CONFIG, [("a", 1)], bad)),
    "put_writes task_path": (
        "task_path",
        lambda saver, bad: saver.put_writes(CONFIG, [("a", 1)], "task", bad),
    ),
    "update_thread thread_id": (
        "thread_id|there is no thread",
        lambda saver, bad: saver.update_thread(bad, {"title": "t"}),
    ),
    "update_thread metadata": ("metadata", lambda saver, bad: saver.update_thread("t", bad)),
    "update_thread value": (
        "metadata|title",
        lambda saver, bad: saver.update_thread("t", {"title": bad}),
    ),
}

REMOVALS: Calls = {
    "delete_thread": ("thread_id", lambda saver, bad: saver.delete_thread(bad)),
    "delete_for_runs": ("run_id", lambda saver, bad: saver.delete_for_runs(bad)),
    "delete_for_runs run": ("run_id", lambda saver, bad: saver.delete_for_runs([bad])),
    "copy_thread source": ("source_thread_id", lambda saver, bad: saver.copy_thread(bad, "copy")),
    "copy_thread target": (
        "target_thread_id",
        lambda saver, bad: saver.copy_thread("no such thread", bad),
    ),
    "prune threads": ("thread_id", lambda saver, bad: saver.prune(bad)),
    "prune thread": ("thread_id", lambda saver, bad: saver.prune([bad])),
    **{
        f"prune {name}": (
            name,
            lambda saver, bad, name=name: saver.prune(["no such thread"], **{name: bad}),
        )
        for name in ("strategy", "keep_last", "older_than", "dry_run")
    },
    "apply_retention policy": (
        "retention",
        lambda saver, bad: saver.apply_retention(bad, dry_run=True),
    ),
    "apply_retention dry_run": (
        "dry_run",
        lambda saver, bad: saver.apply_retention(Retention(idle_threads=NEVER), dry_run=bad),
    ),
    "delete_idle_threads idle_for": (
        "idle_for",
        lambda saver, bad: saver.delete_idle_threads(bad, dry_run=True),
    ),
    "delete_idle_threads dry_run": (
        "dry_run",
        lambda saver, bad: saver.delete_idle_threads(NEVER, dry_run=bad),
    ),
}

CALLS = READS | WRITES | REMOVALS

WITHOUT_END = "many times over"
"""A value of a thousand million elements, which no serializer gets to the end of: not where it is
to be stored."""


def judge(calls: dict[str, Callable[[], Any]], parameter: str) -> Verdict:
    verdict = Verdict()
    for label, call in calls.items():
        error: BaseException | None = None
        try:
            answer(call())
        except Exception as met:
            error = met
        verdict.judge(label, parameter, error)
    return verdict


@pytest.mark.parametrize("name", CALLS)
def test_a_call_answers_or_names_what_is_wrong(
    name: str, mongo_client: MongoClient, shared_database: str
) -> None:
    saver = MongoSaver(mongo_client, shared_database)
    saver.put(inside("checkpoint_id", None), CHECKPOINT, METADATA, {})
    parameter, call = CALLS[name]
    values = {
        label: make for label, make in HOSTILE.items() if name not in WRITES or label != WITHOUT_END
    }
    calls = {label: lambda make=make: call(saver, make()) for label, make in values.items()}
    assert judge(calls, parameter).faults == []


def test_every_public_method_is_called() -> None:
    methods = {
        name for name, _ in inspect.getmembers(MongoSaver, callable) if not name.startswith("_")
    }
    sync = {name for name in methods if not (name[0] == "a" and name[1:] in methods)}
    assert sync - {name.split()[0] for name in CALLS} == {"close", "from_conn_string", "setup"}


@pytest.mark.parametrize("option", sorted(set(inspect.signature(MongoSaver).parameters)))
def test_an_option_is_taken_or_named(option: str, mongo_client: MongoClient) -> None:
    calls = {
        label: lambda make=make: MongoSaver(**{"client": mongo_client, option: make()})
        for label, make in HOSTILE.items()
    }
    assert judge(calls, option).faults == []


@pytest.mark.parametrize("field", sorted(set(inspect.signature(Retention).parameters)))
def test_a_field_of_a_retention_is_taken_or_named(field: str) -> None:
    calls = {
        label: lambda make=make: Retention(**{field: make()}) for label, make in HOSTILE.items()
    }
    assert judge(calls, f"{field}|retention must say").faults == []


@pytest.mark.parametrize("option", sorted(set(inspect.signature(MongoMemory).parameters)))
def test_an_option_of_the_memory_is_taken_or_named(option: str, mongo_client: MongoClient) -> None:
    calls = {
        label: lambda make=make: MongoMemory(**{"client": mongo_client, option: make()})
        for label, make in HOSTILE.items()
    }
    assert judge(calls, option.replace("thread_", "")).faults == []


@pytest.mark.parametrize("method", ["erase_user", "export_user"])
def test_a_user_is_taken_or_named(
    method: str, mongo_client: MongoClient, shared_database: str
) -> None:
    memory = MongoMemory(mongo_client, shared_database)
    calls = {
        label: lambda make=make: getattr(memory, method)(make()) for label, make in HOSTILE.items()
    }
    assert judge(calls, "user").faults == []


@pytest.mark.parametrize("cls", [MongoSaver, MongoMemory])
def test_a_connection_string_is_taken_or_named(cls: Any) -> None:
    calls = {
        label: lambda make=make: cls.from_conn_string(make(), open_timeout=None)
        for label, make in HOSTILE.items()
    }
    assert judge(calls, "connection string").faults == []
