"""Maps of memories: the projection, the picture, and what they say."""

from __future__ import annotations

import importlib.util
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import Item
from matplotlib.figure import Figure

from mongomem import ItemVectors, MongoStore, display
from mongomem.display.memory_maps import LABELLED, Point, _draw_groups, principal_components
from mongomem.errors import ConfigurationError, InvalidInputError

WHEN = datetime(2030, 1, 1, tzinfo=timezone.utc)
PNG = b"\x89PNG\r\n\x1a\n"


class Stored(MongoStore):
    """Gives the vectors that it was given."""

    def __init__(self, *found: ItemVectors) -> None:
        self.found = list(found)
        self.asked: list[Any] = []
        self.others: list[Item] = []

    def get_vectors(self, prefix: Any, *, limit: int) -> list[ItemVectors]:
        self.asked.append((prefix, limit))
        return self.found[:limit]

    def search(self, prefix: Any, /, **asked: Any) -> list[Any]:
        assert asked == {"limit": self.asked[-1][1], "refresh_ttl": False}
        return [*self.others, *(one.item for one in self.found)][: asked["limit"]]

    async def asearch(self, prefix: Any, /, **asked: Any) -> list[Any]:
        return self.search(prefix, **asked)

    async def aget_vectors(self, prefix: Any, *, limit: int) -> list[ItemVectors]:
        return self.get_vectors(prefix, limit=limit)


def embedded(key: str, vector: Any, namespace: Any = ("ada",), **value: Any) -> ItemVectors:
    item = Item(namespace=namespace, key=key, value=value, created_at=WHEN, updated_at=WHEN)
    rows = np.atleast_2d(np.asarray(vector, np.float32))
    return ItemVectors(item, ("text",) * len(rows), rows)


def mapped(*found: ItemVectors, **options: Any) -> display.MemoryMap:
    store: Any = Stored(*found)
    return display.memory_map(store, ("ada",), **options)


def test_alike_memories_are_near_one_another() -> None:
    shown = mapped(
        embedded("a", [1, 0, 0], text="dog"),
        embedded("b", [0.9, 0.1, 0], text="puppy"),
        embedded("c", [0, 0, 1], text="bridge"),
    )
    dog, puppy, bridge = [np.array([point.x, point.y]) for point in shown.points]
    assert np.linalg.norm(dog - puppy) < 0.3 < np.linalg.norm(dog - bridge)
    assert [point.label for point in shown.points] == ["dog", "puppy", "bridge"]
    assert shown.explained == pytest.approx(1)
    assert shown._repr_png_().startswith(PNG)


def test_text_lists_the_points() -> None:
    lines = str(mapped(embedded("a", [1, 0], text="dog"), embedded("b", [0, 1]))).splitlines()
    assert lines[0] == (
        "2 vectors on their first two principal components, which hold 100% of the variance"
    )
    assert [line.split()[-1] for line in lines[1:]] == ["dog", "b"]


@pytest.mark.parametrize(
    ("color_by", "groups"), [(None, ["ada / x", "ada"]), ("kind", ["pet", ""])]
)
def test_colours_are_by_field_or_namespace(color_by: str | None, groups: list[str]) -> None:
    first = embedded("a", [1, 0], ("ada", "x"), kind="pet")
    shown = mapped(first, embedded("b", [0, 1]), color_by=color_by)
    assert [point.group for point in shown.points] == groups


@pytest.mark.parametrize("color_by", [["a"], 5, b"a", {}, True])
async def test_a_field_to_colour_by_is_a_string(color_by: Any) -> None:
    store = Stored(embedded("a", [1, 0]))
    with pytest.raises(InvalidInputError, match="color_by must be a string"):
        display.memory_map(store, ("ada",), color_by=color_by)
    with pytest.raises(InvalidInputError, match="color_by must be a string"):
        await display.amemory_map(store, ("ada",), color_by=color_by)
    assert store.asked == []


@pytest.mark.parametrize("groups", [["_private", "notes"], ["", "_a", "_b"], ["$x^", "y"]])
def test_the_legend_names_every_group(groups: list[str]) -> None:
    figure = Figure()
    points = [Point("label", group, float(n), 0.0) for n, group in enumerate(groups)]
    _draw_groups(figure, figure.add_subplot(), points)
    (legend,) = figure.legends
    named = [text.get_text().replace("\\", "") for text in legend.get_texts()]
    assert named == [group or "(none)" for group in sorted(groups)]


def test_every_vector_of_an_item_is_a_point() -> None:
    assert len(mapped(embedded("a", [[1, 0], [0, 1], [1, 1]], text="three")).points) == 3


@pytest.mark.parametrize("count", [0, 1, 2, LABELLED + 5])
def test_any_number_can_be_drawn(count: int) -> None:
    random = np.random.default_rng(1)
    shown = mapped(*(embedded(str(n), random.normal(size=8)) for n in range(count)))
    assert len(shown.points) == count
    assert shown.png.startswith(PNG)
    assert count > 0 or str(shown) == "no memories with vectors"


def test_equal_vectors_are_one_place() -> None:
    shown = mapped(*(embedded(str(n), [0, 0, 1]) for n in range(3)))
    assert {(point.x, point.y) for point in shown.points} == {(0.0, 0.0)}
    assert shown.explained == 1


@pytest.mark.filterwarnings("ignore:Glyph")  # matplotlib's own font has none for these
@pytest.mark.parametrize("text", ["$x^", "a\u202eb\x00", "$\\frac{1}{", "日本語 🙂", "x" * 9999])
def test_hostile_texts_are_drawn_as_they_are(text: str) -> None:
    shown = mapped(
        embedded("a", [1, 0], text=text, kind=text), embedded("b", [0, 1]), color_by="kind"
    )
    assert shown.png.startswith(PNG)
    assert not set("\u202e\x00") & set(str(shown))


def test_the_projection_is_the_same_whatever_the_signs() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 6)).astype(np.float32)
    one, explained = principal_components([rows])
    other, _ = principal_components([rows[:7], rows[7:]])
    np.testing.assert_allclose(one, other, atol=1e-9)
    assert 0 < explained < 1


async def test_async_is_the_same_and_asks_for_as_many() -> None:
    store: Any = Stored(embedded("a", [1, 0], text="dog"), embedded("b", [0, 1]))
    shown = await display.amemory_map(store, ("ada",), limit=1)
    assert (len(shown.points), store.asked) == (1, [(("ada",), 1)])


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mongomem.display.memory_maps.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install matplotlib"):
        mapped()
    assert importlib.util.find_spec("matplotlib") is not None


@pytest.mark.parametrize("store", [None, "memories", object(), SimpleNamespace(get_vectors=print)])
async def test_what_is_no_store_is_named(store: Any) -> None:
    with pytest.raises(InvalidInputError, match="drawn from a MongoStore"):
        display.memory_map(store, ("ada",))
    with pytest.raises(InvalidInputError, match="drawn from a MongoStore"):
        await display.amemory_map(store, ("ada",))
