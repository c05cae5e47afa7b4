"""Identity keys: metadata keys that say whose a thread is, and what identifies somebody. Pure.

The keys are those of ``metadata_indexes``, ``user_id`` unless told otherwise. What identifies
somebody under one of them is one string everywhere: in the readable metadata, in filters, and in
the `members` of a thread document, which remembers everybody a thread was ever put for. Where that
may not stand readable it is a digest, keyed with the secret of the thread.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_checkpoint_metadata

from mongomem.arguments import checked_mapping, shown, text_of
from mongomem.checkpoint.documents.metadata import ANY, LARGEST_INTEGER, contains, superset_query
from mongomem.engine.commands import Document
from mongomem.errors import InvalidInputError

LONGEST_IDENTITY = 2048
"""In characters: a longer one might find no room in the readable metadata."""

MOST_MEMBERS = 1000
"""How many members a thread document names by key. Each is an index entry that every put on the
thread updates."""

Member: TypeAlias = str | bytes
"""Somebody a thread was put for: the string that identifies them, or its keyed digest."""

Members: TypeAlias = Mapping[str, frozenset[Member]]
"""The members of a thread, by identity key."""

TOO_MANY: Member = b""
"""Stands among the members of a thread that has more than `MOST_MEMBERS`: its checkpoints know the
others."""

OF_A_REQUEST = frozenset(
    {
        *("langgraph_request_id", "langgraph_auth_user"),
        *("langgraph_auth_user_id", "langgraph_auth_permissions"),
    }
)
"""What a LangGraph server adds to the config of a run and keeps in no checkpoint of its own savers
(langgraph-api 0.16): it tells of one request."""

RUN = "run_id"
"""The metadata key that names the run which made a checkpoint."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Integers as ``str`` writes them, up to a few more than BSON holds."""


def identity(value: object) -> str | None:
    """Return the string that identifies the same as `value`; None for what identifies nobody, as
    True and 7.0.

    Without NUL characters, which LangGraph takes from metadata (``get_checkpoint_metadata``).
    """
    text = text_of(value)
    try:
        return None if text is None else text.encode().decode().replace("\0", "")
    except UnicodeEncodeError:  # a surrogate is no character
        return None


def forms_of(text: str) -> list[str | int]:
    """Return the forms in which metadata may hold what identifies somebody, or a run: the string,
    and the integer that it stands for. Under identity keys the first format had both.
    """
    number = int(text) if _INTEGER.fullmatch(text) else LARGEST_INTEGER + 1
    return [text, number] if abs(number) <= LARGEST_INTEGER else [text]


@dataclass(frozen=True, slots=True)
class NamedMetadata:
    """The metadata of a checkpoint in full, and whom the call named by identity key."""

    metadata: CheckpointMetadata
    by_key: Mapping[str, tuple[str, ...]]


def named_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata, keys: Collection[str]
) -> NamedMetadata:
    """Return the metadata of a checkpoint as LangGraph makes it, and whom it names.

    LangGraph drops what is no string or number from a config, UUIDs for one; what identifies
    somebody is kept here. What tells of a request is left out unless it is an identity key.

    Raises:
        InvalidInputError: A value under an identity key can identify nobody, as a list or an
            object.
    """
    own = _source(metadata)
    passing = OF_A_REQUEST.difference(keys)
    run, place = (_source(config.get(part), passing) for part in ("metadata", "configurable"))
    full: dict[str, Any] = {
        **get_checkpoint_metadata({"metadata": run, "configurable": place}, cast("Any", own))
    }
    sources = (own, run, place)
    by_key = {
        key: tuple(_named(key, [source[key] for source in sources if key in source]))
        for key in keys
    }
    kept = {
        key: found[0] for key, found in by_key.items() if found and not _is_plain(full.get(key))
    }
    return NamedMetadata(cast("CheckpointMetadata", full | _run(full) | kept), by_key)


def _run(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the run that metadata names by something else than a string or a number, as a UUID, by
    its string: ``delete_for_runs`` looks for that.
    """
    given = metadata.get(RUN)
    text = None if _is_plain(given) else identity(given)
    return {} if text is None else {RUN: text}


def _source(values: object, without: Iterable[str] = ()) -> dict[Any, Any]:
    """Return what metadata comes from in a dict of its own, its keys plain strings whatever
    subclasses of them do.
    """
    fields = {} if values is None else checked_mapping("metadata", values)
    for key in without:
        fields.pop(key, None)
    if set(map(type, fields)) <= {str}:
        return fields
    return {
        str.__str__(key) if isinstance(key, str) else key: value for key, value in fields.items()
    }


def _named(key: str, values: Iterable[object]) -> dict[str, None]:
    """Return, in order, whom these values identify; true, false and floats are what they are, and
    nobody.
    """
    found: dict[str, None] = {}
    for value in values:
        if value is None or isinstance(value, bool | float):
            continue
        found[checked_identity(key, value)] = None
    return found


def checked_identity(key: str, value: object) -> str:
    """Return the string that identifies the same as a value under an identity key.

    Raises:
        InvalidInputError: It identifies nobody, or is longer than `LONGEST_IDENTITY`.
    """
    text = identity(value)
    if text is None or len(text) > LONGEST_IDENTITY:
        kinds = (
            f"a string of at most {LONGEST_IDENTITY} characters, an int, a UUID, an ObjectId "
            "or an enum of these"
        )
        raise InvalidInputError(
            f"{key} says whose the thread is: it must be {kinds}, not {shown(value)}"
        )
    return text


def _is_plain(value: object) -> bool:
    """Say whether metadata may stay as LangGraph has it."""
    return type(value) in (str, bool, float) or (
        type(value) is int and abs(value) <= LARGEST_INTEGER
    )


def identified(metadata: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return metadata in which what identifies somebody is its one string."""
    found = {key: identity(metadata[key]) for key in keys if key in metadata}
    return {**metadata, **{key: text for key, text in found.items() if text is not None}}


def member(text: str, name_key: bytes, *, is_clear: bool) -> Member:
    """Return what stands among the members of a thread: the identity, or its digest under the
    secret of the thread.
    """
    return (
        text
        if is_clear
        else blake2b(text.encode(), digest_size=16, key=name_key, person=b"member").digest()
    )


def additions(known: Members, new: Mapping[str, Iterable[Member]]) -> Members:
    """Return who is to be added to the members that are known, by the keys that there are; nothing
    for most puts.

    Where they would be too many, the mark that says so is added instead.
    """
    found = {key: frozenset(new.get(key, ())) - members for key, members in known.items()}
    return {
        key: more
        if len(known[key]) + len(more) <= MOST_MEMBERS
        else frozenset({TOO_MANY}) - known[key]
        for key, more in found.items()
    }


def together(known: Members, more: Members) -> Members:
    """Return the members with those that were added."""
    return {key: members | more.get(key, frozenset()) for key, members in known.items()}


def split_filter(
    wanted: Mapping[str, Any], keys: Collection[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what of a filter identifies somebody under an identity key, and the rest."""
    found = {key: identity(wanted[key]) for key in keys if key in wanted}
    by_key = {key: text for key, text in found.items() if text is not None}
    return by_key, {key: value for key, value in wanted.items() if key not in by_key}


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Decide whether the metadata of a checkpoint contains a filter, whatever form an identity has
    in either.
    """
    by_key, rest = split_filter(wanted, keys)
    same = all(identity(metadata.get(key)) == text for key, text in by_key.items())
    return same and contains(metadata, rest)


def narrowed(wanted: Mapping[str, Any], keys: Sequence[str]) -> list[Document]:
    """Return conditions that every checkpoint document whose metadata matches a filter meets."""
    by_key, rest = split_filter(wanted, keys)
    named = [
        {
            "$or": [
                {f"metadata.{key}": {"$in": forms_of(text)}},
                {"metadata_omitted": {"$in": [key, ANY]}},
            ]
        }
        for key, text in by_key.items()
    ]
    return [*named, superset_query(rest)]
