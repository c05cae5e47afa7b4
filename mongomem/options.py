"""Options by name: which a class has, and what is said of one that it does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from mongomem.arguments import checked_mapping, shown
from mongomem.errors import ConfigurationError

NOT_OPTIONS = frozenset({"self", "client"})

OTHER_NAMES: Mapping[str, str] = {
    "auto_index": "auto_setup",
    "checkpoint_collection_name": "collection_prefix",
    "collection": "collection_prefix",
    "collection_name": "collection_prefix",
    "database": "db_name",
    "database_name": "db_name",
    "db": "db_name",
    "dims": "index",
    "embed": "index",
    "embedding": "index",
    "embeddings": "index",
    "fields": "index",
    "index_config": "index",
    "prefix": "collection_prefix",
    "serializer": "serde",
    "ttl_config": "ttl",
    "writes_collection_name": "collection_prefix",
}
"""What other checkpointers and stores call an option, and what it is called here
(langgraph-checkpoint-mongodb 0.5, langgraph-store-mongodb 0.4, langgraph-checkpoint-postgres
3.2)."""


def names_of(made: Callable[..., Any]) -> list[str]:
    """List the options of a class."""
    return [name for name in inspect.signature(made).parameters if name not in NOT_OPTIONS]


def unknown_option(
    name: str, option: str, own: Iterable[str], held: Mapping[str, Iterable[str]]
) -> str:
    """Say that there is no such option, and which was meant.

    Args:
        name: What was called, as the user wrote it.
        option: What it was given.
        own: Its options.
        held: By the names of options that hold options, those.
    """
    known = [*own]
    spelled = _spelled(known, held)
    closest = _closest(option, spelled)
    guess = "" if closest is None else f" Did you mean {spelled[closest]}?"
    return f"{name} has no option {shown(option)}.{guess} There are: {', '.join(known)}."


def _spelled(own: Iterable[str], held: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return by its name how each option is passed, also one that another option holds."""
    inner = {one: f"{holder}={{{one!r}: ...}}" for holder, names in held.items() for one in names}
    return inner | {one: f"{one}=..." for one in own}


def _closest(option: str, names: Collection[str]) -> str | None:
    """Return which of the names was meant: that of another package for it, else one alike."""
    if OTHER_NAMES.get(option) in names:
        return OTHER_NAMES[option]
    return next(iter(get_close_matches(option, names, 1)), None)


def checked_options(
    name: str, options: object, made: Callable[..., Any], without: Iterable[str]
) -> dict[str, Any]:
    """Return the options that are to be handed on to a class.

    Raises:
        ConfigurationError: They are no mapping, or the class has no such option, or may not be
            given it here.
    """
    if options is None:
        return {}
    given = checked_mapping(name, options, ConfigurationError)
    own = [one for one in names_of(made) if one not in without]
    found: dict[str, Any] = {}
    for option, value in given.items():
        text = str.__str__(option) if isinstance(option, str) else shown(option)
        if text not in own:
            raise ConfigurationError(unknown_option(name, text[:80], own, {}))
        found[text] = value
    return found
