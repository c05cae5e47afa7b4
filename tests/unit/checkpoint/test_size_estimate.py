"""How large a state is thought to be before it is serialized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.checkpoint.serde.size_estimate import estimate_size
from mongomem.engine.effects import HEAVY_BYTES

ITSELF: dict[str, Any] = {}
ITSELF["itself"] = ITSELF
LARGE: dict[str, Any] = {
    "a text": "x" * 3_000_000,
    "bytes": b"x" * 3_000_000,
    "an array": np.zeros(400_000),
    "many texts": ["some text of forty characters, or nearly"] * 100_000,
    "a mapping": {str(n): "x" * 100 for n in range(50_000)},
    "nested": {"a": {"b": [{"c": "x" * 3_000_000}]}},
    "messages": [HumanMessage("x" * 1000, id=str(n)) for n in range(3000)],
    "a set": {f"{n:050}" for n in range(50_000)},
    "a mapping whose last value is long": {
        **{str(n): n for n in range(20)},
        "last": "x" * 3_000_000,
    },
    "a long message behind short ones": [
        *(HumanMessage("x") for _ in range(900)),
        HumanMessage("x" * 3_000_000),
    ],
}
SMALL: dict[str, Any] = {
    "nothing": None,
    "a number": 2**70,
    "a text": "x" * 1000,
    "messages": [HumanMessage("x" * 100, id=str(n)) for n in range(30)],
    "an object": object(),
    "a class": dict,
    "a mapping of itself": ITSELF,
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_what_is_large_is_thought_to_be(value: Any) -> None:
    assert len(JsonPlusSerializer().dumps_typed(value)[1]) > 2 * HEAVY_BYTES
    assert estimate_size(value) >= HEAVY_BYTES


@pytest.mark.parametrize("value", SMALL.values(), ids=SMALL)
def test_what_is_small_is_thought_to_be(value: Any) -> None:
    assert estimate_size(value) < HEAVY_BYTES // 10


class Attributes(dict[str, Any]):
    """A dict whose keys are attributes, as many have written it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Listed(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        raise TypeError("no slices")


class Hostile:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not to be looked at")


class Mirror:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return {"mirror": Mirror()}


class Lazy(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("loaded")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("loaded")

    def __len__(self) -> int:
        raise RuntimeError("loaded")


class Measured(dict[str, Any]):
    def __len__(self) -> int:
        raise RuntimeError("not measured")


ODD = {
    "a dict whose keys are attributes": Attributes(values=[1], items="x", nbytes=None),
    "a list without slices": Listed([1, 2, 3]),
    "fields that cannot be seen": Hostile(),
    "fields that show the same": Mirror(),
    "a lazy mapping": Lazy(),
    "a dict without a length": Measured(a=1),
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_nothing_of_a_values_own_is_called(value: Any) -> None:
    assert estimate_size(value) < HEAVY_BYTES // 10
