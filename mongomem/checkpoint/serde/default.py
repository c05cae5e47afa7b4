"""The default serializer of a saver: LangGraph's, which deserializes data types only. Pure.

A value of msgpack names a module and a name in it, which LangGraph imports and calls when it
deserializes the value. Whoever can write to the database could so have any function called (the
warning in the docstring of ``JsonPlusSerializer``). LangGraph's strict mode forbids all but its own
types, and turns the dataclasses and models of an application into dicts unless the application
lists them; only with ``LANGGRAPH_STRICT_MSGPACK`` set does a graph list those of its state.

So the default here is in between. It deserializes what LangGraph's strict mode does, and beside it
objects of the classes that this serializer writes, as far as the application has imported them. It
imports nothing, and calls no function.
"""

from __future__ import annotations

import ipaddress
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal
from uuid import UUID

from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import STRICT_MSGPACK_ENABLED
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.arguments import shown
from mongomem.errors import ConfigurationError, InvalidInputError

WRITTEN_BY = ("model_dump", "get_secret_value", "dict", "_asdict")
"""The methods by which ``JsonPlusSerializer`` writes an object: pydantic's models and secrets, and
named tuples."""

DATA_TYPES: tuple[type, ...] = (
    *(Enum, set, frozenset, deque, UUID, Decimal, PurePath, date, time, timedelta, tzinfo),
    *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv6Address, ipaddress.IPv6Network),
)
"""The classes of which, and of whose subclasses, it writes objects by themselves; dataclasses come
beside them."""


class ImportedDataTypes:
    """The data types of the modules that are imported now, as (module, name), for ``in``."""

    def __contains__(self, key: tuple[str, str]) -> bool:
        module, name = key
        return is_data_type(getattr(sys.modules.get(module), name, None))


def is_data_type(found: object) -> bool:
    """Say whether something is a class of which the serializer writes objects."""
    if not isinstance(found, type):
        return False
    is_written = any(callable(getattr(found, method, None)) for method in WRITTEN_BY)
    return is_written or is_dataclass(found) or issubclass(found, DATA_TYPES)


def default_serializer(
    allowed_json_modules: Iterable[tuple[str, ...]] | Literal[True] | None = None,
) -> JsonPlusSerializer:
    """Make the serializer that this module tells of; LangGraph's strict one where the environment
    asks for that.

    Args:
        allowed_json_modules: Types that JSON of earlier versions of LangGraph may name; None: none.
    """
    serde = JsonPlusSerializer(
        allowed_json_modules=allowed_json_modules, allowed_msgpack_modules=None
    )
    make_hook: Any = getattr(jsonplus, "_create_msgpack_ext_hook", None)
    if STRICT_MSGPACK_ENABLED or make_hook is None:
        return serde
    serde._unpack_ext_hook = make_hook(ImportedDataTypes())
    return serde


def checked_allowlist(allowlist: object) -> list[Any]:
    """Return the types of an allowlist.

    Raises:
        InvalidInputError: It is no collection of classes and pairs of module and name.
    """
    if isinstance(allowlist, str | bytes | Mapping) or not isinstance(allowlist, Collection):
        raise InvalidInputError(f"the allowlist must be a list of types, not {shown(allowlist)}")
    try:
        types = [*allowlist]
    except Exception as error:  # whatever a class of the caller does
        raise InvalidInputError(
            f"the allowlist must be a list that can be read, not {shown(allowlist)}"
        ) from error
    for one in types:
        if not isinstance(one, type) and not _is_path(one):
            raise InvalidInputError(
                f"an allowlist holds types, and tuples such as (module, name), not {shown(one)}"
            )
    return types


def _is_path(one: object) -> bool:
    """Say whether something is a tuple of strings, such as (module, name)."""
    return isinstance(one, tuple) and {*map(type, one)} == {str}


def checked_serde(serde: Any) -> SerializerProtocol:
    """Return the serializer of a saver, the default one for None.

    Raises:
        ConfigurationError: It has not the methods of one.
    """
    if serde is None:
        return default_serializer()
    pairs = (("dumps_typed", "loads_typed"), ("dumps", "loads"))  # LangGraph takes either
    if isinstance(serde, type) or not any(
        all(callable(getattr(serde, name, None)) for name in pair) for pair in pairs
    ):
        raise ConfigurationError(
            f"serde must be a serializer such as JsonPlusSerializer(), not {shown(serde)}"
        )
    checked: SerializerProtocol = serde
    return checked
