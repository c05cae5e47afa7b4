"""How many texts an embedder is sent at once: what the user says, or what turns out to be too many.

Servers of embeddings differ in how much a request may hold (DashScope 10 texts, TEI 32, Cohere 96,
OpenAI 2,048), say so nowhere that a program could ask, and refuse more with an error of their own.
So texts go in one request until that is refused for their number; then in halves, and no request of
this process is as large again.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from mongomem.errors import MongomemError

REFUSING = frozenset({400, 413, 422})
"""HTTP statuses by which servers refuse a request for what it holds."""

TOO_LARGE = 413
"""The HTTP status that says by itself that a request holds too much."""

_TEXTS = (
    r"(?:inputs?|texts?|items?|documents?|instances?|sentences?|strings?"
    r"|elements?|entries|embeddings)\b"
)
_TOO_MANY = re.compile(
    rf"""(?<!physical\ )\bbatch[\ _-]?size      # TEI, SiliconFlow, DashScope, Voyage
    | \btoo\ many\ {_TEXTS}                     # Azure OpenAI
    | \b(?:number|count)\ of\ {_TEXTS}          # Cohere
    | \bat\ most\ \d+\ {_TEXTS}                 # pydantic, so vLLM and Mistral
    | \bat\ most\ \d+\ requests\ can\ be\ in\ one\ batch\b        # Gemini
    | \bmaximum\ item\ count                    # Bedrock
    | \b\d+\ instance\(s\)\ is\ allowed         # Vertex
    | \barray(?:\ is)?\ too\ long | \barray_above_max_length | \btoo_long\b
    | 数组最大 | 不得超过\s*\d+\s*条            # Zhipu
    """,
    re.IGNORECASE | re.VERBOSE,
)
_STATUS = re.compile(
    r"\b(?:status(?:[_ ]code)?|http(?:/[\d.]+)?|error code)\W{1,3}([1-5]\d\d)\b", re.IGNORECASE
)

LONGEST_ANSWER = 10_000
"""How much of the text of an error is looked at."""

MOST_CAUSES = 5


@dataclass(slots=True)
class BatchSize:
    """How many texts a request may hold. Shared by all callers of an embedder.

    Attributes:
        most: None: any number, as far as is known.
    """

    most: int | None = None


def in_batches(texts: list[str], size: BatchSize) -> Generator[list[str], Any, list[Any]]:
    """Yield texts in batches, each to be answered by what is sent in; return the answers.

    An error that is thrown in and says that there were too many has them yielded anew in halves,
    and `size` keeps that. Every other is raised, and so is one of a text that is refused alone:
    then its number was not the reason.
    """
    answers: list[Any] = []
    before, begin = size.most, 0
    while begin < len(texts):
        batch = texts[begin : begin + (size.most or len(texts))]
        try:
            answer = yield batch
        except Exception as error:
            if not says_too_many(error):
                raise
            if len(batch) == 1:
                size.most = before
                raise
            size.most = min(len(batch) // 2, size.most or len(batch))
        else:
            answers.append(answer)
            begin += len(batch)
    return answers


def says_too_many(error: BaseException) -> bool:
    """Say whether an embedder refused a request because of how many texts it held, by HTTP status
    and words.

    Clients wrap the errors of others, and some tell no status: so causes are looked at too, and
    words alone will do where nothing contradicts them.
    """
    if isinstance(error, MongomemError):
        return False
    causes = list(_causes(error))
    statuses = {status for cause in causes if (status := _status(cause)) is not None}
    if not statuses <= REFUSING:
        return False
    return TOO_LARGE in statuses or any(_TOO_MANY.search(_words(cause)) for cause in causes)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(MOST_CAUSES):
        if error is not None:
            yield error
            error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    """Read the HTTP status: clients put it on the error, on its response (botocore: a dict), or
    only into words.
    """
    response = _attribute(error, "response")
    if isinstance(response, dict):
        return _status_of_botocore(response)
    for holder, names in (
        (error, ("status_code", "http_status", "status", "code")),
        (response, ("status_code",)),
    ):
        for name in names:
            value = _attribute(holder, name)
            if _is_status(value):
                return int(value)
    found = _STATUS.search(_words(error))
    return int(found[1]) if found else None


def _is_status(value: object) -> bool:
    return isinstance(value, int) and 100 <= value <= 599


def _status_of_botocore(response: dict[Any, Any]) -> int | None:
    metadata = response.get("ResponseMetadata")
    told: Any = metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    return told if isinstance(told, int) else None


def _words(error: BaseException) -> str:
    """Collect what an error says, and the body of the response it holds, which ``requests`` and
    ``httpx`` leave out.
    """
    said = (_text(error), _text(_attribute(_attribute(error, "response"), "text")))
    return "\n".join(text[:LONGEST_ANSWER] for text in said)


def _text(value: Any) -> str:
    try:
        return "" if value is None else str(value)
    except Exception:  # whatever the error of somebody else does
        return ""


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # httpx.ResponseNotRead, for one
        return None
