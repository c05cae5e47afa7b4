"""Messages that are serialized and deserialized one by one: what comes out is what the serializer
itself gives.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import tracemalloc
from collections import OrderedDict
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from mongomem.checkpoint.serde import message_cache
from mongomem.checkpoint.serde.cache import Doorkeeper
from mongomem.checkpoint.serde.message_cache import (
    MIN_MESSAGES,
    MSGPACK,
    MessageCache,
    cached_types,
    join,
    opening_of,
    split_elements,
    types_that_agree,
)
from mongomem.checkpoint.serde.message_snapshots import (
    DEEPEST,
    MessageSnapshot,
    identical,
    plain_copy,
    snapshot_of,
)
from mongomem.checkpoint.serde.message_types import MESSAGE_TYPES, specimen
from mongomem.checkpoint.serde.serializer import ValueSerializer

SERDE = JsonPlusSerializer()

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0]),
)
leaves = st.one_of(st.none(), numbers, st.text(max_size=5), st.binary(max_size=5))
plain = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
odd = st.sampled_from([(1, 2), {3}, datetime(2026, 1, 1, tzinfo=timezone.utc), [(1,)], {"a": {4}}])
anything = st.one_of(plain, plain, odd)
notes = st.dictionaries(st.text(max_size=3), anything, max_size=2)
ids = st.one_of(st.none(), st.sampled_from("abcdefghijkl"), st.uuids().map(str))
contents = st.one_of(
    st.text(max_size=20),
    st.lists(st.one_of(st.text(max_size=3), st.fixed_dictionaries({"type": st.just("text")}))),
)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.just("look"),
            "args": st.dictionaries(st.text(max_size=3), plain, max_size=2),
            "id": st.just("c1"),
        }
    ),
    max_size=2,
)
shared = {"content": contents, "id": ids, "additional_kwargs": notes, "response_metadata": notes}
kinds = st.one_of(
    st.builds(HumanMessage, **shared),
    st.builds(SystemMessage, **shared),
    st.builds(AIMessage, **shared, tool_calls=calls),
    st.builds(AIMessageChunk, **shared),
    st.builds(ChatMessage, **shared, role=st.just("critic")),
    st.builds(FunctionMessage, **shared, name=st.just("f")),
    st.builds(ToolMessage, **shared, tool_call_id=st.just("c1"), artifact=anything),
    st.builds(HumanMessage, **shared, name=st.text(max_size=3), of_own=anything),
)
conversations = st.lists(kinds, min_size=MIN_MESSAGES, max_size=MIN_MESSAGES + 3)


def state_of(value: Any) -> Any:
    """Return all there is to a value, comparable: types, order, and floats as they are written."""
    if isinstance(value, BaseModel):
        given = sorted(value.__pydantic_fields_set__)
        return type(value), state_of(value.__dict__), state_of(value.__pydantic_extra__), given
    if isinstance(value, dict):
        return type(value), [(state_of(key), state_of(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [state_of(one) for one in value]
    return type(value), repr(value)


def cached(cache: MessageCache, value: list[Any]) -> list[AnyMessage]:
    """Have a cache read a list until it is cached; return what it reads then."""
    data = SERDE.dumps_typed(value)[1]
    for _ in range(2):
        cache.loads(SERDE, data)
    found: list[AnyMessage] = cache.loads(SERDE, data)
    return found


@settings(max_examples=60, deadline=None)
@given(conversations)
def test_a_list_is_read_as_the_serializer_reads_it(value: list[AnyMessage]) -> None:
    cache, data = MessageCache(2**20), SERDE.dumps_typed(value)[1]
    expected = state_of(SERDE.loads_typed((MSGPACK, data)))
    for _ in range(4):
        assert state_of(cache.loads(SERDE, data)) == expected


@settings(max_examples=60, deadline=None)
@given(conversations, st.data())
def test_a_list_is_stored_as_the_serializer_stores_it_whatever_was_changed_in_place(
    value: list[AnyMessage], data: st.DataObject
) -> None:
    cache = MessageCache(2**20)
    value = cached(cache, value)
    for _ in range(3):
        _change(value, data)
        stored = cache.dumps(SERDE, value)
        assert stored == SERDE.dumps_typed(value)
        assert state_of(cache.loads(SERDE, stored[1])) == state_of(SERDE.loads_typed(stored))


CHANGES = ("nothing", "content", "note", "deep", "id", "append", "drop", "replace", "extra")


def _change(value: list[AnyMessage], data: st.DataObject) -> None:
    """Do something to a list that a node might do."""
    one = value[data.draw(st.integers(0, len(value) - 1))]
    change = data.draw(
        st.sampled_from(
            ["nothing", "content", "note", "deep", "id", "append", "drop", "replace", "extra"]
        )
    )
    if change == "content":
        one.content = data.draw(contents)
    elif change == "note":
        one.additional_kwargs[data.draw(st.text(max_size=3))] = data.draw(anything)
    elif change == "deep":
        one.response_metadata.setdefault("deep", {})[data.draw(st.text(max_size=1))] = data.draw(
            numbers
        )
    elif change == "id":
        one.id = data.draw(ids)
    elif change == "append":
        value.append(data.draw(kinds))
    elif change == "drop" and len(value) > MIN_MESSAGES:
        value.remove(one)
    elif change == "replace":
        value[value.index(one)] = data.draw(kinds)
    elif change == "extra" and one.__pydantic_extra__ is not None:
        one.__pydantic_extra__["more"] = data.draw(anything)


def chat(length: int = 20) -> list[AnyMessage]:
    return [
        HumanMessage(f"line {n}", id=f"m{n}", additional_kwargs={"seen": [n]})
        for n in range(length)
    ]


def test_what_is_read_shares_nothing_with_what_was_read_before() -> None:
    cache = MessageCache(2**20)
    first = cached(cache, chat())
    for message in first:
        message.content = "changed"
        message.additional_kwargs["seen"].append("changed")
        message.response_metadata["changed"] = True
        message.__pydantic_fields_set__.add("name")
        message.own = "attribute"
    assert state_of(cached(cache, chat())) == state_of(SERDE.loads_typed(SERDE.dumps_typed(chat())))


def test_an_attribute_of_ones_own_stays_with_its_message() -> None:
    cache = MessageCache(2**20)
    value = cached(cache, chat())
    value[0].rated_by = "ada"
    assert cache.dumps(SERDE, value) == SERDE.dumps_typed(value)
    assert not hasattr(cached(cache, chat())[0], "rated_by")


class Role(str, Enum):
    """Equal to a text, and another thing."""

    A = "a"


class Equal:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Sulking:
    """Not to be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("compared")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "odd", [np.arange(3.0), Role.A, Equal(), Sulking(), {"a": np.arange(3.0)}, OrderedDict(a=1)]
)
@pytest.mark.parametrize("was", [None, "a", {}, {"a": None}, {"a": "b"}, [1]])
def test_a_field_that_becomes_something_odd_is_seen_to_have_changed(was: Any, odd: Any) -> None:
    cache, serde = MessageCache(2**20), JsonPlusSerializer(pickle_fallback=True)
    value = cached(
        cache,
        [ToolMessage("x", id=str(n), tool_call_id="1", artifact=was) for n in range(MIN_MESSAGES)],
    )
    value[2].artifact = value[3].additional_kwargs["odd"] = value[4].odd = odd
    assert not any(
        snapshot.matches(value[place])
        for place in (2, 3, 4)
        for snapshot in cache._by_data._young.values()
    )
    stored = cache.dumps(serde, value)
    assert stored[0] == serde.dumps_typed(value)[0]
    assert stored[0] == "pickle" or stored == serde.dumps_typed(value)


def test_fields_that_changed_places_are_told_apart() -> None:
    cache = MessageCache(2**20)
    value = cached(
        cache,
        [HumanMessage("x", id=str(n), additional_kwargs={"a": n}) for n in range(MIN_MESSAGES)],
    )
    fields = value[3].__dict__
    swapped = {"additional_kwargs": "response_metadata", "response_metadata": "additional_kwargs"}
    object.__setattr__(
        value[3], "__dict__", {swapped.get(name, name): one for name, one in fields.items()}
    )
    assert cache.dumps(SERDE, value) == SERDE.dumps_typed(value)


def test_a_message_may_change_while_it_is_stored() -> None:
    cache, done = MessageCache(2**22), threading.Event()
    value = cached(
        cache, [HumanMessage("x", id=str(n), additional_kwargs={"a": {"0": 0}}) for n in range(40)]
    )

    def change() -> None:
        number = 0
        while not done.is_set():
            number += 1
            inner = value[number % 40].additional_kwargs["a"]
            inner[str(number)] = number
            if len(inner) > 50:
                inner.clear()

    thread, interval = threading.Thread(target=change), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        for _ in range(200):
            assert len(cache.loads(SERDE, cache.dumps(SERDE, value)[1])) == 40
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_serializers_with_hooks_of_their_own_are_left_alone() -> None:
    cache, own = (
        MessageCache(2**20),
        JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: (code, data)),
    )
    assert ValueSerializer.of(SERDE, cache).messages is cache
    assert (
        ValueSerializer.of(JsonPlusSerializer(allowed_msgpack_modules=None), cache).messages
        is cache
    )
    assert ValueSerializer.of(own, cache).messages is None
    assert all((kind.__module__, kind.__name__) in SAFE_MSGPACK_TYPES for kind in MESSAGE_TYPES)


def test_lists_that_are_more_than_there_is_room_for_do_not_push_each_other_out_for_ever() -> None:
    cache = MessageCache(400_000)
    lists = [[HumanMessage("x" * 500, id=f"{name} {n}") for n in range(40)] for name in range(12)]
    for value in lists * 20:
        cache.loads(SERDE, SERDE.dumps_typed(value)[1])
    cached_again: list[int] = []
    for value in lists * 20:
        before = {*cache._by_data._old, *cache._by_data._young}
        cache.loads(SERDE, SERDE.dumps_typed(value)[1])
        cached_again.append(len({*cache._by_data._old, *cache._by_data._young} - before))
    assert sum(map(bool, cached_again)) <= len(cached_again) / 3


def test_lists_that_come_and_go_are_cached_for_ever() -> None:
    cache = MessageCache(400_000)
    for name in range(60):
        value = [HumanMessage("x" * 500, id=f"{name} {n}") for n in range(40)]
        data = SERDE.dumps_typed(value)[1]
        for _ in range(6):
            cache.loads(SERDE, data)
        assert cache._by_data.get_all(split_elements(data) or []), name


def test_a_list_that_cannot_be_cached_is_tried_once() -> None:
    cache, at = MessageCache(2**20), datetime(2026, 1, 1, tzinfo=timezone.utc)
    value = [HumanMessage("x", id=str(n), additional_kwargs={"at": at}) for n in range(20)]
    cached(cache, value)
    assert cache._doorkeeper._refused.count == 1
    assert state_of(cached(cache, value)) == state_of(SERDE.loads_typed(SERDE.dumps_typed(value)))


def test_what_is_counted_is_about_what_it_occupies() -> None:
    numbers = {
        "logprobs": [{"token": str(n), "bytes": [n, n], "logprob": -0.5 * n} for n in range(40)]
    }
    kinds: list[dict[str, Any]] = [
        {},
        {"additional_kwargs": {"empty": [[] for _ in range(200)]}},
        {"response_metadata": {"ids": list(range(1000, 1500))}},
        {"response_metadata": numbers},
        {"content": [{"type": "text", "text": "x" * 50, "index": n} for n in range(20)]},
    ]
    for kind in kinds:
        data = SERDE.dumps_typed(
            [HumanMessage(**{"content": "x" * 200, "id": f"{n:036}"} | kind) for n in range(100)]
        )[1]
        cache = MessageCache(2**26)
        cache.loads(SERDE, data)
        gc.collect()
        tracemalloc.start()
        cache.loads(SERDE, data)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 1.25 * (cache._by_data.weight()), kind


def test_what_was_stored_shares_nothing_with_what_the_caller_still_has() -> None:
    cache, value = MessageCache(2**20), cached(MessageCache(2**20), chat())
    cached(cache, chat())
    value += [HumanMessage("new", id="new", additional_kwargs={"tags": ["a"]})]
    before = cache.dumps(SERDE, value)
    value[-1].additional_kwargs["tags"].append("b")
    after = cache.dumps(SERDE, value)
    assert before != after == SERDE.dumps_typed(value)
    assert state_of(cache.loads(SERDE, after[1])) == state_of(SERDE.loads_typed(after))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1], (1,)),
        ("1", b"1"),
    ],
)
def test_values_that_are_equal_but_not_the_same_are_told_apart(was: Any, becomes: Any) -> None:
    cache = MessageCache(2**20)
    value = cached(
        cache,
        [HumanMessage("x", id=str(n), response_metadata={"v": was}) for n in range(MIN_MESSAGES)],
    )
    for message in value:
        message.response_metadata["v"] = becomes
    assert cache.dumps(SERDE, value) == SERDE.dumps_typed(value)
    assert not identical(becomes, was)


class Own(HumanMessage):
    """A message class of an application."""


@pytest.mark.parametrize(
    "message",
    [
        Own("x", id="1"),
        HumanMessage(
            "x", id="1", additional_kwargs={"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}
        ),
        HumanMessage("x", id="1", of_own={1, 2}),
        "a text",
        {"id": "1"},
        None,
    ],
)
def test_what_is_not_plain_is_left_to_the_serializer(message: Any) -> None:
    cache = MessageCache(2**20)
    value = [message] * MIN_MESSAGES
    expected = state_of(SERDE.loads_typed(SERDE.dumps_typed(value)))
    assert state_of(cached(cache, value)) == expected
    assert cache.dumps(SERDE, value) == SERDE.dumps_typed(value)
    assert cache._by_data.count == cache._by_id.count == 0


def test_content_that_is_nested_too_deeply_is_left_to_the_serializer() -> None:
    nested: Any = "core"
    for _ in range(DEEPEST + 1):
        nested = [nested]
    assert snapshot_of(HumanMessage("x", additional_kwargs={"nested": nested})) is None
    assert snapshot_of(HumanMessage("x", additional_kwargs={"nested": nested[0][0][0]})) is not None


@pytest.mark.parametrize(
    "value", [[], [1] * 20, ["a"] * 20, [chat(1)[0], *["a"] * 20], [None] * 20, [chat(20)]]
)
def test_lists_of_other_things_are_left_to_the_serializer(value: list[Any]) -> None:
    cache = MessageCache(2**20)
    for _ in range(3):
        stored = cache.dumps(SERDE, value)
        assert stored == SERDE.dumps_typed(value)
        assert state_of(cache.loads(SERDE, stored[1])) == state_of(SERDE.loads_typed(stored))


def test_a_list_that_only_pickle_can_store_is_pickled_whole() -> None:
    serde, cache = JsonPlusSerializer(pickle_fallback=True), MessageCache(2**20)
    value: list[Any] = [*cached(cache, chat()), {(1, 2): threading.Thread}]
    assert cache.dumps(serde, value) == serde.dumps_typed(value)


@pytest.mark.parametrize("length", [1, 8, 15, 16, 17, 300, 70_000])
def test_a_list_is_its_elements(length: int) -> None:
    data = SERDE.dumps_typed([HumanMessage("x", id="1")] * length)[1]
    elements = split_elements(data)
    assert elements is not None
    assert len(elements) == length
    assert join(elements) == data


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=40), conversations.map(lambda value: SERDE.dumps_typed(value)[1][:-1])
    )
)
def test_bytes_that_are_no_list_of_objects_have_no_elements(data: bytes) -> None:
    elements = split_elements(data)
    assert elements is None or join(elements) == data or data[0] in (0xDC, 0xDD)


@given(plain)
def test_a_plain_copy_is_the_same(value: Any) -> None:
    assert identical(plain_copy(value), value)


def test_the_cache_is_bounded() -> None:
    cache = MessageCache(100_000)
    for start in range(0, 2000, 10):
        cached(cache, [HumanMessage("x" * 1000, id=f"{start + n}") for n in range(10)])
    for part in (cache._by_data, cache._by_id):
        assert 10_000 < part.weight() <= 50_000
    cache.clear()
    assert cache._by_data.count == cache._by_id.count == 0


@pytest.mark.parametrize("length", [8, 15, 16, 300])
def test_a_list_is_recognized_by_its_first_messages(length: int) -> None:
    messages = chat(length)
    opening, longer = (
        opening_of(SERDE.dumps_typed(value)[1]) for value in (messages, [*messages, *chat(8)])
    )
    assert opening is not None
    assert longer is not None
    assert opening.elements == longer.elements
    assert opening.count == length
    other = opening_of(SERDE.dumps_typed([*messages[:7], *chat(8)])[1])
    assert other is not None
    assert other.elements != opening.elements


@pytest.mark.parametrize("value", [None, 8, "a", {"a": 1}, chat(7), [*chat(7), 1], [1] * 300])
def test_what_is_no_list_of_eight_objects_has_no_opening(value: Any) -> None:
    assert opening_of(SERDE.dumps_typed(value)[1]) is None


def test_a_list_is_recognized_behind_a_window_that_moves() -> None:
    cache, messages = MessageCache(2**20), chat(60)
    cached(cache, messages[:40])
    before = cache._by_data.count
    cache.loads(SERDE, SERDE.dumps_typed(messages[10:41])[1])
    assert cache._by_data.count == before + 1


@pytest.mark.parametrize("kept_by", ["the serializer", "the cache"])
def test_lists_with_a_first_message_in_common_are_told_apart(kept_by: str) -> None:
    cache = MessageCache(2**20)
    system = SystemMessage("You help.", id="system")
    first, second = (
        [system, *[HumanMessage("x", id=f"{name} {n}") for n in range(20)]] for name in "ab"
    )
    if kept_by == "the cache":
        cached(cache, first)
    before = cache._by_data.count
    cache.loads(SERDE, SERDE.dumps_typed(second)[1])
    assert cache._by_data.count == before


ROOM_FOR_TWO = 4000


@pytest.mark.parametrize(
    ("keys", "admitted"),
    [
        ("a", ""),
        ("aa", "a"),
        ("abab", "ab"),
        ("abcabc", ""),
        ("abcdefabcdefabcdef", ""),
        ("abcdaaefghaa", "aa"),
    ],
)
def test_a_value_is_admitted_that_a_cache_would_have_kept(keys: str, admitted: str) -> None:
    doorkeeper = Doorkeeper(ROOM_FOR_TWO)
    found = [key for key in keys if doorkeeper.admit(ord(key), 1500)]
    assert "".join(found) == admitted


def test_a_value_is_not_admitted_that_there_is_no_room_for() -> None:
    doorkeeper = Doorkeeper(ROOM_FOR_TWO)
    assert [doorkeeper.admit(1, weight) for weight in (4001, 4001, 4000)] == [False, False, True]


def test_a_value_that_was_refused_stays_refused_until_all_is_forgotten() -> None:
    doorkeeper = Doorkeeper(2**20)
    doorkeeper.refuse(1)
    assert doorkeeper.refuses(1)
    assert not doorkeeper.refuses(2)
    doorkeeper.clear()
    assert not doorkeeper.refuses(1)


@pytest.mark.parametrize("kind", sorted(MESSAGE_TYPES, key=lambda kind: kind.__name__))
def test_specimens_share_nothing(kind: Any) -> None:
    """Several threads may compare at once, and each changes its own."""
    one, other, before = (specimen(kind, "one") for _ in range(3))
    one.additional_kwargs["nested"]["changed"] = 1
    one.content[0]["text"] = "changed"
    assert other == before


def test_all_types_agree_with_the_installed_versions(caplog: pytest.LogCaptureFixture) -> None:
    cached_types.cache_clear()
    assert cached_types() == MESSAGE_TYPES
    assert not caplog.records
    cache = MessageCache(2**20)
    cached(cache, message_cache._specimens(MESSAGE_TYPES, "read"))
    assert cache._by_data.count == len(MESSAGE_TYPES) + 1


class Slotted(HumanMessage):
    """A message with state beside the slots of pydantic."""

    __slots__ = ("mood",)


class Counted(HumanMessage):
    """A message that is stored otherwise every time."""

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Write how often messages were written."""
        return {**super().model_dump(**options), "count": next(COUNT)}


COUNT = itertools.count()


class Stamped(HumanMessage):
    """A message that is changed by being read."""

    def __init__(self, content: Any = "", **fields: Any) -> None:
        super().__init__([*content, "read"], **fields)


@pytest.mark.parametrize("odd", [Slotted, Counted, Stamped])
def test_a_class_that_is_not_as_expected_is_not_cached(
    odd: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[(odd.__module__, odd.__name__)])
    assert types_that_agree(frozenset({odd, HumanMessage, ToolMessage}), serde) == {
        HumanMessage,
        ToolMessage,
    }
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(f": {odd.__name__}")


def _without_extra(snapshot: MessageSnapshot) -> Any:
    return type(snapshot.copy())(content=snapshot.fields["content"], **MUST)


MUST = {"role": "r", "name": "f", "tool_call_id": "c"}


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("copy", _without_extra),
        ("copy", lambda snapshot: snapshot.slots),
        ("matches", lambda snapshot, message: True),
        ("matches", lambda snapshot, message: message.content == snapshot.fields["content"]),
    ],
)
def test_nothing_is_cached_where_snapshots_do_not_fit_the_installed_versions(
    name: str,
    replacement: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(MessageSnapshot, name, replacement)
    assert types_that_agree(MESSAGE_TYPES, SERDE) == frozenset()
    assert len(caplog.records) == 1
    cache, value = MessageCache(2**20, frozenset()), chat()
    assert state_of(cached(cache, value)) == state_of(SERDE.loads_typed(SERDE.dumps_typed(value)))
    assert cache.dumps(SERDE, value) == SERDE.dumps_typed(value)


def test_nothing_is_cached_where_lists_are_written_otherwise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_cache, "_header", lambda count: b"\xdd" + count.to_bytes(4, "big"))
    assert types_that_agree(MESSAGE_TYPES, SERDE) == frozenset()
    assert len(caplog.records) == 1


def test_only_the_cache_knows_snapshots() -> None:
    package = Path(message_cache.__file__).parent.parent.parent
    knowing = {
        path.stem
        for path in package.rglob("*.py")
        if "checkpoint.serde.message_snapshots import" in path.read_text("utf-8")
    }
    assert knowing == {"message_cache"}
