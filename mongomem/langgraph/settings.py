"""What the environment of a LangGraph server says of its memories, as options of `MongoMemory`.

A server writes the parts of ``langgraph.json`` into variables before it loads a factory
(langgraph-api 0.16). What is not understood is an error, and is not left out: whoever mistypes
``index`` would find nothing, and would not know why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.arguments import checked_flag, checked_text, looking_at, shown
from mongomem.checkpoint.serde.default import default_serializer
from mongomem.errors import ConfigurationError
from mongomem.langgraph.embedder_file import named_embedder

URI = "MONGODB_URI"
STORE = "LANGGRAPH_STORE"
CHECKPOINTER = "LANGGRAPH_CHECKPOINTER"
THREAD_TTL = "LANGGRAPH_THREAD_TTL"
VARIANT = "LANGSMITH_LANGGRAPH_API_VARIANT"

UNDER_DEV = "local_dev"
"""What ``langgraph dev``, and no other server, sets `VARIANT` to."""

OF_STORE = frozenset({"path", "index", "ttl"})
OF_CHECKPOINTER = frozenset({"path", "backend", "ttl", "serde"})
OF_THREAD_TTL = frozenset({"strategy", "default_ttl", "sweep_interval_minutes", "sweep_limit"})
OF_TYPES = frozenset({"allowed_json_modules", "allowed_msgpack_modules"})
OF_SERDE = OF_TYPES | {"pickle_fallback"}


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables, as they are written; empty where they are not set."""

    uri: str = field(repr=False)
    store: str
    checkpointer: str
    thread_ttl: str
    is_dev: bool

    @classmethod
    def read(cls) -> Environment:
        """Read the variables of this process."""
        uri, store, checkpointer, thread_ttl = (
            os.environ.get(name, "").strip() for name in (URI, STORE, CHECKPOINTER, THREAD_TTL)
        )
        return cls(uri, store, checkpointer, thread_ttl, os.environ.get(VARIANT) == UNDER_DEV)

    def options(self) -> dict[str, Any]:
        """Return the options of a memory.

        Raises:
            ConfigurationError: A variable is no JSON, or says something that is not understood.
        """
        return _of_store(self.store) | _of_checkpointer(self.checkpointer, self.thread_ttl)


def _of_store(text: str) -> dict[str, Any]:
    name = f"store in langgraph.json ({STORE})"
    given = _object(name, _parsed(name, text), OF_STORE)
    options: dict[str, Any] = {}
    if given.get("ttl"):
        options["ttl"] = given["ttl"]
    if given.get("index"):
        options["index"] = index = _object(f"index of {name}", given["index"])
        if index.get("embed") is not None:
            embed = checked_text(f"embed of {name}", index["embed"], ConfigurationError)
            index["embed"] = named_embedder(embed)
    return options


def _of_checkpointer(text: str, thread_ttl: str) -> dict[str, Any]:
    name = f"checkpointer in langgraph.json ({CHECKPOINTER})"
    given = _object(name, _parsed(name, text), OF_CHECKPOINTER)
    options: dict[str, Any] = {}
    if thread_ttl:
        options |= _of_ttl(THREAD_TTL, _parsed_ttl(thread_ttl))
    elif given.get("ttl"):
        options |= _of_ttl(f"ttl of {name}", given["ttl"])
    if given.get("serde"):
        options["serde"] = _serializer(f"serde of {name}", given["serde"])
    return options


def _parsed_ttl(text: str) -> Any:
    """Parse what, where it is set, stands in the place of ``checkpointer.ttl``: minutes, or the
    same as JSON.
    """
    try:
        return {"default_ttl": float(text)}
    except ValueError:
        return _parsed(THREAD_TTL, text)


def _of_ttl(name: str, given: object) -> dict[str, Any]:
    """Return the life of unused threads, where it is given.

    Raises:
        ConfigurationError: At its end something else than deletion is wanted.
    """
    ttl = _object(name, given, OF_THREAD_TTL)
    if (strategy := ttl.get("strategy", "delete")) != "delete":
        raise ConfigurationError(
            f'{name}: there is no strategy {shown(strategy)}, and "delete" alone, which removes '
            "threads that are not used for default_ttl minutes. MongoSaver.prune keeps the newest "
            "checkpoint of threads"
        )
    return {"thread_ttl": ttl["default_ttl"]} if "default_ttl" in ttl else {}


def _serializer(name: str, given: object) -> JsonPlusSerializer:
    """Make LangGraph's serializer. Without a list of types it revives what it does by default."""
    serde = _object(name, given, OF_SERDE)
    pickles = checked_flag(
        f"pickle_fallback of {name}", serde.get("pickle_fallback", False), ConfigurationError
    )
    with looking_at(name, ConfigurationError):
        types = {option: _allowed(serde[option]) for option in OF_TYPES if option in serde}
        made = JsonPlusSerializer(**types) if "allowed_msgpack_modules" in types else None
        made = made or default_serializer(types.get("allowed_json_modules"))
    made.pickle_fallback = pickles
    return made


def _allowed(modules: Any) -> Any:
    """Return what may be revived: all, nothing, or types by the parts of their paths."""
    if modules is None or modules is True:
        return modules
    if not isinstance(modules, list) or not all(isinstance(path, list) for path in modules):
        raise ConfigurationError(
            'allowed modules are true, null or a list such as [["my_app.state", "Order"]], not '
            f"{shown(modules)}"
        )
    return [tuple(path) for path in modules]


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        raise ConfigurationError(f"{name} is no JSON: {shown(text)}") from None
    except RecursionError:
        raise ConfigurationError(f"{name} is nested too deeply: {shown(text)}") from None


def _object(name: str, given: object, known: Collection[str] = ()) -> dict[str, Any]:
    """Return a JSON object; where its options are known, only with these."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{name} must be a JSON object, not {shown(given)}")
    if known and (unknown := sorted(given.keys() - known)):
        raise ConfigurationError(
            f"Unknown options of {name}: {shown(unknown)}; there are {sorted(known)}"
        )
    return dict(given)
