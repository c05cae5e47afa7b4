"""The index configuration of a store: which texts of an item are embedded, by what, and how it is told apart.

Only describes and extracts; embedding is a command, storing is in `plans`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import get_text_at_path, tokenize_path

from mongomem.embeddings.embedder import Embedder
from mongomem.embeddings.resolve import resolve_embedder
from mongomem.errors import ConfigurationError
from mongomem.search.metrics import METRICS, Metric

WHOLE = "$"
"""The path of the whole value, embedded as JSON."""

LONGEST_INTEGER_BITS = 2_000
"""Longer integers are embedded in hexadecimal digits: Python writes no more than 4,300 decimal ones
(``sys.set_int_max_str_digits``), and never forbids 640."""

KNOWN_OPTIONS = frozenset({"embed", "dims", "fields", "metric"})


@dataclass(frozen=True, slots=True)
class Text:
    """A text of an item that gets a vector.

    Attributes:
        path: Where it stands.
        digest: Names the text and the model, so that equal digests mean equal vectors.
    """

    path: str
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Indexing:
    """What makes items findable by meaning.

    Attributes:
        fields: Paths of what is embedded where an item does not say otherwise.
        fingerprint: Names the configuration: vectors made by another one are not comparable with its own.
    """

    embedder: Embedder
    dims: int
    fields: tuple[str, ...]
    metric: Metric
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", _digest(json.dumps(self.description, sort_keys=True)))

    @property
    def description(self) -> dict[str, Any]:
        """Tell the configuration in words, as it stands in the settings of a store."""
        return {
            "model": self.embedder.fingerprint,
            "dims": self.dims,
            "fields": list(self.fields),
            "metric": self.metric,
        }

    def texts(self, value: Mapping[str, Any], choice: Sequence[str] | bool | None) -> list[Text]:
        """Extract the texts to embed, each once: by the item's own `choice` of paths, or by `fields`.

        A blank text is left out: it means nothing, and OpenAI refuses it (400, "input cannot be an empty string").
        """
        if choice is False:
            return []
        paths = self.fields if choice is None or choice is True else choice
        found = (Text(path, text, self._text_digest(text)) for path in paths for text in _texts_at(value, path))
        return list({text.digest: text for text in found if text.text.strip()}.values())

    def _text_digest(self, text: str) -> str:
        return _digest(f"{self.embedder.fingerprint}\x00{self.dims}\x00{text}")


def resolve_index(index: Any) -> Indexing | None:
    """Read LangGraph's IndexConfig, and `metric` beside it: cosine (the default), dot or euclidean.

    Raises:
        ConfigurationError: An option is unknown, missing or contradicts another.
    """
    if index is None:
        return None
    if not isinstance(index, Mapping):
        raise ConfigurationError(f'index is an IndexConfig such as {{"embed": "local", "dims": 256}}, not {index!r}')
    if unknown := sorted(set(index) - KNOWN_OPTIONS):
        raise ConfigurationError(f"Unknown options of index: {unknown}; there are {sorted(KNOWN_OPTIONS)}")
    if index.get("embed") is None:
        raise ConfigurationError('index needs "embed", e.g. {"embed": "openai:text-embedding-3-small", "dims": 1536}')
    if (metric := index.get("metric", "cosine")) not in METRICS:
        raise ConfigurationError(f"metric must be one of {METRICS}, not {metric!r}")
    embedder = resolve_embedder(index["embed"], dims=index.get("dims"))
    if embedder.dims is None:
        raise ConfigurationError('index needs "dims", the number of dimensions of its vectors')
    return Indexing(embedder, embedder.dims, _checked_fields(index.get("fields")), metric)


def _checked_fields(fields: Any) -> tuple[str, ...]:
    if fields is None:
        return (WHOLE,)
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise ConfigurationError(f'fields must be a list of paths such as ["text", "items[*].name"], not {fields!r}')
    checked = tuple(fields)
    if not checked or not all(isinstance(field, str) and field for field in checked):
        raise ConfigurationError(f"fields must be a list of one path or more, not {fields!r}")
    return checked


def _texts_at(value: Mapping[str, Any], path: str) -> list[str]:
    tokens = WHOLE if path == WHOLE else tokenize_path(path)
    try:
        return get_text_at_path(value, tokens)
    except (TypeError, ValueError):  # JSON has no times and bytes, and Python no text for very long integers
        return get_text_at_path(_as_json(value), tokens)


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_json(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(element) for element in value]
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER_BITS:
        return hex(value)
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
