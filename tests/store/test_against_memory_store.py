"""MongoStore against InMemoryStore, step by random step, over every runner.

Where the oracle is wrong the documented contract counts, and the comparison allows for it:

* it resets `created_at` at every update; here an update keeps it;
* it orders unqueried search by namespace and first insertion; here by last update: compared as
  sets, and pages against the whole;
* it crashes on range filters over missing fields and compares booleans as numbers: not generated;
* it crashes on equal texts in one batch and keeps the vectors of texts that are gone: every text is
  unique in its batch, and scores are compared with those computed from the values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import mongomock
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from pymongo import AsyncMongoClient, MongoClient

from mongomem.store.store import MongoStore
from support.bag_of_words import bag_of_words
from support.savers import KINDS
from support.stores import DIMS, words

labels = st.sampled_from(["u", "u1", "u10", "*", "a"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
keys = st.sampled_from(["k", "k1", "l", "\x00"])
fish = st.lists(st.sampled_from(["red", "fish", "blue", "sea", "cat"]), min_size=1, max_size=4).map(
    " ".join
)
values = st.fixed_dictionaries(
    {"n": st.integers(0, 5)},
    optional={
        "text": fish,
        "tag": st.sampled_from(["x", "y", None]),
        "deep": st.fixed_dictionaries({"n": st.integers(0, 2)}),
    },
)
conditions = st.one_of(
    st.integers(0, 5),
    st.dictionaries(
        st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]),
        st.integers(0, 5),
        min_size=1,
        max_size=2,
    ),
)
filters = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "n": conditions,
        "tag": st.sampled_from(["x", None, {"$ne": "x"}]),
        "deep": st.just({"n": 1}),
    },
)
choices = st.sampled_from([None, None, None, False, ["text"], ["deep.n"]])
puts = st.builds(PutOp, namespaces, keys, st.none() | values, choices, st.none())
matching = st.lists(
    st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), prefixes), max_size=2
).map(tuple)
listings = st.builds(
    ListNamespacesOp, matching, st.none() | st.integers(1, 3), st.integers(0, 6), st.integers(0, 3)
)


class StoreMachine(RuleBasedStateMachine):
    """Does the same to both stores and compares every answer."""

    make_store: Callable[..., MongoStore]
    is_async: bool

    def __init__(self) -> None:
        super().__init__()
        self.oracle = InMemoryStore()
        self.chosen: dict[tuple[Any, str], Any] = {}
        self.embed = bag_of_words(DIMS)
        options: dict[str, Any] = {"collection_prefix": f"{uuid4().hex[:8]}_", "auto_setup": False}
        self.store, self.other = (
            self.make_store(index=words(fields=["text"]), **options) for _ in range(2)
        )

    def perform(self, store: MongoStore, ops: list[Any]) -> list[Any]:
        return (
            self.loop.run_until_complete(store.abatch(ops)) if self.is_async else store.batch(ops)
        )

    loop: asyncio.AbstractEventLoop

    @rule(ops=st.lists(puts, min_size=1, max_size=4), foreign=st.booleans())
    def put(self, ops: list[PutOp], foreign: bool) -> None:
        before = {(op.namespace, op.key): self.oracle.get(op.namespace, op.key) for op in ops}
        kept = self.perform(self.store, [GetOp(*address) for address in before])
        self.oracle.batch(ops)
        self.perform(self.other if foreign else self.store, ops)
        self.chosen |= {(op.namespace, op.key): op.index for op in ops}
        for address, old in zip(before, kept, strict=True):
            self.compare(address)
            (item,) = self.perform(self.store, [GetOp(*address)])
            if item is not None and old is not None:
                assert item.created_at == old.created_at <= item.updated_at

    @rule(namespace=namespaces, key=keys)
    def get(self, namespace: Any, key: str) -> None:
        self.compare((namespace, key))

    @rule(op=listings)
    def list(self, op: ListNamespacesOp) -> None:
        unlimited = op._replace(limit=100, offset=0)
        (expected,) = self.oracle.batch([unlimited])
        # the oracle lists namespaces that have become empty
        alive = {namespace for namespace, items in self.oracle._data.items() if items}
        expected = [one for one in expected if any(other[: len(one)] == one for other in alive)]
        if op.max_depth is None:
            expected = [one for one in expected if one in alive]
        (found,) = self.perform(self.store, [unlimited])
        if op.max_depth is None:
            assert found == expected
        (part,) = self.perform(self.store, [op])
        assert part == found[op.offset : op.offset + op.limit]

    @rule(prefix=prefixes, filter=filters, size=st.integers(1, 4))
    def search(self, prefix: Any, filter: Any, size: int) -> None:
        (expected,) = self.oracle.batch([SearchOp(prefix, filter, 100)])
        (found,) = self.perform(self.store, [SearchOp(prefix, filter, 100)])
        assert {self.shown(item) for item in found} == {self.shown(item) for item in expected}
        assert len(found) == len(expected)
        assert [item.updated_at for item in found] == sorted(
            (item.updated_at for item in found), reverse=True
        )
        self.compare_pages(SearchOp(prefix, filter), found, size)

    @rule(prefix=prefixes, filter=filters, size=st.integers(1, 4), query=fish)
    def search_by_meaning(self, prefix: Any, filter: Any, size: int, query: str) -> None:
        (expected,) = self.oracle.batch([SearchOp(prefix, filter, 100)])
        op = SearchOp(prefix, filter, query=query)
        (found,) = self.perform(self.store, [op._replace(limit=100)])
        assert {self.shown(item) for item in found} == {self.shown(item) for item in expected}
        assert len(found) == len(expected)
        for item in found:
            assert item.score == pytest.approx(self.score(item, query), abs=1e-5), item
        ranks = [-2.0 if item.score is None else item.score for item in found]
        assert ranks == sorted(ranks, reverse=True)
        self.compare_pages(op, found, size)

    def score(self, item: Any, query: str) -> float | None:
        choice = self.chosen[item.namespace, item.key]
        text = {
            False: None,
            "deep.n": str(item.value["deep"]["n"]) if "deep" in item.value else None,
        }.get(choice[0] if choice else choice, item.value.get("text"))
        if text is None:
            return None
        one, other = np.array(self.embed([text, query]))
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    def compare_pages(self, op: SearchOp, whole: list[Any], size: int) -> None:
        pages = [
            op._replace(limit=size, offset=start) for start in range(0, len(whole) + size, size)
        ]
        assert [item for page in self.perform(self.store, pages) for item in page] == whole

    def compare(self, address: tuple[Any, str]) -> None:
        (expected,) = self.oracle.batch([GetOp(*address)])
        (found,) = self.perform(self.store, [GetOp(*address)])
        assert (found is None) == (expected is None)
        assert found is None or self.shown(found) == self.shown(expected)

    @staticmethod
    def shown(item: Any) -> str:
        return repr((item.namespace, item.key, sorted(item.value.items(), key=str)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_that_of_in_memory_store(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        client: Any
        if kind == "awaiting":
            client = AsyncMongoClient(mongo_uri)
            stack.callback(lambda: loop.run_until_complete(client.close()))
        else:
            client = (
                mongomock.MongoClient()
                if kind == "mongomock"
                else stack.enter_context(MongoClient(mongo_uri))
            )
        machine = type(
            f"StoreMachine_{kind}",
            (StoreMachine,),
            {
                "make_store": staticmethod(partial(MongoStore, client, database_name)),
                "is_async": kind in ("threaded", "awaiting"),
                "loop": loop,
            },
        )
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=30,
                stateful_step_count=20,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
