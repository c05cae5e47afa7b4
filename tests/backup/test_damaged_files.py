"""Files that an import does not take: the error is one line that names the number of the line, and
nothing is stored of what the line belongs to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from mongomem import InvalidInputError, MongoMemory
from mongomem.backup import lines
from mongomem.backup.selection import Selection
from support.backups import exported, imported, items_of, threads_of
from support.databases import drop
from support.migrations import GRAPHS, config_of

Lines = list[bytes]
THREAD = "asking"


@pytest.fixture(scope="module")
def whole(mongo_client: MongoClient, shared_database: str) -> Lines:
    """The lines of an export: the first, an item, a thread with pieces, an item, the end."""
    memory = MongoMemory(mongo_client, shared_database)
    text = "".join(f"{number:>6}" for number in range(2000))
    GRAPHS[THREAD](memory.saver).invoke({"topic": text}, config_of(THREAD))
    memory.store.put(("a",), "first", {"n": 1})
    memory.store.put(("b",), "last", {"n": 2}, ttl=5)
    threads = exported(memory, Selection([THREAD]))[0].splitlines(keepends=True)
    items = exported(memory, Selection(namespaces=[("a",), ("b",)]))[0].splitlines(keepends=True)
    first, *middle, _ = threads
    end = {"threads": 1, "checkpoints": count_of(middle, "checkpoint"), "items": 2}
    return [first, items[1], *middle, items[2], line_of({"end": end})]


@pytest.fixture
def target(mongo_client: MongoClient, shared_database: str) -> Iterator[MongoMemory]:
    name = f"{shared_database}_to"
    yield MongoMemory(mongo_client, name)
    drop(mongo_client, name)


def line_of(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def kind_of(line: bytes) -> str:
    return next(iter(json.loads(line)))


def count_of(some: Lines, kind: str) -> int:
    return sum(kind_of(line) == kind for line in some)


def place_of(some: Lines, kind: str, nth: int = 0) -> int:
    """Return the index of the n-th line of a kind; of the last for -1."""
    return [at for at, line in enumerate(some) if kind_of(line) == kind][nth]


def changed(kind: str, path: str, value: Any, nth: int = 0) -> Callable[[Lines], int]:
    """Return what sets a member of a line, and says which line that is."""

    def change(some: Lines) -> int:
        at = place_of(some, kind, nth)
        whole = json.loads(some[at])
        part = whole
        *parents, last = [kind, *filter(None, path.split("/"))]
        for name in parents:
            part = part[int(name) if isinstance(part, list) else name]
        part[int(last) if isinstance(part, list) else last] = value
        some[at] = line_of(whole)
        return at

    return change


def written(kind: str, text: bytes, nth: int = 0) -> Callable[[Lines], int]:
    """Return what writes another line in the place of one."""

    def change(some: Lines) -> int:
        at = place_of(some, kind, nth)
        some[at] = text
        return at

    return change


def removed(kind: str, nth: int, met: str, met_nth: int = 0) -> Callable[[Lines], int]:
    """Return what takes a line away, and says which line that is noticed at."""

    def change(some: Lines) -> int:
        del some[place_of(some, kind, nth)]
        return place_of(some, met, met_nth)

    return change


def inserted(line: bytes, kind: str, nth: int = 0) -> Callable[[Lines], int]:
    """Return what puts a line before one of a kind."""

    def change(some: Lines) -> int:
        at = place_of(some, kind, nth)
        some.insert(at, line)
        return at

    return change


def swapped(some: Lines) -> int:
    """Let two checkpoints be each other's parents."""
    first, second = (place_of(some, "checkpoint", nth) for nth in (0, 1))
    one, other = (json.loads(some[at]) for at in (first, second))
    one["checkpoint"]["parent_id"] = other["checkpoint"]["id"]
    some[first] = line_of(one)
    return first


def twice(some: Lines) -> int:
    at = place_of(some, "checkpoint", 1)
    some[at] = some[place_of(some, "checkpoint")]
    return at


DATA = {"type": "msgpack", "data": base64.b64encode(b"\xc1").decode()}
DEEP = b"[" * 100_000 + b"\n"
CASES: dict[str, tuple[Callable[[Lines], int], str]] = {
    "no JSON": (written("checkpoint", b"{\n"), "is no JSON"),
    "not UTF-8": (written("checkpoint", b'{"checkpoint": "\xff"}\n'), "is no JSON"),
    "deep": (written("checkpoint", DEEP), "is no JSON"),
    "no object": (written("thread", b"7\n"), "must be an object"),
    "empty object": (written("thread", b"{}\n"), "must be an object with one member"),
    "an empty line": (written("thread", b"\n"), "is no JSON"),
    "two members": (written("thread", b'{"item": 1, "end": 2}\n'), "with one member"),
    "another kind": (written("thread", b'{"cursor": {}}\n'), "one of thread, pieces"),
    "a thread twice": (inserted(b'{"thread": {"thread_id": "x"}}\n', "thread_end"), "lines are"),
    "an item within": (inserted(b'{"item": {}}\n', "checkpoint"), "lines are missing"),
    "no thread": (removed("thread", 0, "pieces"), "lines are missing"),
    "no end of it": (removed("thread_end", 0, "item", -1), "does not end before"),
    "one checkpoint less": (removed("checkpoint", 1, "thread_end"), "lines are missing"),
    "pieces missing": (removed("pieces", 0, "checkpoint"), "the place of one of"),
    "one item less": (removed("item", -1, "end"), "lines are missing"),
    "another end": (changed("thread_end", "thread_id", "x"), "must be 'asking'"),
    "thread id": (changed("thread", "thread_id", ""), "thread_id must be an identifier"),
    "thread id of NUL": (changed("thread", "thread_id", {"$ne": None}), "must be a string"),
    "created": (changed("thread", "created_at", "2999-01-01T00:00:00Z"), "created_at must be"),
    "labels": (changed("thread", "labels", {"a": "x" * 100_000}), "thread.labels"),
    "users": (changed("thread", "users", {"user_id": 7}), "users.user_id must be a list"),
    "piece": (changed("pieces", "0", "#"), "must be base64"),
    "long piece": (changed("pieces", "0", "A" * 8000), "a piece of at most 4096 bytes"),
    "parents": (swapped, "the id of no descendant"),
    "checkpoint twice": (twice, "the id of one checkpoint"),
    "another id": (changed("checkpoint", "id", "x"), "must be checkpoint 'x'"),
    "hidden": (changed("checkpoint", "hidden", 1), "hidden must be true"),
    "no value": (changed("checkpoint", "channels", {"a": 7}), "channels.a must be an object"),
    "not read": (changed("checkpoint", "channels", {"a": DATA}), "channels.a"),
    "idx": (changed("checkpoint", "writes/0/idx", 1.5), "idx must be a whole number"),
    "item": (changed("item", "value", [], -1), "value must be an object"),
    "item key": (changed("item", "key", {"$gt": ""}, -1), "key must be a string"),
    "namespace": (changed("item", "namespace", ["a.b"], -1), "line"),
    "ttl": (changed("item", "ttl_minutes", -1, -1), "line"),
    "encoded": (changed("item", "encoded", "AAAA", -1), "must be an encoded value"),
    "count": (changed("end", "threads", 2), "must be 1: lines are missing"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_line_is_named(case: str, whole: Lines, target: MongoMemory) -> None:
    change, said = CASES[case]
    some = [*whole]
    at = change(some)
    with pytest.raises(InvalidInputError) as met:
        imported(target, b"".join(some))
    assert f"line {at + 1}" in str(met.value)
    assert said in str(met.value)
    assert len(str(met.value)) < 1000
    is_behind = at > place_of(whole, "thread_end")
    assert [one.thread_id for one in threads_of(target)] == [THREAD] * is_behind
    assert (("a",), "first") in items_of(target)
    assert target.saver.get_tuple(config_of(THREAD)) is None or is_behind
    assert imported(target, b"".join(whole)).left_out.count == 0
    assert len(threads_of(target)) == 1


OTHER_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello\n", "line 1 is no JSON"),
    "object": (b"{}\n", "line 1 has no 'format'"),
    "of one user": (b'{"format": "mongomem.user", "version": 1}\n', 'must be "mongomem.lines"'),
    "newer": (b'{"format": "mongomem.lines", "version": 2}\n', "a newer one may have made it"),
    "gzip": (b"\x1f\x8b\x08\x00\n", "line 1 is no JSON"),
}


@pytest.mark.parametrize("case", OTHER_FILES)
def test_other_files(case: str, target: MongoMemory) -> None:
    data, said = OTHER_FILES[case]
    with pytest.raises(InvalidInputError) as met:
        imported(target, data)
    assert said in str(met.value)
    assert threads_of(target) == []


def test_what_stands_behind_the_end(whole: Lines, target: MongoMemory) -> None:
    with pytest.raises(InvalidInputError, match="behind the end"):
        imported(target, b"".join([*whole, whole[1]]))


def test_a_line_without_an_end(
    whole: Lines, target: MongoMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", max(map(len, whole)))
    imported(target, b"".join(whole))
    with pytest.raises(InvalidInputError, match=r"line 2 is longer than \d+ bytes"):
        imported(target, whole[0] + b" " * lines.LONGEST_LINE + whole[1])


def test_pieces_that_are_repeated_too_often(
    whole: Lines, target: MongoMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mongomem.transfer.pieces.ALWAYS_TAKEN", 0)
    some = [*whole]
    value = {"type": "bytes", "pieces": [0] * 10_000}
    at = changed("checkpoint", "channels", {"a": value})(some)
    with pytest.raises(InvalidInputError, match=rf"line {at + 1}.*repeat them too often"):
        imported(target, b"".join(some))


def test_text_that_is_none() -> None:
    """A server may hold bytes that are no UTF-8, which Python reads as half a pair of
    surrogates.
    """
    text = lines.encoded({"thread": {"labels": {"a": "\udcff"}}})
    assert lines.parsed(text, 2).part.value == {"labels": {"a": "\udcff"}}
