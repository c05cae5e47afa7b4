"""Export and import of threads and items, compared through the public methods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import MongoMemory, ThreadNotFoundError
from mongomem.backup import page_sizes
from mongomem.backup.lines import encoded
from mongomem.backup.selection import Selection
from support.backups import exported, imported, items_of, lines_in, threads_of
from support.migrations import GRAPHS, assert_same_threads, config_of


def test_everything_comes_back(source: MongoMemory, mongo_client: MongoClient, target: str) -> None:
    data, told = exported(source)
    new = MongoMemory(mongo_client, target)
    report = imported(new, data)
    assert report.threads == told.threads == 8
    assert report.checkpoints.copied == report.checkpoints.found == told.checkpoints
    assert report.items.copied == told.items == 5
    assert report.left_out.count == told.left_out.count == 0
    assert items_of(new) == items_of(source)
    assert threads_of(new) == threads_of(source)
    assert_same_threads(source.saver, MongoMemory(mongo_client, target).saver)
    again, _ = exported(new)
    assert lines_in(again) == lines_in(data)


def test_what_is_there_is_skipped(
    source: MongoMemory, mongo_client: MongoClient, target: str
) -> None:
    data, told = exported(source)
    new = MongoMemory(mongo_client, target)
    imported(new, data)
    new.store.put(("ada",), "name", {"text": "Countess"})
    GRAPHS["asking"](new.saver).update_state(config_of("asking"), {"topic": "later"})
    before, items = threads_of(new), items_of(new)
    report = imported(new, data)
    assert (report.checkpoints.copied, report.items.copied) == (0, 0)
    assert (report.checkpoints.present, report.items.present) == (told.checkpoints, told.items)
    assert threads_of(new) == before
    assert items_of(new) == items


def test_between_databases_that_encrypt(
    source: MongoMemory, mongo_client: MongoClient, target: str, database_name: str
) -> None:
    def encrypting(name: str, prefix: str) -> MongoMemory:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen bytes..." * 2)
        return MongoMemory(mongo_client, name, serde=serde, collection_prefix=prefix)

    source.saver.update_thread("chat", {"title": None, "pinned": None})
    data, _ = exported(source)
    sealed = encrypting(target, "sealed_")
    imported(sealed, data)
    assert_same_threads(source.saver, sealed.saver)
    again, told = exported(encrypting(target, "sealed_"))
    assert told.left_out.count == 0
    plain = MongoMemory(mongo_client, target, collection_prefix="plain_")
    imported(plain, again)
    assert_same_threads(source.saver, plain.saver)
    assert exported(encrypting(target, "none_"))[1].threads == 0


def test_a_selection(source: MongoMemory, mongo_client: MongoClient, target: str) -> None:
    source.store.put(("ada%2Eb",), "k", {})
    chosen = Selection(["asking", "chat"], ["ada"], [("docs",), ("docs", "a")])
    data, told = exported(source, chosen)
    new = MongoMemory(mongo_client, target)
    imported(new, data)
    assert {one.thread_id for one in threads_of(new)} == {"asking", "chat", "odd"}
    assert {place for place, _ in items_of(new)} == {("ada",), ("ada", "memories"), ("docs", "a")}
    assert (told.threads, told.items) == (3, 3)
    with pytest.raises(ThreadNotFoundError, match="there is no thread 'nobody'"):
        exported(source, Selection(["asking", "nobody"]))
    assert exported(source, Selection(users=["nobody"]))[1].json() == {
        "threads": 0,
        "checkpoints": 0,
        "items": 0,
        "left_out": {"count": 0, "first": []},
    }


def test_large_values_stand_in_short_lines(
    mongo_client: MongoClient, database_name: str, target: str
) -> None:
    source = MongoMemory(mongo_client, database_name)
    config: Any = config_of("large", checkpoint_ns="")
    text = "".join(f"{number:>12}" for number in range(400_000))
    for step in range(2):
        one = empty_checkpoint()
        one["channel_values"] = {"text": f"{text}{step}"}
        one["channel_versions"] = {"text": step + 1}
        config = source.saver.put(config, one, {"step": step}, {"text": step + 1})
    data, _ = exported(source)
    assert len(data) < 9_000_000
    assert max(map(len, data.splitlines())) < 2_000_000
    new = MongoMemory(mongo_client, target)
    imported(new, data)
    assert [*new.saver.list(None)] == [*source.saver.list(None)]


def test_items_by_pages(
    mongo_client: MongoClient, database_name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, new = MongoMemory(mongo_client, database_name), MongoMemory(mongo_client, target)
    for number in range(250):
        source.store.put(("many",), f"k{number}", {"text": "x" * (number % 7)})
    data, _ = exported(source)
    monkeypatch.setattr(page_sizes, "PAGE_BYTES", 1000)
    assert lines_in(exported(source)[0]) == lines_in(data)
    assert imported(new, data).items.copied == 250
    assert items_of(new) == items_of(source)


def test_a_thread_goes_where_it_was_in_the_list(
    source: MongoMemory, mongo_client: MongoClient, target: str
) -> None:
    data, _ = exported(source)
    new = MongoMemory(mongo_client, target)
    GRAPHS["asking"](new.saver).invoke({"topic": "x"}, config_of("newer"))
    imported(new, data)
    assert [one.thread_id for one in threads_of(new)] == [
        "newer",
        *(one.thread_id for one in threads_of(source)),
    ]


def test_another_thread_of_that_id_is_left_as_it_is(
    source: MongoMemory, mongo_client: MongoClient, target: str
) -> None:
    new = MongoMemory(mongo_client, target)
    GRAPHS["asking"](new.saver).invoke({"topic": "other"}, config_of("chat"))
    before = [*new.saver.list(config_of("chat"))]
    report = imported(new, exported(source)[0])
    (left,) = report.left_out.first
    assert left.what == "thread 'chat'"
    assert "no checkpoint in common" in left.reason
    assert [*new.saver.list(config_of("chat"))] == before
    assert len(threads_of(new)) == 8


def test_what_is_damaged_is_named(source: MongoMemory, mongo_client: MongoClient) -> None:
    database = mongo_client[source.saver._runners.run.database.name]  # type: ignore[attr-defined]
    documents = database["mongomem_checkpoints"]
    newest = documents.find_one({"type": "checkpoint", "thread_id": "chat"})
    assert newest is not None
    documents.update_one({"_id": newest["_id"]}, {"$set": {"channels": 7}})
    documents.update_many(
        {"type": "checkpoint", "thread_id": "nested"}, {"$unset": {"checkpoint_id": ""}}
    )
    documents.update_one({"type": "thread", "thread_id": "odd"}, {"$set": {"labels.x": "\x00"}})
    database["mongomem_store_items"].update_one({"key": "name"}, {"$set": {"value": 3}})
    data, told = exported(source)
    named = {one.what: one.reason for one in told.left_out.first}
    assert named.keys() == {"thread 'chat'", "thread 'nested'", "'ada\\x00\\x00name'"}
    assert named["thread 'chat'"] == "1 of 6 checkpoints cannot be read"
    assert told.threads == 7
    assert not any("nested" in str(line.get("thread")) for line in lines_in(data))


def item_line(key: str, text: str, minute: int = 0) -> dict[str, Any]:
    time = f"2024-05-01T10:{minute:02}:00+00:00"
    value = {"text": text}
    item = {"namespace": ["ada"], "key": key, "value": value, "created_at": time}
    return {"item": {**item, "updated_at": time}}


TWICE = {
    "the later line is newer": (1, 2, "second"),
    "the later line is older": (2, 1, "first"),
    "of the same time": (1, 1, "second"),
}


@pytest.mark.parametrize("between", [0, 150])
@pytest.mark.parametrize("case", TWICE)
def test_of_an_item_that_is_there_twice_the_newest_is_stored(
    case: str, between: int, mongo_client: MongoClient, target: str
) -> None:
    """In one page, and pages apart; and the same again where it is imported again."""
    first, second, kept = TWICE[case]
    head = {"format": "mongomem.lines", "version": 1, "exported_at": "2024-05-01T11:00:00+00:00"}
    lines = [
        head,
        item_line("twice", "first", first),
        *(item_line(f"k{number}", "x") for number in range(between)),
        item_line("twice", "second", second),
        {"end": {"threads": 0, "checkpoints": 0, "items": between + 2}},
    ]
    data = b"".join(encoded(one) for one in lines)
    new = MongoMemory(mongo_client, target)
    for _ in range(2):
        report = imported(new, data)
        assert report.items.found == report.items.copied + report.items.present == between + 2
        item = new.store.get(("ada",), "twice")
        assert item is not None
        assert item.value == {"text": kept}
        assert item.updated_at.minute == max(first, second)


def test_vectors_that_are_lost_are_counted(
    mongo_client: MongoClient, database_name: str, target: str
) -> None:
    index: Any = {"embed": lambda texts: [[1.0, 2.0] for _ in texts], "dims": 2, "model": "m"}
    source = MongoMemory(mongo_client, database_name, index=index)
    for key, choice in (("a", None), ("b", False), ("c", None)):
        source.store.put(("ada",), key, {"text": key}, index=choice)
    data, _ = exported(source)
    head, first, *_ = (json.loads(line) for line in data.splitlines())
    assert (head["index"]["model"], head["index"]["dims"]) == ("m", 2)
    assert first["item"]["embedded"] is True
    assert [one["item"].get("embedded") for one in lines_in(data)[:-1]] == [True, None, True]
    new = MongoMemory(mongo_client, target)
    report = imported(new, data)
    assert (report.without_vectors, report.index) == (2, head["index"])
    assert imported(new, data).without_vectors == 0
    new.store.delete_namespace(("ada",))
    assert imported(MongoMemory(mongo_client, target, index=index), data).without_vectors == 0
    assert [one.score for one in source.store.search(("ada",), query="a")][:2] == [
        one.score
        for one in MongoMemory(mongo_client, target, index=index).store.search(("ada",), query="a")
    ][:2]


def test_a_first_line_that_says_nothing_of_the_index(
    source: MongoMemory, mongo_client: MongoClient, database_name: str, target: str
) -> None:
    """As files of before have it, and those of a store whose settings are damaged."""
    settings = mongo_client[database_name]["mongomem_store_settings"]
    settings.insert_one({"_id": "index", "model": 7, "dims": b"x"})
    data, _ = exported(source)
    head = json.loads(data.splitlines()[0])
    assert head.pop("index") is None
    assert imported(MongoMemory(mongo_client, target), data).index is None
    _, rest = data.split(b"\n", 1)
    for given in (head, {**head, "index": []}, {**head, "index": {"model": "m", "dims": -1}}):
        report = imported(MongoMemory(mongo_client, target), encoded(given) + rest)
        assert (report.index, report.without_vectors) == (None, 0)
