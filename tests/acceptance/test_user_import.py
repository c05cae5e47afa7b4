"""What an import does with documents that no export made, with older ones, and with what is there
already.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import mongomock
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from mongomem import InvalidInputError, MongoMemory
from mongomem.transfer import pieces as limits

Document = dict[str, Any]
NAMES = ("one", "two", "three")


def memories(**options: Any) -> tuple[MongoMemory, MongoMemory, MongoMemory]:
    """Make memories on three databases, their clocks a second on at each look."""
    client, seconds = mongomock.MongoClient(), count()
    began = datetime.now(timezone.utc) - timedelta(hours=1)

    def clock() -> datetime:
        return began + timedelta(seconds=next(seconds))

    return tuple(  # type: ignore[return-value]
        MongoMemory(
            client,
            name,
            saver_options={"clock": clock},
            store_options={"clock": clock},
            **options,
        )
        for name in NAMES
    )


def put(
    memory: MongoMemory, *, user: Any = "ada", thread: str = "1", parent: str | None = None,
    key: str | None = None, **channels: Any,
) -> str:  # fmt: skip
    """Store a checkpoint; return its id."""
    place = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": parent, "user_id": user}
    checkpoint = empty_checkpoint() if key is None else {**empty_checkpoint(), "id": key}
    checkpoint["channel_values"] = channels
    checkpoint["channel_versions"] = dict.fromkeys(channels, 1)
    metadata: Any = {"source": "loop", "step": 0, "parents": {}}
    config: Any = {"configurable": place}
    stored: Any = memory.saver.put(config, checkpoint, metadata, {})  # type: ignore[arg-type]
    return str(stored["configurable"]["checkpoint_id"])


def exported(memory: MongoMemory, user: str = "ada") -> Document:
    document: Document = json.loads(memory.export_user(user).to_json())
    return document


def listed(memory: MongoMemory, user: str = "ada") -> list[str]:
    return [thread.thread_id for thread in memory.user(user).threads()]


def is_empty(memory: MongoMemory) -> bool:
    return not [*memory.saver.list(None)] and not memory.store.search(())


def test_a_thread_put_for_another_stays_with_the_user_whom_it_was_labelled_with() -> None:
    here, there, _ = memories()
    parent = put(here, user="bob", a=1)
    put(here, user="bob", parent=parent, a=2)
    here.saver.update_thread("1", {"user_id": "ada"})
    for _ in range(2):
        assert there.import_user(exported(here)).threads == ["1"]
        assert [listed(there, user) for user in ("ada", "bob")] == [["1"], ["1"]]
        assert there.user("ada").threads() == here.user("ada").threads()
    assert exported(there)["threads"] == exported(here)["threads"]
    assert there.erase_user("ada").threads == ["1"]
    assert is_empty(there)


def test_an_encrypting_saver_takes_the_user_of_a_label_and_refuses_others_beforehand() -> None:
    here, *_ = memories()
    put(here, user="bob", a=1)
    here.saver.update_thread("1", {"user_id": "ada"})
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    there = MongoMemory(here._client, "four", serde=cipher)
    document = exported(here)
    document["threads"][0]["users"]["user_id"].append("grace")
    with pytest.raises(InvalidInputError, match=r"users\.user_id: .*would stand readable"):
        there.import_user(document)
    assert is_empty(there)
    for _ in range(2):
        there.import_user(exported(here))
    assert there.erase_user("ada").threads == ["1"]


def test_a_thread_without_checkpoints_is_left_out_and_the_others_are_stored() -> None:
    here, there, _ = memories()
    put(here, a=1)
    document = exported(here)
    empty = {"thread_id": "gone", "checkpoints": [], "labels": {"title": "x"}}
    document["threads"].insert(0, {**document["threads"][0], **empty})
    for _ in range(2):
        assert there.import_user(document).threads == listed(there) == ["1"]


def test_a_thread_of_which_no_checkpoint_can_be_read_is_undecided() -> None:
    here, there, _ = memories()
    for thread in ("1", "2"):
        put(here, thread=thread, a=1)
        here.saver.update_thread(thread, {"title": "T"})
    checkpoints = here._client["one"]["mongomem_checkpoints"]
    checkpoints.update_many({"type": "checkpoint", "thread_id": "1"}, {"$set": {"body": 7}})
    document = exported(here)
    assert [one["thread_id"] for one in document["threads"]] == ["2"]
    assert document["undecided"] == ["1"]
    assert there.import_user(document).threads == listed(there) == ["2"]


TIMES = {
    "1970": "1970-01-01T00:00:00+00:00",
    "less than a millisecond later": "1970-01-01T00:00:00.000999+00:00",
    "1969": "1969-07-20T20:17:00Z",
    "the first year": "0001-01-02T00:00:00+00:00",
    "in three days": (datetime.now(timezone.utc) + timedelta(days=3)).isoformat(),
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("name", ["created_at", "updated_at"])
@pytest.mark.parametrize("kind", ["threads", "memories"])
def test_a_time_that_nothing_is_listed_by_is_refused(kind: str, name: str, time: str) -> None:
    here, there, _ = memories()
    put(here, a=1)
    here.user("ada").remember("tea")
    document = exported(here)
    document[kind][0][name] = time.replace("Z", "+00:00")
    with pytest.raises(InvalidInputError, match=rf"{kind}\[0\]\.{name} must be a time after 1970"):
        there.import_user(document)
    assert is_empty(there)


def test_more_users_than_a_thread_remembers_are_refused_before_the_first_write() -> None:
    here, there, _ = memories()
    put(here, a=1)
    document = exported(here)
    thread = document["threads"][0]
    thread["users"]["user_id"] = ["ada", *(f"user {number}" for number in range(1000))]
    with pytest.raises(InvalidInputError, match=r"users\.user_id must be so few .* at most 1000"):
        there.import_user(document)
    assert is_empty(there)
    thread["users"]["user_id"].pop()
    there.import_user(document)
    assert listed(there, "user 998") == ["1"]
    thread["users"]["user_id"] = ["another"]
    with pytest.raises(InvalidInputError, match="at most 1000"):
        there.import_user(document)


def test_labels_that_have_no_room_beside_those_there_are_refused_before_the_first_write() -> None:
    here, there, _ = memories()
    put(here, a=1)
    there.import_user(exported(here))
    for memory, key in ((here, "a"), (there, "b")):
        for number in range(5):
            memory.saver.update_thread("1", {f"{key}{number}": "x" * 2000})
    put(here, a=2)
    before = there.saver.get_tuple({"configurable": {"thread_id": "1"}})
    with pytest.raises(InvalidInputError, match=r"labels: the labels of a thread come to"):
        there.import_user(exported(here))
    assert there.saver.get_tuple({"configurable": {"thread_id": "1"}}) == before


def line(*ids: str) -> Callable[[Document], None]:
    """Give the first checkpoints of a document each the parent that is named."""

    def change(document: Document) -> None:
        given = document["threads"][0]["checkpoints"]
        for one, parent in zip(given, ids, strict=False):
            one["parent_id"] = given[int(parent)]["id"]

    return change


@pytest.mark.parametrize("parents", ["0", "10", "120", "011", "112"])
def test_a_checkpoint_that_is_its_own_ancestor_is_refused(parents: str) -> None:
    here, there, _ = memories()
    for number in range(3):
        put(here, a=number)
    document = exported(here)
    line(*parents)(document)
    with pytest.raises(InvalidInputError, match=r"parent_id must be the id of no descendant"):
        there.import_user(document)
    assert is_empty(there)


def test_two_checkpoints_of_one_id_are_refused() -> None:
    here, there, _ = memories()
    put(here, a=1)
    document = exported(here)
    document["threads"][0]["checkpoints"] *= 2
    with pytest.raises(InvalidInputError, match=r"checkpoints\[1\]\.id must be the id of one"):
        there.import_user(document)
    assert is_empty(there)


def test_a_child_with_a_lower_id_than_its_parent_comes_along() -> None:
    here, there, _ = memories()
    parent = put(here, key="1f000000-0000-6000-8000-000000000002", a=1)
    put(here, key="1f000000-0000-6000-8000-000000000001", parent=parent, a=2)
    there.import_user(exported(here))
    assert exported(there)["threads"] == exported(here)["threads"]


def test_an_import_that_was_cut_short_does_not_date_the_thread() -> None:
    """As the half of an import leaves it: stored just now, without labels."""
    here, there, _ = memories()
    for thread in ("1", "2"):
        put(here, thread=thread, a=1)
        here.saver.update_thread(thread, {"title": thread})
    document = exported(here)
    half = {**document["threads"][1], "labels": {}, "updated_at": exported(here)["exported_at"]}
    there.import_user({**document, "threads": [half]})
    there.import_user(document)
    assert there.user("ada").threads() == here.user("ada").threads()


def test_a_thread_that_goes_on_keeps_its_time_and_its_labels() -> None:
    here, there, third = memories()
    parent = put(here, a=1)
    here.saver.update_thread("1", {"title": "old", "old": 1})
    document = exported(here)
    for memory in (here, there):
        memory.import_user(document)
        put(memory, parent=parent, a=2)
        memory.saver.update_thread("1", {"title": "new", "old": None})
        before = memory.user("ada").threads()
        memory.import_user(document)
        assert memory.user("ada").threads() == before
        assert before[0].metadata["title"] == "new"
    third.import_user(document)
    third.import_user(exported(here))
    assert third.user("ada").threads()[0].metadata["title"] == "new"


def test_a_title_given_after_an_import_stays_when_it_is_repeated() -> None:
    here, there, _ = memories()
    put(here, a=1)
    here.saver.update_thread("1", {"title": "old", "tag": 1})
    for _ in range(2):
        there.import_user(exported(here))
        there.saver.update_thread("1", {"title": "new"})
    there.import_user(exported(here))
    metadata = there.user("ada").threads()[0].metadata
    assert (metadata["title"], metadata["tag"]) == ("new", 1)


def test_a_memory_and_a_profile_that_are_newer_than_the_document_stay() -> None:
    memory, other, _ = memories()
    ada = memory.user("ada")
    ada.remember("old", key="a")
    ada.remember("same", key="b")
    ada.update_profile({"name": "old"})
    old = exported(memory)
    ada.remember("new", key="a")
    ada.update_profile({"name": "new"})
    new = exported(memory)
    assert memory.import_user(old).memories == 1
    assert exported(memory)["memories"] == new["memories"]
    assert other.import_user(old).memories == other.import_user(new).memories == 3
    assert exported(other)["memories"] == new["memories"]


def test_a_memory_with_the_same_value_gets_its_times() -> None:
    """As the half of an import leaves it."""
    here, there, _ = memories()
    here.store.put(("ada", "memories"), "k", {"text": "tea", "nan": float("nan"), "pair": (1, 2)})
    there.store.put(("ada", "memories"), "k", {"text": "tea", "nan": float("nan"), "pair": (1, 2)})
    assert there.import_user(exported(here)).memories == 1
    assert exported(there)["memories"][0] == exported(here)["memories"][0]


def repeated(document: Document, size: int, times: int, channels: int) -> None:
    """Let the channels of the first checkpoint name one piece again and again."""
    thread = document["threads"][0]
    thread["pieces"] = [base64.b64encode(b"\x00" * size).decode()]
    value = {"type": "bytes", "pieces": [0] * times}
    thread["checkpoints"][0]["channels"] = {f"c{number}": value for number in range(channels)}


def test_pieces_are_not_longer_than_the_export_makes_them() -> None:
    here, there, _ = memories()
    put(here, a=1)
    document = exported(here)
    repeated(document, limits.LARGEST_PIECE + 1, 1, 1)
    with pytest.raises(InvalidInputError, match=r"pieces\[0\] must be a piece of at most 4096"):
        there.import_user(document)
    assert is_empty(there)


def test_the_values_of_a_checkpoint_do_not_repeat_pieces_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "ALWAYS_TAKEN", 100_000)
    here, there, _ = memories()
    put(here, a=1)
    document = exported(here)
    repeated(document, 1000, 40, 2)
    there.import_user(document)
    repeated(document, 1000, 40, 3)
    with pytest.raises(InvalidInputError, match=r"channels\.c2\.pieces must be fewer pieces"):
        there.import_user(document)


def test_what_an_export_made_may_repeat_itself() -> None:
    here, there, _ = memories()
    put(here, a=b"\x00" * 3_000_000, b=b"\x00" * 3_000_000)
    there.import_user(exported(here))
    assert exported(there)["threads"] == exported(here)["threads"]


def test_of_a_memory_that_is_there_twice_the_newest_is_stored() -> None:
    here, there, _ = memories()
    here.user("ada").remember("I live in Lisbon.", key="home")
    document = exported(here)
    (one,) = document["memories"]
    newer = datetime.fromisoformat(one["updated_at"]) + timedelta(seconds=1)
    moved = {**one, "value": {"text": "I live in Porto."}, "updated_at": newer.isoformat()}
    for given in ([one, moved], [moved, one]):
        assert there.import_user({**document, "memories": given}).memories == 1
        assert [item.value["text"] for item in there.user("ada").recall()] == ["I live in Porto."]
        there.erase_user("ada")


def test_memories_that_lose_their_vectors_are_counted() -> None:
    index: Any = {"embed": lambda texts: [[1.0, 2.0] for _ in texts], "dims": 2, "model": "m"}
    here, there, _ = memories(index=index)
    here.user("ada").remember("I live in Lisbon.", key="home")
    here.user("ada").update_profile({"name": "Ada"})
    document = exported(here)
    assert there.import_user(document).without_vectors == 0
    plain = MongoMemory(mongomock.MongoClient(), "plain")
    assert plain.import_user(document).without_vectors == 1
    document["memories"][0]["embedded"] = "yes"
    with pytest.raises(InvalidInputError, match=r"embedded must be true or false, not 'yes'"):
        plain.import_user(document)
