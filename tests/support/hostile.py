"""Values that no parameter expects: what attackers pass, and mistakes. Every public parameter meets
each of them.

`HOSTILE` names functions that make them, since some can be used once only. `Verdict` tells what
came of a call."""

from __future__ import annotations

import enum
import re
import types
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from bson import DBRef, Decimal128, MinKey, ObjectId, Regex
from langgraph.store.base import NOT_PROVIDED, GetOp, InvalidNamespaceError

from mongomem.errors import MongomemError

LONGEST_MESSAGE = 300


class RudeError(Exception):
    """What a rude value raises from its methods: never an error of ours."""


def rude(*_args: Any, **_options: Any) -> Any:
    raise RudeError("rude")


POLITE = (
    "__init__",
    "__new__",
    "__class__",
    "__getattribute__",
    "__init_subclass__",
    "__subclasshook__",
    "__del__",
)
ASKED = (
    *(
        "__repr__",
        "__str__",
        "__format__",
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__bool__",
    ),
    *(
        "__len__",
        "__iter__",
        "__contains__",
        "__getitem__",
        "__add__",
        "__mod__",
        "__int__",
        "__float__",
        "__index__",
    ),
    *(
        "__bytes__",
        "__abs__",
        "__neg__",
        "__round__",
        "__copy__",
        "__deepcopy__",
        "__reduce__",
        "__sizeof__",
    ),
)
NAMED = (
    "encode",
    "startswith",
    "translate",
    "partition",
    "split",
    "join",
    "isascii",
    "items",
    "keys",
    "values",
    "get",
)


def rude_type(base: type, *, hashes: bool = True) -> Any:
    """Make a subclass whose every method raises, but for its hash where that is what keeps it in a
    dict.
    """
    methods = dict.fromkeys((*ASKED, *(name for name in NAMED if hasattr(base, name))), rude)
    own = {name: method for name, method in methods.items() if name not in POLITE}
    return type(
        f"Rude{base.__name__}", (base,), {**own, "__hash__": base.__hash__ if hashes else rude}
    )


class RudeZone(tzinfo):
    utcoffset = dst = tzname = rude


class Color(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Shade(enum.Enum):
    DARK = "dark"


def generator() -> Iterator[str]:
    yield "a"


def within_itself(kind: type) -> Any:
    made: Any = kind()
    if kind is dict:
        made["a"] = made
    else:
        made += [made, made]
    return made


def deep(levels: int) -> Any:
    made: Any = []
    for _ in range(levels):
        made = [made]
    return made


def many_times_over(levels: int) -> Any:
    """Make a list that stands for two to the power of `levels` of them."""
    made: Any = ["a"]
    for _ in range(levels):
        made = [made, made]
    return made


HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**70": lambda: -(2**70),
    "10**30": lambda: 10**30,
    "10**5000": lambda: 10**5_000,
    "-10**5000": lambda: -(10**5_000),
    "1.5": lambda: 1.5,
    "-0.0": lambda: -0.0,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e308": lambda: 1e308,
    "1j": lambda: 1j,
    "decimal": lambda: Decimal("NaN"),
    "fraction": lambda: Fraction(1, 3),
    "bytes": lambda: b"a",
    "long bytes": lambda: b"\xff" * 2**20,
    "bytearray": lambda: bytearray(b"a"),
    "memoryview": lambda: memoryview(b"a"),
    "empty": lambda: "",
    "letter": lambda: "a",
    "period": lambda: "a.b",
    "NUL": lambda: "a\x00b",
    "NULs": lambda: "\x00\x00",
    "surrogate": lambda: "\ud800",
    "long": lambda: "x" * 2**20,
    "star": lambda: "*",
    "operator": lambda: "$where",
    "langgraph": lambda: "langgraph",
    "bracket": lambda: "a[*][",
    "empty list": list,
    "list": lambda: ["a"],
    "list of number": lambda: [1],
    "list of None": lambda: [None],
    "list of operator": lambda: ["a", {"$ne": None}],
    "list of list": lambda: [["a"]],
    "list of surrogate": lambda: ["\ud800"],
    "list of long": lambda: ["x" * 2**20] * 3,
    "list of many": lambda: ["x"] * 100_000,
    "list of rude": lambda: [rude_type(object, hashes=False)()],
    "empty tuple": lambda: (),
    "tuple": lambda: ("a",),
    "tuple of number": lambda: (1,),
    "tuple of None": lambda: (None,),
    "tuple of empty": lambda: ("",),
    "tuple of period": lambda: ("a.b",),
    "tuple of NUL": lambda: ("a\x00b",),
    "tuple of surrogate": lambda: ("\ud800",),
    "tuple of langgraph": lambda: ("langgraph", "x"),
    "tuple of long": lambda: ("x" * 2**20,),
    "tuple of tuple": lambda: (("a",),),
    "tuple of operator": lambda: ("users", {"$gt": ""}),
    "tuple of rude text": lambda: (rude_type(str)("a"),),
    "tuple of rude": lambda: (rude_type(object, hashes=False)(),),
    "tuple of star": lambda: ("*",),
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "ne": lambda: {"$ne": None},
    "gt": lambda: {"$gt": ""},
    "regex operator": lambda: {"$regex": ".*"},
    "where": lambda: {"a": {"$where": "1"}},
    "expr": lambda: {"$expr": {"$eq": [1, 1]}},
    "and": lambda: {"$and": [{"a": {"$in": 1}}]},
    "not": lambda: {"a": {"$not": {"$not": 1}}},
    "dict of number": lambda: {1: 2},
    "dict of None": lambda: {None: None},
    "dict of surrogate": lambda: {"\ud800": 1},
    "dict of rude": lambda: {"a": rude_type(object, hashes=False)()},
    "dict of rude key": lambda: {rude_type(str)("a"): 1},
    "dict of set": lambda: {"a": {1}},
    "dict of 10**5000": lambda: {"a": 10**5_000},
    "dict of long": lambda: {"x" * 2**20: 1},
    "dict of rude zone": lambda: {"a": datetime(2024, 1, 1, tzinfo=RudeZone())},
    "mapping": lambda: types.MappingProxyType({"a": 1}),
    "ordered": lambda: OrderedDict(a=1),
    "set": lambda: {"a"},
    "frozenset": lambda: frozenset("a"),
    "regex": lambda: re.compile(".*"),
    "object": object,
    "rude": lambda: rude_type(object, hashes=False)(),
    "rude text": lambda: rude_type(str)("a"),
    "rude number": lambda: rude_type(int)(1),
    "rude float": lambda: rude_type(float)(1.5),
    "rude bytes": lambda: rude_type(bytes)(b"a"),
    "rude list": lambda: rude_type(list, hashes=False)(["a"]),
    "rude tuple": lambda: rude_type(tuple)(("a",)),
    "rude dict": lambda: rude_type(dict, hashes=False)({"a": 1}),
    "generator": generator,
    "range": lambda: range(3),
    "function": lambda: rude,
    "class": lambda: dict,
    "module": lambda: re,
    "error": lambda: ValueError("x" * 10_000),
    "ellipsis": lambda: ...,
    "not provided": lambda: NOT_PROVIDED,
    "list within itself": lambda: within_itself(list),
    "dict within itself": lambda: within_itself(dict),
    "deep": lambda: deep(5_000),
    "dict of deep": lambda: {"a": deep(5_000)},
    "many times over": lambda: many_times_over(30),
    "text enum": lambda: Color.RED,
    "number enum": lambda: Level.HIGH,
    "enum": lambda: Shade.DARK,
    "numpy int": lambda: np.int64(3),
    "numpy float": lambda: np.float64(0.5),
    "numpy nan": lambda: np.float64("nan"),
    "numpy half": lambda: np.float32(0.5),
    "numpy bool": lambda: np.bool_(True),
    "numpy text": lambda: np.str_("a"),
    "numpy array": lambda: np.array([1, 2]),
    "numpy texts": lambda: np.array(["a", "b"]),
    "naive time": lambda: datetime(2024, 1, 1),  # noqa: DTZ001  what it is about
    "last time": lambda: datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    "date": lambda: date(2024, 1, 1),
    "timedelta": lambda: timedelta(days=1),
    "uuid": lambda: uuid.UUID(int=7),
    "object id": lambda: ObjectId(b"a" * 12),
    "decimal 128": lambda: Decimal128("1"),
    "min key": MinKey,
    "reference": lambda: DBRef("a", 1),
    "bson regex": lambda: Regex(".*"),
    "operation": lambda: GetOp(("a",), "k"),
    "list of operation": lambda: [GetOp(("a",), "k")],
}


@dataclass
class Verdict:
    """What came of calls with hostile values: only `faults` are wrong.

    Attributes:
        answered: How many were taken.
        refused: How many were refused by an error that says so.
        faults: What else happened, by the name of the call.
    """

    answered: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)

    def judge(self, name: str, parameter: str, error: BaseException | None) -> None:
        """Take in how a call ended: with an error of ours that is short and names the parameter, or
        with an answer.
        """
        if error is None:
            self.answered += 1
        elif not isinstance(error, (MongomemError, InvalidNamespaceError)):
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        elif len(message := str(error)) > LONGEST_MESSAGE:
            self.faults.append(f"{name}: a message of {len(message)} characters: {message[:200]}")
        elif not re.search(parameter, message):
            self.faults.append(f"{name}: the message does not name {parameter!r}: {message}")
        else:
            self.refused += 1
