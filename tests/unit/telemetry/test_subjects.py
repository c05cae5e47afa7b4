"""What an operation is about, read from whatever a caller passed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from mongomem.telemetry.subjects import LONGEST_TEXT, MOST_LABELS, READERS, subject_of
from support.hostile import HOSTILE


def config_of(thread_id: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"config": config_of("t")}, {"mongomem.thread_id": "t"}),
        ({"config": config_of(UUID(int=1))}, {"mongomem.thread_id": str(UUID(int=1))}),
        ({"config": None}, {}),
        ({"thread_id": "x" * 1000}, {"mongomem.thread_id": "x" * LONGEST_TEXT}),
        ({"thread_id": "a\ud800"}, {"mongomem.thread_id": "a?"}),
        ({"thread_id": True}, {}),
        ({"thread_ids": []}, {"db.operation.batch.size": 0}),
        ({"namespace": ("a", "b")}, {"mongomem.namespace": ("a", "b")}),
        ({"namespace": ["a"] * 99}, {"mongomem.namespace": ("a",) * MOST_LABELS}),
        ({"ops": [SearchOp(("a",)), PutOp(("a",), "k", {})]},
         {"mongomem.namespace": ("a",), "db.operation.batch.size": 2}),
        ({"ops": [ListNamespacesOp(), GetOp(("a",), "k")]}, {}),
        ({"keys": {(("n",), "k"): 1}}, {"mongomem.namespace": ("n",)}),
        ({"namespaces": None}, {}),
    ],
)  # fmt: skip
def test_the_subject_of_arguments(arguments: dict[str, Any], subject: dict[str, Any]) -> None:
    assert subject_of(arguments) == subject


def test_an_iterator_of_operations_is_left_to_the_operation() -> None:
    ops = iter([GetOp(("a",), "k")])
    assert subject_of({"ops": ops}) == {}
    assert len([*ops]) == 1


@pytest.mark.parametrize("reader", READERS)
def test_nothing_that_is_passed_makes_it_raise(reader: str) -> None:
    for make in HOSTILE.values():
        for value in (make(), config_of(make()), [make()], {make: make()}):
            assert isinstance(subject_of({reader: value}), dict)
