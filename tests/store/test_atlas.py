"""Atlas Vector Search: plans against a scripted server.

No server of these tests has search nodes; what is shown here is what would be sent, and what is
made of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp
from pymongo import MongoClient

from mongomem.engine.commands import Aggregate, Command, RunCommand
from mongomem.engine.effects import Sleep
from mongomem.errors import ConfigurationError
from mongomem.store.plans import batch
from mongomem.store.plans.setup import setup
from mongomem.store.store import MongoStore
from support.stores import DIMS, keys, words

NS = ("users", "u1")


class Scripted:
    """Runs plans on a real server, but answers search stages and commands by a script, as Atlas
    would.
    """

    def __init__(self, database: Any, answer: Callable[[Command[Any]], Any]) -> None:
        self.database = database
        self.answer = answer
        self.asked: list[Any] = []

    def __call__(self, plan: Any) -> Any:
        reply = None
        while True:
            try:
                command = plan.send(reply)
            except StopIteration as finished:
                return finished.value
            if isinstance(command, Sleep):
                reply = None
            elif isinstance(command, RunCommand) or (
                isinstance(command, Aggregate) and "Search" in str(command.pipeline)
            ):
                self.asked.append(command)
                reply = self.answer(command)
            else:
                reply = command.perform(self.database)


class Atlas:
    """Answers with the items of a collection in an order of its own, late by what `hidden`
    holds.
    """

    def __init__(self, collection: Any, hidden: frozenset[str] = frozenset()) -> None:
        self.collection = collection
        self.hidden = hidden

    def __call__(self, command: Command[Any]) -> Any:
        assert isinstance(command, Aggregate)
        search = command.pipeline[0]["$vectorSearch"]
        conditions = {
            name: part for each in search["parentFilter"]["$and"] for name, part in each.items()
        }
        found = self.collection.find({**conditions, "codes": {"$exists": True}}, {"_id": 1}).sort(
            "_id", 1
        )
        return [one for one in found if one["_id"] not in self.hidden][: search["limit"]]


@pytest.fixture
def store(mongo_client: MongoClient, database_name: str) -> MongoStore:
    store = MongoStore(mongo_client, database_name, index=words(fields=["text"]), backend="atlas")
    store.batch([PutOp(NS, f"k{n:03}", {"text": f"word{n} fish", "n": n}) for n in range(120)])
    store.batch([PutOp(NS, "none", {"n": 1})])
    return store


def test_candidates_are_read_again_and_scored_on_the_common_scale(
    store: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    run = Scripted(
        mongo_client[database_name], Atlas(mongo_client[database_name].mongomem_store_items)
    )
    found = run(batch.search(store._context(), SearchOp(NS, query="word7 fish", limit=5)))
    assert (found[0].key, round(found[0].score, 5)) == ("k007", 1.0)
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert "numCandidates" in run.asked[0].pipeline[0]["$vectorSearch"]


def test_deep_pages_and_selective_filters_are_complete(
    store: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    run = Scripted(
        mongo_client[database_name], Atlas(mongo_client[database_name].mongomem_store_items)
    )
    pages = [
        run(
            batch.search(store._context(), SearchOp(NS, query="word7 fish", limit=50, offset=start))
        )
        for start in (0, 50, 100, 150)
    ]
    found = [key for page in pages for key in keys(page)]
    assert len(found) == len(set(found)) == 121
    assert found[-1] == "none"
    far = run(
        batch.search(store._context(), SearchOp(NS, {"n": {"$gte": 110}}, query="word7 fish"))
    )
    assert sorted(keys(far)) == [f"k{n}" for n in range(110, 120)]
    assert run.asked[-1].pipeline[0]["$vectorSearch"]["exact"] is True


def test_ids_that_one_command_cannot_carry_are_asked_in_parts(
    store: MongoStore,
    mongo_client: MongoClient,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mongomem.store.documents.namespace.LIST_BYTES", 200)
    run = Scripted(
        mongo_client[database_name], Atlas(mongo_client[database_name].mongomem_store_items)
    )
    found = run(
        batch.search(
            store._context(), SearchOp(NS, {"n": {"$gte": 95}}, query="word7 fish", limit=20)
        )
    )
    assert len(keys(found)) == len(set(keys(found))) == 20
    assert all(item.value["n"] >= 95 for item in found)
    assert (
        sum(
            "_id" in str(command.pipeline[0]["$vectorSearch"]["parentFilter"])
            for command in run.asked
        )
        > 3
    )


def test_what_atlas_has_not_seen_yet_is_found(
    store: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    items = mongo_client[database_name].mongomem_store_items
    hidden = frozenset(document["_id"] for document in items.find({"key": {"$gt": "k050"}}))
    run = Scripted(mongo_client[database_name], Atlas(items, hidden))
    found = run(batch.search(store._context(), SearchOp(NS, query="word99 fish", limit=3)))
    assert found[0].key == "k099"


def test_setup_makes_the_index_and_waits_for_it(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(mongo_client, database_name, index=words(), backend="atlas")
    states = iter([[], [{"queryable": False}], [{"queryable": True}]])
    run = Scripted(
        mongo_client[database_name],
        lambda command: next(states) if isinstance(command, Aggregate) else {"ok": 1},
    )
    run(setup(store._context()))
    (made,) = [command.command for command in run.asked if isinstance(command, RunCommand)]
    assert made["indexes"][0]["definition"]["fields"][0]["numDimensions"] == DIMS
    never = Scripted(mongo_client[database_name], lambda _command: [{"queryable": False}])
    with pytest.raises(ConfigurationError, match="does not answer"):
        never(setup(store._context()))


def test_auto_takes_atlas_where_its_index_answers_and_else_not(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(mongo_client, database_name, index=words(fields=["text"]))
    store.put(NS, "k", {"text": "fish"})
    assert keys(store.search(NS, query="fish")) == ["k"]
    assert store._context().setup_state.atlas is False
    other = MongoStore(mongo_client, database_name, index=words(fields=["text"]))
    atlas = Atlas(mongo_client[database_name].mongomem_store_items)

    def answer(command: Any) -> Any:
        return (
            [{"queryable": True}] if "$listSearchIndexes" in command.pipeline[0] else atlas(command)
        )

    run = Scripted(mongo_client[database_name], answer)
    assert keys(run(batch.search(other._context(), SearchOp(NS, query="fish")))) == ["k"]
    assert other._context().setup_state.atlas is True
