"""User ids as labels of namespaces: every id has one, no two have the same, and it stays."""

from __future__ import annotations

from enum import Enum
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import mongomock
import pytest
from bson import ObjectId
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.store.base import InvalidNamespaceError
from langgraph.store.memory import InMemoryStore

from mongomem import InvalidInputError, MongoMemory, MongoStore, user_namespace

LIKE_ENCODED = st.lists(
    st.sampled_from(["%", "25", "2E", "2e", ".", "6C", "l", "anggraph", "a", "é"]), min_size=1
).map("".join)
IDS = (
    LIKE_ENCODED
    | st.text(min_size=1, max_size=20)
    | st.emails()
    | st.uuids().map(str)
    | st.integers().map(str)
).filter(lambda user: "\0" not in user and user.isprintable())


class Plan(Enum):
    FREE = "free"


def is_label(user: str) -> bool:
    """Say whether LangGraph takes an id as the first label of an item."""
    try:
        InMemoryStore().put((user,), "k", {})
    except InvalidNamespaceError:
        return False
    return True


@pytest.mark.parametrize(
    ("user_id", "label"),
    [
        ("ada", "ada"),
        ("ada@example.com", "ada@example%2Ecom"),
        ("auth0|5f7c8ec7c33c6c004bbafe82", "auth0|5f7c8ec7c33c6c004bbafe82"),
        ("100%", "100%"),
        ("100%.", "100%25%2E"),
        ("a%40b", "a%40b"),
        ("a%2Eb", "a%252Eb"),
        ("a%252Eb", "a%25252Eb"),
        ("a%2eb", "a%2eb"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("langgraph", "%6Canggraph"),
        ("%6Canggraph", "%256Canggraph"),
        ("%256Canggraph", "%25256Canggraph"),
        ("langgraphs", "langgraphs"),
        ("*", "*"),
        ("zoë / 李", "zoë / 李"),
        (7, "7"),
        (-3, "-3"),
        (2**70, str(2**70)),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (ObjectId(b"abcdefghijkl"), "6162636465666768696a6b6c"),
        (Plan.FREE, "free"),
    ],
)
def test_the_label_of_a_user_id(user_id: Any, label: str) -> None:
    assert user_namespace(user_id) == (label,)


@settings(deadline=None)
@given(st.sets(IDS, min_size=2))
@example({"a.b", "a%2Eb", "a%252Eb", "a%25%2Eb"})
@example({"langgraph", "%6Canggraph", "%256Canggraph"})
def test_no_two_users_share_a_namespace(users: set[str]) -> None:
    assert len({user_namespace(user) for user in users}) == len(users)


@settings(deadline=None)
@given(LIKE_ENCODED)
def test_a_label_is_of_one_user_alone(user: str) -> None:
    """The one that it decodes to, or itself: the label of whoever it could be mistaken for is
    another.
    """
    (label,) = user_namespace(user)
    others = {label, unquote(label), label.replace("%25", "%"), label.replace("%2E", ".")} - {user}
    assert all(user_namespace(other) != (label,) for other in others)


STORE = MongoStore(mongomock.MongoClient())


@settings(deadline=None, max_examples=30)
@given(IDS)
def test_every_user_can_have_items(user: str) -> None:
    namespace = user_namespace(user)
    assert is_label(namespace[0])
    STORE.put((*namespace, "memories"), "k", {"n": 1})
    assert [item.key for item in STORE.search(namespace)] == ["k"]
    assert STORE.delete_namespace(namespace) == 1


@settings(deadline=None)
@given(IDS)
def test_an_id_that_was_a_label_stays_one(user: str) -> None:
    """But for ids that hold what encodes a period."""
    if is_label(user) and "2E" not in user and "6Canggraph" not in user:
        assert user_namespace(user) == (user,)


@settings(deadline=None)
@given(IDS)
def test_an_encoded_id_can_be_read(user: str) -> None:
    (label,) = user_namespace(user)
    assert label == user or unquote(label) == user


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("", "user_id is empty: pass the id of one user"),
        ("a\0b", "user_id holds NUL, take it out first"),
        (None, "user_id must be a string"),
        (7.0, "user_id must be a string"),
        (True, "user_id must be a string"),
        (b"ada", "user_id must be a string"),
        ("\ud800", "user_id holds a surrogate"),
    ],
)
def test_what_is_no_user_id_is_named(wrong: Any, told: str) -> None:
    memory = MongoMemory(mongomock.MongoClient())
    for call in (user_namespace, memory.user, memory.erase_user, memory.export_user):
        with pytest.raises(InvalidInputError, match=told) as caught:
            call(wrong)
        assert "\n" not in str(caught.value)
