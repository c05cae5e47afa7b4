"""The adapter that makes a mongomock database answer commands. mongomock is never imported here."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import pymongo
from bson.timestamp import Timestamp
from pymongo.errors import BulkWriteError

if TYPE_CHECKING:
    from typing_extensions import Self

# mongomock 4.3 orders numbers, but refuses to sort or compare BSON timestamps.
numbers.Number.register(Timestamp)


@dataclass(frozen=True, slots=True)
class MongomockDatabase:
    """A mongomock database that answers the commands of mongomem.

    mongomock 4.3 refuses PyMongo's bulk requests, knows no ``to_list`` and takes fewer options of
    indexes; everything else passes through.
    """

    database: Any

    def __getitem__(self, name: str) -> MongomockCollection:
        return MongomockCollection(self.database[name])

    @property
    def write_concern(self) -> pymongo.WriteConcern:
        return pymongo.WriteConcern()

    def command(self, command: dict[str, Any]) -> dict[str, Any]:
        """Perform ``update`` and ``insert``; accept ``collMod`` and its kind, since mongomock has
        nothing that they could change.
        """
        if "insert" in command:
            inserts = [pymongo.InsertOne(document) for document in command["documents"]]
            return self[command["insert"]].answer(inserts, ordered=False)
        if "update" in command:
            updates = [_request(statement) for statement in command["updates"]]
            return self[command["update"]].answer(updates, ordered=True)
        return {"ok": 1.0, "command": command}


def _request(statement: dict[str, Any]) -> Any:
    """Return the request of PyMongo that is a statement of an ``update`` command."""
    change, is_upsert = statement["u"], statement["upsert"]
    is_update = isinstance(change, list) or next(iter(change)).startswith("$")
    kind: Any = pymongo.UpdateOne if is_update else pymongo.ReplaceOne
    return kind(statement["q"], change, upsert=is_upsert)


@dataclass(frozen=True, slots=True)
class MongomockCursor:
    """A finished result."""

    documents: Iterator[dict[str, Any]]

    def to_list(self, length: int | None = None) -> list[dict[str, Any]]:
        return list(islice(self.documents, length))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        """Do nothing: no server holds anything."""


def _value_of(expression: Any, document: dict[str, Any]) -> Any:
    """Return the value of a field, or of the first of several that is not null."""
    if isinstance(expression, str):
        return document.get(expression.strip("$"))
    values = [_value_of(one, document) for one in expression["$ifNull"]]
    return next((one for one in values if one is not None), None)


@dataclass(slots=True)
class MongomockBulkResult:
    """What was done by a bulk write, in the names of ``BulkWriteResult``."""

    upserted_ids: dict[int, Any] = field(default_factory=dict)
    matched_count: int = 0
    deleted_count: int = 0


@dataclass(frozen=True, slots=True)
class MongomockCollection:
    """A mongomock collection with the methods that commands call."""

    collection: Any

    def find(
        self,
        filter: Any,
        projection: Any,
        *,
        sort: Any,
        limit: int = 0,
        skip: int = 0,
        **_options: Any,
    ) -> MongomockCursor:
        return MongomockCursor(
            self.collection.find(filter, projection, sort=sort, limit=limit, skip=skip)
        )

    def aggregate(self, pipeline: list[Any], **_options: Any) -> MongomockCursor:
        own = [stage for stage in pipeline if not stage.keys() & {"$lookup", "$unionWith"}]
        found = list(self.collection.aggregate(own))
        for stage in pipeline[len(own) :]:
            found = self._joined(found, stage)
        return MongomockCursor(iter(found))

    def _joined(self, found: list[dict[str, Any]], stage: dict[str, Any]) -> list[dict[str, Any]]:
        """Join by a pipeline, which mongomock cannot: it joins by fields only."""
        if union := stage.get("$unionWith"):
            return [*found, *self.collection.database[union["coll"]].aggregate(union["pipeline"])]
        lookup = stage["$lookup"]
        return [{**document, lookup["as"]: self._looked_up(document, lookup)} for document in found]

    def _looked_up(self, document: dict[str, Any], lookup: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a pipeline that begins with a match, where variables may bound fields."""
        match, *rest = lookup["pipeline"]
        place = {field: value for field, value in match["$match"].items() if field != "$expr"}
        for bound in match["$match"].get("$expr", {}).get("$and", ()):
            ((operator, operands),) = bound.items()
            field, variable = (operand.strip("$") for operand in operands)
            value = _value_of(lookup["let"][variable], document)
            place[field] = {**place.get(field, {}), operator: value}
        return list(self.collection.database[lookup["from"]].aggregate([{"$match": place}, *rest]))

    def list_indexes(self) -> list[dict[str, Any]]:
        return list(self.collection.list_indexes())

    def drop_index(self, name: str) -> None:
        self.collection.drop_index(name)

    def update_many(self, filter: Any, update: Any) -> Any:
        return self.collection.update_many(filter, update)

    def delete_many(self, filter: Any) -> Any:
        return self.collection.delete_many(filter)

    def create_indexes(self, models: list[pymongo.IndexModel]) -> list[str]:
        return [self._create_index(model.document) for model in models]

    def _create_index(self, document: Any) -> str:
        known = {
            name: document[name]
            for name in ("name", "unique", "expireAfterSeconds")
            if name in document
        }
        created: str = self.collection.create_index(list(document["key"].items()), **known)
        return created

    def bulk_write(self, requests: list[Any], *, ordered: bool) -> MongomockBulkResult:
        result = MongomockBulkResult()
        failures: list[dict[str, Any]] = []
        for index, request in enumerate(requests):
            try:
                self._write_one(index, request, result)
            except pymongo.errors.WriteError as error:
                failures.append({"index": index, "code": error.code, "errmsg": str(error)})
            except Exception as error:
                if type(error).__name__ != "DuplicateKeyError":
                    raise
                failures.append({"index": index, "code": 11000, "errmsg": str(error)})
            if failures and ordered:
                break
        if failures:
            raise BulkWriteError({"writeErrors": failures})
        return result

    def answer(self, requests: list[Any], *, ordered: bool) -> dict[str, Any]:
        """Perform requests; return what a server answers."""
        try:
            result = self.bulk_write(requests, ordered=ordered)
        except BulkWriteError as error:
            return {"ok": 1.0, "n": 0, **error.details}
        upserted = [{"index": index, "_id": key} for index, key in result.upserted_ids.items()]
        return {"ok": 1.0, "n": result.matched_count + len(upserted), "upserted": upserted}

    def _write_one(self, index: int, request: Any, result: MongomockBulkResult) -> None:
        if isinstance(request, pymongo.InsertOne):
            self.collection.insert_one(request._doc)
            return
        if isinstance(request, pymongo.DeleteOne):
            result.deleted_count += self.collection.delete_one(request._filter).deleted_count
            return
        is_replacement = isinstance(request, pymongo.ReplaceOne)
        write = self.collection.replace_one if is_replacement else self.collection.update_one
        reply = write(request._filter, request._doc, upsert=request._upsert)
        result.matched_count += reply.matched_count
        if reply.upserted_id is not None:
            result.upserted_ids[index] = reply.upserted_id
