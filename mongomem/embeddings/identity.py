"""What a model is called, so that a store can tell that its vectors were made by another one.

A user who says ``index={"model": ...}`` is believed. Otherwise a name is read from what embeds,
from whatever tells models apart and is alike in every process:

    "openai:MODEL"         the model, and the server where it is not OpenAI's
    LangChain Embeddings   the class, its model, every other setting that is not as by default, and
                           what it wraps
    a function             its qualified name, and the name of its file: not that of its module,
                           which is ``__main__``
                           where the file is run; with it what a closure holds and what a partial
                           binds
    a callable object,     its class, and what it holds
    a bound method

What cannot be named, such as a lambda, or a closure over an object that tells no model, asks for
``model``: two of its kind would look the same. Two things no name tells: that a function was given
another body, and that a server has another model under the same name. For those the store compares
vectors, see `mongomem.store.plans.model_check`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda

from mongomem.embeddings.settings import (
    address_of_client,
    bound_by,
    cells_of,
    defaults_of,
    digest,
    is_aside,
    settings_of,
    written,
)
from mongomem.errors import ConfigurationError

FORM = 2
"""Which way of naming models this is. The first one told less: a name of it stands for all that it
may have meant."""

DEEPEST = 4
"""How deep what embeds is looked into."""

MOST_SETTINGS = 100
LONGEST_NAME = 500

MODEL_SETTINGS = frozenset(
    {
        *(
            "model",
            "model_name",
            "model_id",
            "model_path",
            "model_uid",
            "model_url",
            "repo_id",
            "engine",
        ),
        *("deployment", "deployment_name", "azure_deployment", "endpoint_name"),
    }
)
"""What settings are called that tell which model it is, whatever stands beside them."""

FIRST_SETTINGS = ("model", "model_name", "model_id", "deployment")
"""Those of LangChain's classes of which one stands in front; the only ones that the first form
read."""

BASE_SETTINGS = frozenset({"base_url", "openai_api_base", "api_base"})
"""What settings are called that hold the address of the server; left out, clients read it from the
environment."""

TRANSPARENT = "CacheBackedEmbeddings"
"""LangChain's class that hands out the vectors of what it wraps: with it or without, the model is
the same."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The names of a model.

    Attributes:
        given: What the user says; None: nothing.
        derived: What was derived; None where nothing could be.
        former: What it may have been called by the first form of names.
    """

    given: str | None
    derived: str | None
    former: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the model is called: as the user says, else as it was derived."""
        return self.given or self.derived or ""

    def is_called(self, name: object, form: object) -> bool:
        """Say whether a name that a store keeps, in a form, may be that of this model."""
        return name == self.name or name == self.derived or (form is None and name in self.former)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A thing by its name; `tells` says that it is one model, whatever it holds besides."""

    text: str
    tells: bool = False


class _UnnamedModelError(Exception):
    """Nothing names a thing alike in every process, and why."""


def identity_of(embed: Any, given: str | None, fallback: str | None = None) -> Identity:
    """Name a function, a callable object or an instance of ``Embeddings``; `fallback` where that
    cannot be.

    Raises:
        ConfigurationError: Nothing names it.
    """
    reason = ""
    try:
        derived: str | None = _short(_named(embed, 0).text)
    except _UnnamedModelError as error:
        derived, reason = fallback, str(error)
    except Exception as error:  # of whatever a class of somebody else does when it is looked at
        derived, reason = fallback, f"looking at it raised {type(error).__name__}"
    if given is None and derived is None:
        raise ConfigurationError(
            f'index needs "model", a name for what embeds: {reason}, so that a change of model '
            'would go unnoticed. Write e.g. {"embed": ..., "model": "my-model-v1"}, and another '
            "name whenever another model embeds"
        )
    return Identity(given, derived, _former(embed))


def _named(value: Any, depth: int) -> ModelName:
    if depth > DEEPEST:
        raise _UnnamedModelError("it is nested too deeply")
    for kinds, name in _NAMES:
        if isinstance(value, kinds):
            return name(value, depth)
    if hasattr(value, "__wrapped__"):  # functools.lru_cache
        return _named(value.__wrapped__, depth + 1)
    if not callable(value):
        raise _UnnamedModelError(f"a {type(value).__name__} has no name")
    kind = type(value)
    return _with(f"function:{_place_of_class(kind)}.{_qualified(kind)}", settings_of(value), depth)


def _embeddings(embeddings: Embeddings, depth: int) -> ModelName:
    if type(embeddings) is EmbeddingsLambda:
        return _named(_function_of(embeddings), depth)
    settings, kind = settings_of(embeddings), type(embeddings).__name__
    if kind == TRANSPARENT and "underlying_embeddings" in settings:
        return _named(settings["underlying_embeddings"], depth + 1)
    first = _first_model(settings)
    if first is None:
        return _with(f"langchain:{kind}", settings, depth, containers=True)
    others = {
        name: value
        for name, value in settings.items()
        if name not in MODEL_SETTINGS or value != first
    }
    return _with(f"langchain:{kind}", others, depth, front=written(first), containers=True)


def _first_model(settings: Mapping[str, Any]) -> str | None:
    models = (settings.get(name) for name in FIRST_SETTINGS)
    return next((model for model in models if isinstance(model, str) and model.strip()), None)


def _function(
    function: FunctionType, depth: int, bound: Mapping[str, Any] | None = None
) -> ModelName:
    """Name a function. What is defined in a module has one definition there: of its defaults only
    texts are named.
    """
    name = _qualified(function)
    held = {**defaults_of(function), **cells_of(function)}
    if "<locals>" not in name:
        held = {setting: value for setting, value in held.items() if isinstance(value, str)}
    return _with(
        f"function:{_place(inspect.unwrap(function))}.{name}", {**held, **(bound or {})}, depth
    )


def _partial(bound: partial[Any], depth: int) -> ModelName:
    arguments = bound_by(bound)
    if isinstance(bound.func, FunctionType):
        return _function(bound.func, depth, arguments)
    inner = _named(bound.func, depth + 1)
    return _with(inner.text, arguments, depth, tells=inner.tells)


def _method(method: MethodType, depth: int) -> ModelName:
    holder = method.__self__
    if isinstance(holder, (type, Embeddings)):
        inner = _named(holder, depth + 1)
        return ModelName(f"{inner.text}.{method.__name__}", tells=inner.tells)
    return _with(
        f"function:{_place(method.__func__)}.{_qualified(method)}", settings_of(holder), depth
    )


def _defined(definition: Any, _depth: int) -> ModelName:
    """Name what a module defines: a class, a function of C, the module itself."""
    if isinstance(definition, ModuleType):
        return ModelName(definition.__name__)
    place = (
        _place_of_class(definition)
        if isinstance(definition, type)
        else _last(definition.__module__)
    )
    return ModelName(f"function:{place}.{_qualified(definition)}")


_NAMES: tuple[tuple[Any, Callable[[Any, int], ModelName]], ...] = (
    (Embeddings, _embeddings),
    (partial, _partial),
    (FunctionType, _function),
    (MethodType, _method),
    ((BuiltinFunctionType, type, ModuleType), _defined),
)


@dataclass(slots=True)
class _Held:
    """What a thing holds, as far as it is named."""

    tells: bool
    texts: list[str] = field(default_factory=list)
    nameless: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any, named: ModelName | None) -> None:
        """Take in a setting and its name, if it has one. What clients hold is where they ask, and
        no more.
        """
        if named is None:
            self.nameless[name] = value
            address = address_of_client(value)
            if address is not None and not any("://" in text for text in self.texts):
                self.texts.append(f"at {address}")
        elif named.text:
            self.texts.append(
                f"at {named.text}" if name in BASE_SETTINGS else f"{name}={named.text}"
            )
            self.tells = (
                self.tells or named.tells or (name in MODEL_SETTINGS and isinstance(value, str))
            )


def _with(
    head: str,
    settings: Mapping[str, Any],
    depth: int,
    *,
    front: str | None = None,
    containers: bool = False,
    tells: bool = False,
) -> ModelName:
    """Name a thing by its kind and by what it holds.

    Raises:
        _UnnamedModelError: It holds what has no name, and nothing that tells the model.
    """
    held = _Held(tells or front is not None)
    named = {name: _setting(value, depth, containers) for name, value in _told(settings)}
    for name in sorted(named, key=lambda name: (named[name] is None, name)):
        held.add(name.lstrip("_"), settings[name], named[name])
    if (held.nameless or len(settings) > MOST_SETTINGS) and not held.tells:
        raise _nameless(head, held)
    listed = ", ".join(held.texts if front is None else [front, *held.texts])
    return ModelName(f"{head}({listed})" if listed else head, held.tells)


def _nameless(head: str, held: _Held) -> _UnnamedModelError:
    listed = " and ".join(list(held.nameless)[:3]) or "too much"
    return _UnnamedModelError(f"{head.partition(':')[2]} holds {listed}, which tells no model")


def _told(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, value)
        for name, value in sorted(settings.items())[:MOST_SETTINGS]
        if not is_aside(name, value)
    ]


def _setting(value: Any, depth: int, containers: bool) -> ModelName | None:
    """Name what is held; None where nothing does. Of wrapped embeddings the name tells the model of
    the wrapper.
    """
    text = written(value, containers=containers)
    if text is not None:
        return ModelName(text)
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(each, Embeddings) for each in value)
    ):
        inner = [_named(each, depth + 1) for each in value[:MOST_SETTINGS]]
        return ModelName(f"[{', '.join(each.text for each in inner)}]", tells=True)
    try:
        named = _named(value, depth + 1)
    except _UnnamedModelError:
        return None
    return ModelName(named.text, tells=named.tells and isinstance(value, (Embeddings, MethodType)))


def _qualified(definition: Any) -> str:
    name = str(definition.__qualname__)
    if "<lambda>" in name:
        raise _UnnamedModelError("a lambda has no name")
    return name


def _place(function: Any) -> str:
    """Name the file of a function: its module's name is ``__main__`` or another one by how the file
    was come by.
    """
    file = getattr(function, "__globals__", {}).get("__file__")
    return _stem(file) if isinstance(file, str) else _last(function.__module__)


def _place_of_class(kind: type) -> str:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if isinstance(file, str):
        return _stem(file)
    methods = (value for value in vars(kind).values() if isinstance(value, FunctionType))
    return _place(next(methods, kind))


def _stem(file: str) -> str:
    path = PurePath(file)
    stem = path.name.partition(".")[0]
    return path.parent.name if stem in ("__init__", "__main__") else stem


def _last(module: Any) -> str:
    return str(module).rpartition(".")[2]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 20]}...{digest(name)}"


def _function_of(embeddings: EmbeddingsLambda) -> Any:
    return getattr(embeddings, "afunc", None) or embeddings.func


def _former(embed: Any) -> tuple[str, ...]:
    """List what the first form called a model: of an object little more than its class.

    It called a function by its module, so that one that was run as a script was called
    ``__main__``.
    """
    if type(embed) is EmbeddingsLambda:
        return _former(_function_of(embed))
    if isinstance(embed, Embeddings):
        return (_former_of_embeddings(embed),)
    named = embed
    while isinstance(named, partial):
        named = named.func
    if not hasattr(named, "__qualname__"):
        named = type(named)
    return tuple(
        f"function:{module}.{named.__qualname__}" for module in (named.__module__, "__main__")
    )


def _former_of_embeddings(embeddings: Embeddings) -> str:
    names = (getattr(embeddings, setting, None) for setting in FIRST_SETTINGS)
    model = next((f"({name})" for name in names if isinstance(name, str) and name), "")
    return f"langchain:{type(embeddings).__name__}{model}"
