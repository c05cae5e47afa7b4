"""`memory_map`: the memories of a namespace by their meaning, as points.

The stored vectors are projected onto their two principal components, so that memories of like
meaning are near one another. What two of hundreds of dimensions leave out is said beneath.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from langgraph.store.base import Item

from mongomem.arguments import checked_text, shown
from mongomem.display.descriptions import described
from mongomem.display.labels import Box, Place, places
from mongomem.display.markup import one_line
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.store.plans.get_vectors import ItemVectors
from mongomem.store.store import MongoStore
from mongomem.store.vectors.quantization import Vector, normalized

Points = npt.NDArray[np.float64]

SIZE, DPI = (8.0, 5.0), 110
"""Of the picture, in inches, and how many pixels an inch has."""

COLOURS = ("#3b82f6", "#e8730c", "#16a34a", "#a855f7", "#db2777", "#0891b2", "#6b7280")
"""Of groups of points; all from the seventh on share the last."""

LEGEND_COLUMNS = 5

LABELLED, LONGEST_LABEL = 60, 32
"""How many points have a label at most, and its characters."""

FONT_SIZE = 8
"""In points, of the font that matplotlib is configured to use."""


@dataclass(frozen=True, slots=True)
class Point:
    """A vector on the map: the item and the text that it stands for, and where it is."""

    label: str
    group: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, repr=False)
class MemoryMap:
    """A map of memories: a picture in Jupyter, a list of points as text.

    Attributes:
        points: One for each vector, the items updated last first.
        explained: How much of the variance of the vectors the two components hold, from 0 to 1.
        png: The picture.
        without_vectors: How many items have none, of as many as were asked for, updated last.
    """

    points: tuple[Point, ...]
    explained: float
    png: bytes = field(repr=False)
    without_vectors: int = 0

    def __repr__(self) -> str:
        lines = [f"{one.x:6.2f} {one.y:6.2f}  {one.label}" for one in self.points]
        caption = _caption(self.points, self.explained, self.without_vectors)
        return "\n".join([caption, *lines])

    def _repr_png_(self) -> bytes:
        return self.png


def memory_map(
    store: MongoStore,
    namespace_prefix: tuple[str, ...],
    *,
    color_by: str | None = None,
    limit: int = 300,
) -> MemoryMap:
    """Draw the memories below a prefix as points, by the vectors that are stored with them. Of
    items without vectors it says how many there are.

    Args:
        store: A store with an index configuration.
        namespace_prefix: The labels that the namespaces begin with.
        color_by: A field of the values; items that have the same there have the same colour. None:
            by namespace.
        limit: How many items at most: those updated last.

    Raises:
        InvalidInputError: `store` is no MongoStore, or an argument is of the wrong kind.
        ConfigurationError: matplotlib is not installed (extra ``notebooks``), or the store has no
            index configuration.
    """
    _check(store, color_by)
    found = store.get_vectors(namespace_prefix, limit=limit)
    newest = store.search(namespace_prefix, limit=limit, refresh_ttl=False)
    return _drawn(found, newest, color_by)


async def amemory_map(
    store: MongoStore,
    namespace_prefix: tuple[str, ...],
    *,
    color_by: str | None = None,
    limit: int = 300,
) -> MemoryMap:
    """Do what `memory_map` does."""
    _check(store, color_by)
    found = await store.aget_vectors(namespace_prefix, limit=limit)
    newest = await store.asearch(namespace_prefix, limit=limit, refresh_ttl=False)
    return _drawn(found, newest, color_by)


def _check(store: object, color_by: object) -> None:
    """See that there is something to draw from, to colour by, and to draw with."""
    if not isinstance(store, MongoStore):
        raise InvalidInputError(f"a memory map is drawn from a MongoStore, not from {shown(store)}")
    if color_by is not None:
        checked_text("color_by", color_by)
    if find_spec("matplotlib") is None:
        raise ConfigurationError(
            "a memory map is drawn by matplotlib, which is not installed: pip install matplotlib"
        )


def _drawn(found: Sequence[ItemVectors], newest: Sequence[Item], color_by: str | None) -> MemoryMap:
    projected, explained = principal_components([one.vectors for one in found])
    named = [(_label(one, path), _group(one, color_by)) for one in found for path in one.paths]
    points = tuple(
        Point(label, group, float(x), float(y))
        for (label, group), (x, y) in zip(named, projected, strict=True)
    )
    without = _without_vectors(found, newest)
    caption = _caption(points, explained, without)
    return MemoryMap(points, explained, _picture(points, caption), without)


def _without_vectors(found: Sequence[ItemVectors], newest: Sequence[Item]) -> int:
    """Count the items that have no vectors: those with vectors that are as new were all found."""
    embedded = {(one.item.namespace, one.item.key) for one in found}
    return sum((one.namespace, one.key) not in embedded for one in newest)


def principal_components(vectors: Sequence[Vector]) -> tuple[Points, float]:
    """Project vectors, in arrays of shape (n, dims), onto their first two principal components,
    each scaled to length one before.

    Returns an array of shape (sum of n, 2), and the share of the variance that is in it. The sign
    of each component is such that its largest part is positive, so that a map looks the same every
    time.
    """
    count = sum(map(len, vectors))
    if count < 2:
        return np.zeros((count, 2)), 1.0
    unit = normalized(np.concatenate(vectors)).astype(np.float64)
    centred = unit - unit.mean(axis=0)
    _, strengths, components = np.linalg.svd(centred, full_matrices=False)
    variance = strengths**2
    explained = variance[:2].sum() / variance.sum() if variance.any() else 1.0
    projected: Points = centred @ _turned(components[:2]).T
    return projected, float(explained)


def _turned(components: Points) -> Points:
    """Give components the sign by which their largest part is positive."""
    largest = np.abs(components).argmax(axis=1)
    turned: Points = components * np.sign(components[range(len(components)), largest])[:, None]
    return turned


def _label(one: ItemVectors, path: str) -> str:
    """Name a vector by the text that it was made of, else by the key of its item."""
    text = one.item.value.get(path)
    return one_line(text if isinstance(text, str) and text.strip() else one.item.key, LONGEST_LABEL)


def _group(one: ItemVectors, color_by: str | None) -> str:
    if color_by is None:
        return one_line(" / ".join(one.item.namespace), LONGEST_LABEL)
    value = one.item.value.get(color_by)
    return "" if value is None else described(value, LONGEST_LABEL)


def _caption(points: Sequence[Point], explained: float, without_vectors: int) -> str:
    others = f"; items without vectors: {without_vectors}" if without_vectors else ""
    if not points:
        return f"no memories with vectors{others}"
    return (
        f"{len(points)} vectors on their first two principal components, "
        f"which hold {explained:.0%} of the variance{others}"
    )


def _picture(points: Sequence[Point], caption: str) -> bytes:
    """Draw the map as a PNG, without the state that ``pyplot`` shares between callers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white", layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    axes = _frame(figure, caption)
    _draw_groups(figure, axes, points)
    canvas.draw()  # which lays out: labels need the place of everything else
    _draw_labels(axes, canvas.get_renderer(), points)
    written = BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def _frame(figure: Any, caption: str) -> Any:
    """Make the axes: without numbers, for those of a projection mean nothing by themselves."""
    axes = figure.add_subplot()
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#d4d4d8")
    axes.set_xlabel(caption, color="#52525b", fontsize=FONT_SIZE)
    axes.margins(0.16, 0.12)
    return axes


def _draw_groups(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Draw the points, each group in its colour; a legend above where there are several."""
    groups = sorted({point.group for point in points})
    drawn = []
    for number, group in enumerate(groups):
        own = [point for point in points if point.group == group]
        places_of_own = [point.x for point in own], [point.y for point in own]
        colour = COLOURS[min(number, len(COLOURS) - 1)]
        drawn.append(axes.scatter(*places_of_own, s=34, color=colour, zorder=3))
    if len(groups) > 1:
        _draw_legend(figure, drawn, groups)


def _draw_legend(figure: Any, drawn: Sequence[Any], groups: Sequence[str]) -> None:
    """Name the groups above the map. Texts are set in a legend that is made: matplotlib leaves out
    labels that begin with an underscore.
    """
    legend = figure.legend(
        drawn,
        [*map(str, range(len(groups)))],
        loc="outside upper center",
        ncols=LEGEND_COLUMNS,
        fontsize=FONT_SIZE,
        frameon=False,
    )
    for text, group in zip(legend.get_texts(), groups, strict=True):
        text.set_text(_plain(group) or "(none)")


def _draw_labels(axes: Any, renderer: Any, points: Sequence[Point]) -> None:
    """Write the labels where they stand free, with a line to those far from their point."""
    texts = [
        axes.text(0, 0, _plain(one.label), color="#27272a", va="bottom", fontsize=FONT_SIZE)
        for one in points[:LABELLED]
    ]
    sizes = [text.get_window_extent(renderer).size for text in texts]
    pixels = [tuple(axes.transData.transform((one.x, one.y))) for one in points]
    frame = Box(*axes.get_window_extent(renderer).extents)
    for text, place, pixel in zip(texts, places(pixels, sizes, frame), pixels, strict=False):
        _put(axes, text, place, pixel)


def _put(axes: Any, text: Any, place: Place | None, pixel: tuple[float, float]) -> None:
    """Move a label to its place; one without a place is not shown."""
    text.set_visible(place is not None)
    if place is None:
        return
    to_data = axes.transData.inverted().transform
    text.set_position(to_data((place.box.left, place.box.bottom)))
    if place.is_far:
        ends = to_data([pixel, place.nearest(*pixel)])
        axes.plot(*ends.T, color="#a1a1aa", linewidth=0.7, zorder=1)


def _plain(text: str) -> str:
    """Keep matplotlib from reading mathematics between dollar signs."""
    return text.replace("$", r"\$")
