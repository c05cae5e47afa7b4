"""Messages that are serialized and revived by element: what comes out is what the serializer itself
gives.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections import OrderedDict
from datetime import datetime, timezone
from enum import Enum
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

from mongomem.checkpoint.serde.message_cache import FEWEST, MSGPACK, Begun, MessageCache
from mongomem.checkpoint.serde.message_snapshots import (
    DEEPEST,
    KINDS,
    plain_copy,
    same,
    snapshot_of,
)
from mongomem.checkpoint.serde.msgpack_elements import join, split
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
conversations = st.lists(kinds, min_size=FEWEST, max_size=FEWEST + 3)


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


def learned(memo: MessageCache, value: list[Any]) -> list[AnyMessage]:
    """Have a memo read a list until it knows it; return what it reads then."""
    data = SERDE.dumps_typed(value)[1]
    for _ in range(2):
        memo.loads(SERDE, data)
    found: list[AnyMessage] = memo.loads(SERDE, data)
    return found


@settings(max_examples=60, deadline=None)
@given(conversations)
def test_a_list_is_revived_as_the_serializer_revives_it(value: list[AnyMessage]) -> None:
    memo, data = MessageCache(2**20), SERDE.dumps_typed(value)[1]
    expected = state_of(SERDE.loads_typed((MSGPACK, data)))
    for _ in range(4):
        assert state_of(memo.loads(SERDE, data)) == expected


@settings(max_examples=60, deadline=None)
@given(conversations, st.data())
def test_a_list_is_stored_as_the_serializer_stores_it_whatever_was_changed_in_place(
    value: list[AnyMessage], data: st.DataObject
) -> None:
    memo = MessageCache(2**20)
    value = learned(memo, value)
    for _ in range(3):
        _change(value, data)
        stored = memo.dumps(SERDE, value)
        assert stored == SERDE.dumps_typed(value)
        assert state_of(memo.loads(SERDE, stored[1])) == state_of(SERDE.loads_typed(stored))


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
    elif change == "drop" and len(value) > FEWEST:
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


def test_what_is_revived_shares_nothing_with_what_was_revived_before() -> None:
    memo = MessageCache(2**20)
    first = learned(memo, chat())
    for message in first:
        message.content = "changed"
        message.additional_kwargs["seen"].append("changed")
        message.response_metadata["changed"] = True
        message.__pydantic_fields_set__.add("name")
        message.own = "attribute"
    assert state_of(learned(memo, chat())) == state_of(SERDE.loads_typed(SERDE.dumps_typed(chat())))


def test_an_attribute_of_ones_own_stays_with_its_message() -> None:
    memo = MessageCache(2**20)
    value = learned(memo, chat())
    value[0].rated_by = "ada"
    assert memo.dumps(SERDE, value) == SERDE.dumps_typed(value)
    assert not hasattr(learned(memo, chat())[0], "rated_by")


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
    memo, serde = MessageCache(2**20), JsonPlusSerializer(pickle_fallback=True)
    value = learned(
        memo, [ToolMessage("x", id=str(n), tool_call_id="1", artifact=was) for n in range(FEWEST)]
    )
    value[2].artifact = value[3].additional_kwargs["odd"] = value[4].odd = odd
    assert not any(
        image.shows(value[place]) for place in (2, 3, 4) for image in memo._by_data._young.values()
    )
    stored = memo.dumps(serde, value)
    assert stored[0] == serde.dumps_typed(value)[0]
    assert stored[0] == "pickle" or stored == serde.dumps_typed(value)


def test_fields_that_changed_places_are_told_apart() -> None:
    memo = MessageCache(2**20)
    value = learned(
        memo, [HumanMessage("x", id=str(n), additional_kwargs={"a": n}) for n in range(FEWEST)]
    )
    fields = value[3].__dict__
    swapped = {"additional_kwargs": "response_metadata", "response_metadata": "additional_kwargs"}
    object.__setattr__(
        value[3], "__dict__", {swapped.get(name, name): one for name, one in fields.items()}
    )
    assert memo.dumps(SERDE, value) == SERDE.dumps_typed(value)


def test_a_message_may_change_while_it_is_stored() -> None:
    memo, done = MessageCache(2**22), threading.Event()
    value = learned(
        memo, [HumanMessage("x", id=str(n), additional_kwargs={"a": {"0": 0}}) for n in range(40)]
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
            assert len(memo.loads(SERDE, memo.dumps(SERDE, value)[1])) == 40
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_serializers_that_revive_in_their_own_way_are_left_alone() -> None:
    memo, own = (
        MessageCache(2**20),
        JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: (code, data)),
    )
    assert ValueSerializer.of(SERDE, memo).memo is memo
    assert ValueSerializer.of(JsonPlusSerializer(allowed_msgpack_modules=None), memo).memo is memo
    assert ValueSerializer.of(own, memo).memo is None
    assert all((kind.__module__, kind.__name__) in SAFE_MSGPACK_TYPES for kind in KINDS)


def test_lists_that_are_more_than_there_is_room_for_do_not_push_each_other_out_for_ever() -> None:
    memo = MessageCache(400_000)
    lists = [[HumanMessage("x" * 500, id=f"{name} {n}") for n in range(40)] for name in range(12)]
    for value in lists * 20:
        memo.loads(SERDE, SERDE.dumps_typed(value)[1])
    learned_again: list[int] = []
    for value in lists * 20:
        before = {*memo._by_data._old, *memo._by_data._young}
        memo.loads(SERDE, SERDE.dumps_typed(value)[1])
        learned_again.append(len({*memo._by_data._old, *memo._by_data._young} - before))
    assert sum(map(bool, learned_again)) <= len(learned_again) / 3


def test_lists_that_come_and_go_are_learned_for_ever() -> None:
    memo = MessageCache(400_000)
    for name in range(60):
        value = [HumanMessage("x" * 500, id=f"{name} {n}") for n in range(40)]
        data = SERDE.dumps_typed(value)[1]
        for _ in range(6):
            memo.loads(SERDE, data)
        assert memo._by_data.get_all(split(data) or []), name


def test_a_list_that_cannot_be_learned_is_tried_once() -> None:
    memo, at = MessageCache(2**20), datetime(2026, 1, 1, tzinfo=timezone.utc)
    value = [HumanMessage("x", id=str(n), additional_kwargs={"at": at}) for n in range(20)]
    learned(memo, value)
    assert list(memo._begun._young.values()) == [Begun.NOT_LEARNED]
    assert state_of(learned(memo, value)) == state_of(SERDE.loads_typed(SERDE.dumps_typed(value)))


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
        memo = MessageCache(2**26)
        memo.loads(SERDE, data)
        gc.collect()
        tracemalloc.start()
        memo.loads(SERDE, data)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 1.25 * (memo._by_data.weight()), kind


def test_what_was_stored_shares_nothing_with_what_the_caller_still_has() -> None:
    memo, value = MessageCache(2**20), learned(MessageCache(2**20), chat())
    learned(memo, chat())
    value += [HumanMessage("new", id="new", additional_kwargs={"tags": ["a"]})]
    before = memo.dumps(SERDE, value)
    value[-1].additional_kwargs["tags"].append("b")
    after = memo.dumps(SERDE, value)
    assert before != after == SERDE.dumps_typed(value)
    assert state_of(memo.loads(SERDE, after[1])) == state_of(SERDE.loads_typed(after))


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
    memo = MessageCache(2**20)
    value = learned(
        memo, [HumanMessage("x", id=str(n), response_metadata={"v": was}) for n in range(FEWEST)]
    )
    for message in value:
        message.response_metadata["v"] = becomes
    assert memo.dumps(SERDE, value) == SERDE.dumps_typed(value)
    assert not same(becomes, was)


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
def test_there_is_no_image_of_what_is_not_plain(message: Any) -> None:
    assert snapshot_of(message) is None


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
    memo = MessageCache(2**20)
    for _ in range(3):
        stored = memo.dumps(SERDE, value)
        assert stored == SERDE.dumps_typed(value)
        assert state_of(memo.loads(SERDE, stored[1])) == state_of(SERDE.loads_typed(stored))


def test_a_list_that_only_pickle_can_store_is_pickled_whole() -> None:
    serde, memo = JsonPlusSerializer(pickle_fallback=True), MessageCache(2**20)
    value: list[Any] = [*learned(memo, chat()), {(1, 2): threading.Thread}]
    assert memo.dumps(serde, value) == serde.dumps_typed(value)


@pytest.mark.parametrize("length", [1, 8, 15, 16, 17, 300, 70_000])
def test_a_list_is_its_elements(length: int) -> None:
    data = SERDE.dumps_typed([HumanMessage("x", id="1")] * length)[1]
    elements = split(data)
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
    elements = split(data)
    assert elements is None or join(elements) == data or data[0] in (0xDC, 0xDD)


@given(plain)
def test_a_plain_copy_is_the_same(value: Any) -> None:
    assert same(plain_copy(value), value)


def test_the_memo_is_bounded() -> None:
    memo = MessageCache(100_000)
    for start in range(0, 2000, 20):
        learned(memo, [HumanMessage("x" * 1000, id=f"{start + n}") for n in range(20)])
    for cache in (memo._by_data, memo._by_id):
        assert 10_000 < cache.weight() <= 50_000
    memo.clear()
    assert memo._by_data.count == memo._by_id.count == 0
