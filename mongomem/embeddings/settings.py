"""What an embedder holds: the settings of an object, a closure or a partial, and how they are
written in a name.

Left out are keys, tokens and whatever else may be secret, and what says how a model is asked and
not which one it is.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel

from mongomem.arguments import without_secrets

SECRET = re.compile(r"key|token|secret|passw|pwd|credential|auth|bearer|cookie|certificate")
"""What is in the names of settings that are never read."""

ASIDE = re.compile(
    r"""(?:^|[^a-z])(?:
    timeouts? | retr(?:y|ies|ying) | backoff | wait | sleep | interval | rate | limits?
    | batch(?:es)? | chunks? | concurren(?:cy|t) | parallel | threads? | workers? | process(?:es)?
    | pool | locks? | loop | prox(?:y|ies) | headers? | agent | users? | org(?:anization)? | project
    | location | region | keep | alive | cached? | caches | devices? | gpus? | api_version
    | api_type | tiktoken | skip | check | validate | verbose | show | progress | callbacks? | tags
    | metadata
    | log(?:s|ger)? | debug | profile | counts? | counter | calls | hits | misses | requests | usage
    | stats | cost
    )(?:[^a-z]|$)""",
    re.VERBOSE,
)
"""What is in the names of settings that do not tell one model from another."""

OPENAI = "api.openai.com"

LONGEST_TEXT = 200
LONGEST_INTEGER_BITS = 256
MOST_ELEMENTS = 100

_PLAIN = re.compile(r"[\w.:/@+-]+(?: [\w.:/@+-]+)*", re.ASCII)


def settings_of(holder: Any) -> dict[str, Any]:
    """Return what an object holds, by name: of a pydantic model the fields that are not as by
    default.

    So a release of a provider's package that adds a setting changes no name. What is called a model
    is kept also where it is the default: the next release may have another one.
    """
    if isinstance(holder, BaseModel):
        private = {
            name: value
            for name, value in (holder.__pydantic_private__ or {}).items()
            if _wraps(value)
        }
        return {**private, **dict(_changed_fields(holder))}
    slots = {name for kind in type(holder).__mro__ for name in _slots(kind)}
    return {
        **{name: getattr(holder, name, None) for name in slots},
        **getattr(holder, "__dict__", {}),
    }


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Return the values that the arguments of a function have by default."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return {
        one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty
    }


def cells_of(function: FunctionType) -> dict[str, Any]:
    """Return what a closure holds of the functions around it."""
    return {
        name: cell.cell_contents
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
    }


def bound_by(bound: partial[Any]) -> dict[str, Any]:
    """Return the arguments that a partial binds, by the names that they have in its function where
    it tells them.
    """
    try:
        placed = dict(inspect.signature(bound.func).bind_partial(*bound.args).arguments)
    except (TypeError, ValueError):
        placed = {f"argument {place}": value for place, value in enumerate(bound.args)}
    return {**placed, **bound.keywords}


def is_aside(name: str, value: Any) -> bool:
    """Say whether a setting stays out of names: nothing is set, it may be secret, or it tells no
    model.
    """
    lowered = name.lower()
    return (
        value is None
        or (isinstance(value, (str, list, dict)) and not value)
        or (isinstance(value, str) and (not value.strip() or without_secrets(value) != value))
        or type(value).__name__ in ("SecretStr", "SecretBytes")
        or bool(SECRET.search(lowered) or ASIDE.search(lowered))
        or (isinstance(value, str) and url_address(value) == OPENAI)
    )


def written(value: Any, *, containers: bool = False) -> str | None:
    """Write a simple value, alike in every process; nothing where it holds nothing, None where it
    is not simple.

    Lists and dicts are simple only as settings of a pydantic model: in other places they are where
    things are gathered.
    """
    if isinstance(value, Enum):
        return written(value.value)
    if isinstance(value, str):
        return _text(url_address(value) or value)
    if value is None or isinstance(value, (bool, int, float)):
        return _number(value)
    if containers and isinstance(value, Mapping):
        return _listed([(f"{name}:", each) for name, each in _kept(value)], "{}")
    if isinstance(value, tuple) or (containers and isinstance(value, list)):
        return _listed([("", each) for each in value], "[]")
    return None


def url_address(text: str) -> str | None:
    """Return the address in a URL without user, password and query, `OPENAI` for all of OpenAI's
    own; None: no URL.
    """
    if not text.startswith(("http://", "https://")):
        return None
    try:
        parts = urlsplit(text)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    if host == OPENAI or host.endswith(f".{OPENAI}"):
        return OPENAI
    return f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/")


def address_of_client(client: Any) -> str | None:
    """Return the address that a client of the package ``openai``, or part of one, was made with."""
    if type(client).__module__.partition(".")[0] != "openai":
        return None
    url = getattr(client, "base_url", None) or getattr(
        getattr(client, "_client", None), "base_url", None
    )
    address = url_address(str(url))
    return None if address == OPENAI else address


def digest(text: str) -> str:
    """Name a text that is too long to be written."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _changed_fields(model: BaseModel) -> Iterable[tuple[str, Any]]:
    for name, field in type(model).model_fields.items():
        value = model.__dict__.get(name)
        if name.startswith("model") or not _is(value, field.default):
            yield name, value


def _is(value: Any, default: Any) -> bool:
    """Say whether a setting is as by default. Objects of other kinds are never asked: they may
    answer with arrays.
    """
    simple = isinstance(value, (str, int, float, list, dict, tuple, Enum))
    return value is default or (simple and type(value) is type(default) and bool(value == default))


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _wraps(value: Any) -> bool:
    return isinstance(value, Embeddings)


def _kept(settings: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Choose the settings in a mapping that are in names, in the order of theirs."""
    kept = {
        name: each
        for name, each in settings.items()
        if isinstance(name, str) and not is_aside(name, each)
    }
    return [(name, kept[name]) for name in sorted(kept)]


def _listed(named: list[tuple[str, Any]], brackets: str) -> str | None:
    texts = [(name, written(value, containers=True)) for name, value in named[:MOST_ELEMENTS]]
    if len(named) > MOST_ELEMENTS or any(text is None for _, text in texts):
        return None
    inner = ",".join(f"{name}{text}" for name, text in texts)
    return f"{brackets[0]}{inner}{brackets[1]}" if texts else ""


def _number(number: float | None) -> str:
    if number is None or isinstance(number, bool):
        return repr(number)
    if isinstance(number, int):
        return (
            repr(int(number))
            if number.bit_length() <= LONGEST_INTEGER_BITS
            else digest(hex(number))
        )
    return repr(float(number))


def _text(text: str) -> str:
    """Write a text so that it cannot be taken for several settings, and shortly."""
    if len(text) > LONGEST_TEXT:
        return f"{_text(text[:40])}...{digest(text)}"
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
