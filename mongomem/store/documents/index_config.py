"""The index configuration of a store: which texts of an item are embedded, by what, and the
fingerprint of both.

Nothing is embedded or stored here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from langgraph.store.base import get_text_at_path, tokenize_path

from mongomem.arguments import checked_text, looking_at, shown
from mongomem.embeddings.embedder import Embedder
from mongomem.embeddings.identity import FORM
from mongomem.embeddings.no_embedder import NoEmbedder
from mongomem.embeddings.resolve import resolve_embedder
from mongomem.errors import ConfigurationError
from mongomem.store.vectors.quantization import METRICS, Metric
from mongomem.store.words.analysis import DEFAULT_LANGUAGE, Analyser, analyser_for
from mongomem.store.words.readable import readable
from mongomem.store.words.stored_terms import mark_of

WHOLE = "$"
"""The path of the whole value, embedded as JSON."""

LONGEST_INTEGER_BITS = 2_000
"""Longer integers are embedded in hexadecimal digits: Python writes no more than 4,300 decimal ones
(``sys.set_int_max_str_digits``), and never forbids 640."""

Rank: TypeAlias = Literal["hybrid", "vector", "words"]

RANKS: tuple[Rank, ...] = get_args(Rank)

KNOWN_OPTIONS = frozenset(
    {"embed", "dims", "fields", "metric", "model", "batch_size", "rank", "language"}
)

OF_VECTORS = ("embed", "dims", "metric", "model", "batch_size")
"""Options that say nothing where words alone are ranked by."""

MOST_FIELDS = 1_000
LONGEST_FIELD = 1_000
"""How many paths may be embedded, and how many characters one may have: the settings of a store
hold them."""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A text of an item that gets a vector, and its path."""

    path: str
    text: str

    @property
    def readable(self) -> str:
        """The text whose words and phrases are found: JSON without its escapes."""
        return readable(self.text)


@dataclass(frozen=True)
class IndexSettings:
    """What makes items findable by meaning.

    Attributes:
        fields: Paths of what is embedded where an item does not say otherwise.
        known_as: The name of the model in the fingerprints and digests of the store, where it had
            another name before.
        generation: How many forced reindexes were before.
        analyser: What finds the words of a text; None where items are ranked by meaning alone.
    """

    embedder: Embedder
    dims: int
    fields: tuple[str, ...]
    metric: Metric
    known_as: str | None = None
    generation: int = 0
    analyser: Analyser | None = None

    @property
    def has_vectors(self) -> bool:
        """Say whether items are ranked by meaning."""
        return self.dims > 0

    @property
    def rank(self) -> Rank:
        """The way of ranking, as the option of that name says it."""
        if not self.has_vectors:
            return "words"
        return "vector" if self.analyser is None else "hybrid"

    @property
    def told(self) -> dict[str, Any]:
        """The model, its dimensions and the way of ranking, for whoever looks at a store."""
        vectors = {"model": self.embedder.title, "dims": self.dims}
        return {**(vectors if self.has_vectors else {}), "rank": self.rank}

    @cached_property
    def mark(self) -> bytes | None:
        """The mark of the analyser in stored terms."""
        return None if self.analyser is None else mark_of(self.analyser.name)

    def terms(self, texts: Iterable[str]) -> list[str] | None:
        """List what texts are searched by, each term as often as they have it."""
        if self.analyser is None:
            return None
        return [word.term for text in texts for word in self.analyser.words(text)]

    @property
    def as_document(self) -> dict[str, Any]:
        """The configuration as fields of the settings."""
        return {
            "model": self.embedder.fingerprint,
            "dims": self.dims,
            "fields": list(self.fields),
            "metric": self.metric,
        }

    @property
    def described(self) -> dict[str, Any]:
        """The configuration for messages."""
        language = {} if self.analyser is None else {"analyser": self.analyser.name}
        return self.as_document | language

    @property
    def settings(self) -> dict[str, Any]:
        """All fields that the settings have for this configuration."""
        settings = {"fingerprint": self.fingerprint, **self.as_document, "form": FORM}
        if self.known_as not in (None, self.embedder.fingerprint):
            settings["known_as"] = self.known_as
        if self.generation:
            settings["generation"] = self.generation
        if self.analyser is not None:
            settings["analyser"] = self.analyser.name
        return settings

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the configuration: vectors of another one are not comparable."""
        return _digest(json.dumps({**self.as_document, "model": self._model}, sort_keys=True))

    @cached_property
    def _model(self) -> str:
        return self.known_as or self.embedder.fingerprint

    def as_known_by(self, settings: Mapping[str, Any]) -> IndexSettings | None:
        """Return this configuration by the names in the settings of a store; None where these are
        of another one.
        """
        model = settings.get("model")
        known_as, generation = settings.get("known_as", model), settings.get("generation", 0)
        if not isinstance(known_as, str) or not isinstance(generation, int):  # damaged
            return None
        if not self.embedder.identity().is_called(model, settings.get("form")):
            return None
        if self.analyser and settings.get("analyser", self.analyser.name) != self.analyser.name:
            return None
        known = replace(self, known_as=known_as, generation=generation)
        return known if known.fingerprint == settings.get("fingerprint") else None

    def paths(self, choice: Sequence[str] | bool | None) -> Sequence[str]:
        """List what is embedded of an item: its own `choice` of paths, or `fields`."""
        if isinstance(choice, bool) or choice is None:
            return () if choice is False else self.fields
        return choice

    def texts(
        self, value: Mapping[str, Any], choice: Sequence[str] | bool | None
    ) -> list[EmbeddedText]:
        """Extract the texts to embed.

        A blank text is left out: it means nothing, and OpenAI refuses it (400, "input cannot be an
        empty string").
        """
        found = (
            EmbeddedText(path, text)
            for path in self.paths(choice)
            for text in _texts_at(value, path)
        )
        return [text for text in found if text.text.strip()]

    def digest(self, text: str) -> str:
        """Return a digest of a text and the model: equal digests mean equal vectors."""
        return _digest(f"{self._model}\x00{self.dims}\x00{text}")


def resolve_index(index: Any) -> IndexSettings | None:
    """Check LangGraph's IndexConfig, and the options beside it: `metric`, `model`, `batch_size`,
    `rank` and `language`.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong kind or contradicts another.
    """
    if index is None:
        return None
    with looking_at("index", ConfigurationError):
        options = _checked_options(index)
    with looking_at("metric", ConfigurationError):
        metric = _checked_metric(options.get("metric", "cosine"))
    with looking_at("rank", ConfigurationError):
        rank = _checked_rank(options.get("rank"), metric)
    with looking_at("language", ConfigurationError):
        analyser = _checked_analyser(options.get("language"), rank)
    with looking_at("fields", ConfigurationError):
        fields = _checked_fields(options.get("fields"))
    embedder, dims = _checked_embedder(options, rank)
    return IndexSettings(embedder, dims, fields, metric, analyser=analyser)


def _checked_embedder(options: Mapping[str, Any], rank: Rank) -> tuple[Embedder, int]:
    if rank == "words":
        _refuse_options_of_vectors(options)
        return NoEmbedder(), 0
    if options.get("embed") is None:
        raise ConfigurationError(
            'index needs "embed", e.g. {"embed": "openai:text-embedding-3-small", "dims": 1536}, '
            'or {"rank": "words"}'
        )
    passed = {name: options.get(name) for name in ("dims", "model", "batch_size")}
    embedder = resolve_embedder(options["embed"], **passed)
    if embedder.dims is None:
        raise ConfigurationError('index needs "dims", the number of dimensions of its vectors')
    return embedder, embedder.dims


def _refuse_options_of_vectors(options: Mapping[str, Any]) -> None:
    if given := [name for name in OF_VECTORS if options.get(name) is not None]:
        raise ConfigurationError(f'rank "words" has no vectors, so index has no {shown(given)}')


def _checked_rank(rank: Any, metric: Metric) -> Rank:
    if rank is None:
        return "hybrid" if metric == "cosine" else "vector"
    if not isinstance(rank, str) or rank not in RANKS:
        raise ConfigurationError(f"rank must be one of {RANKS}, not {shown(rank)}")
    if rank == "hybrid" and metric != "cosine":
        raise ConfigurationError(
            f'rank "hybrid" fuses words with cosines: metric must be "cosine", not {shown(metric)}'
        )
    return rank


def _checked_analyser(language: Any, rank: Rank) -> Analyser | None:
    if rank != "vector":
        return analyser_for(
            DEFAULT_LANGUAGE
            if language is None
            else checked_text("language", language, ConfigurationError)
        )
    if language is not None:
        raise ConfigurationError('rank "vector" knows no words, so index has no language')
    return None


def _checked_options(index: Any) -> dict[str, Any]:
    if not isinstance(index, Mapping):
        example = '{"embed": "local", "dims": 256}'
        raise ConfigurationError(f"index is an IndexConfig such as {example}, not {shown(index)}")
    options = dict(index)
    if unknown := [
        option for option in options if not isinstance(option, str) or option not in KNOWN_OPTIONS
    ]:
        raise ConfigurationError(
            f"Unknown options of index: {shown(unknown)}; there are {sorted(KNOWN_OPTIONS)}"
        )
    return options


def _checked_metric(metric: Any) -> Metric:
    if not isinstance(metric, str) or metric not in METRICS:
        raise ConfigurationError(f"metric must be one of {METRICS}, not {shown(metric)}")
    return metric


def _checked_fields(fields: Any) -> tuple[str, ...]:
    if fields is None:
        return (WHOLE,)
    if not isinstance(fields, (list, tuple)):
        raise ConfigurationError(
            f'fields must be a list of paths such as ["text", "items[*].name"], not {shown(fields)}'
        )
    if not 1 <= len(fields) <= MOST_FIELDS:
        raise ConfigurationError(
            f"fields must be a list of one path to {MOST_FIELDS:,}, not of {len(fields):,}"
        )
    return tuple(_checked_field(field) for field in fields)


def _checked_field(field: Any) -> str:
    path = checked_text("a path of fields", field, ConfigurationError)
    if not 1 <= len(path) <= LONGEST_FIELD:
        raise ConfigurationError(
            f"a path of fields has 1 to {LONGEST_FIELD:,} characters, not {len(path):,}"
        )
    if path != WHOLE and not tokenize_path(path):
        raise ConfigurationError(f"a path of fields names no field: {shown(path)}")
    return path


def _texts_at(value: Mapping[str, Any], path: str) -> list[str]:
    tokens = WHOLE if path == WHOLE else tokenize_path(path)
    try:
        return get_text_at_path(value, tokens)
    # JSON has no times and bytes, and Python writes no text of very long integers.
    except (TypeError, ValueError):
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
