"""Servers that take few texts in a request, over real HTTP: texts are sent in as many requests as
they need.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import requests
from langchain_core.embeddings import Embeddings

from mongomem.embeddings import Embedder, Vectors, resolve_embedder
from mongomem.embeddings.batches import says_too_many
from support.bag_of_words import bag_of_words
from support.openai_server import REFUSALS, OpenAIServer
from support.waits import HANG_SECONDS

DIMS = 32
MODEL = "text-embedding-3-small"
NS = ("users", "u1")
words = bag_of_words(DIMS)
TEXTS = [f"word{n} of many" for n in range(25)]

WORLDS: dict[str, Callable[[Embedder, list[str]], Vectors]] = {
    "sync": lambda embedder, texts: embedder.embed_documents(texts),
    "async": lambda embedder, texts: asyncio.run(embedder.aembed_documents(texts)),
}


def body_of(texts: list[str]) -> dict[str, Any]:
    return {"model": MODEL, "input": texts, "dimensions": DIMS}


HEADERS = {"authorization": "Bearer test-key"}


class HttpxEmbeddings(Embeddings):
    """A LangChain class that asks by httpx, whose error does not say what the server said."""

    def __init__(self, base_url: str) -> None:
        self.model, self.base_url = MODEL, base_url

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        answer = httpx.post(
            f"{self.base_url}/embeddings", json=body_of(texts), headers=HEADERS, verify=False
        )
        answer.raise_for_status()
        return [row["embedding"] for row in answer.json()["data"]]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class WrappedError(Exception):
    """What a client raises in the place of the error that it met."""


class WrappingEmbeddings(HttpxEmbeddings):
    """A LangChain class that raises an error of its own."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        try:
            return super().embed_documents(texts)
        except httpx.HTTPStatusError as error:
            raise WrappedError("Embedding failed") from error


def by_requests(texts: list[str], base_url: str) -> list[list[float]]:
    answer = requests.post(
        f"{base_url}/embeddings", json=body_of(texts), headers=HEADERS, timeout=HANG_SECONDS
    )
    answer.raise_for_status()
    return [row["embedding"] for row in answer.json()["data"]]


async def in_words_only(texts: list[str], base_url: str) -> list[list[float]]:
    """A function that raises what the server said, without its status."""
    async with httpx.AsyncClient(verify=False) as client:
        answer = await client.post(f"{base_url}/embeddings", json=body_of(texts), headers=HEADERS)
    if answer.is_error:
        raise RuntimeError(answer.text)
    return [row["embedding"] for row in answer.json()["data"]]


EMBEDDERS: dict[str, Callable[[OpenAIServer], Any]] = {
    "openai": lambda _server: f"openai:{MODEL}",
    "langchain": lambda openai_server: HttpxEmbeddings(openai_server.base_url),
    "langchain, wrapped": lambda openai_server: WrappingEmbeddings(openai_server.base_url),
    "function": lambda openai_server: partial(by_requests, base_url=openai_server.base_url),
    "async function": lambda openai_server: partial(in_words_only, base_url=openai_server.base_url),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("kind", "who"),
    [
        *(("openai", who) for who in REFUSALS),
        *(
            (kind, who)
            for kind in ("langchain", "function")
            for who in ("TEI", "Cohere", "vLLM", "a proxy")
        ),
        *(
            (kind, who)
            for kind in ("langchain, wrapped", "async function")
            for who in ("DashScope", "Cohere")
        ),
    ],
)
def test_too_many_texts_are_halved_and_the_size_is_remembered(
    kind: str, who: str, world: str, openai_server: OpenAIServer
) -> None:
    openai_server.most_inputs = 10, who
    embedder = resolve_embedder(EMBEDDERS[kind](openai_server), dims=DIMS)
    np.testing.assert_allclose(WORLDS[world](embedder, TEXTS), words(TEXTS), rtol=1e-6)
    assert openai_server.sizes == [25, 12, 6, 6, 6, 6, 1]
    np.testing.assert_allclose(WORLDS[world](embedder, TEXTS[:13]), words(TEXTS[:13]), rtol=1e-6)
    assert openai_server.sizes[7:] == [6, 6, 1]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", EMBEDDERS)
def test_a_size_that_is_said_is_never_exceeded(
    kind: str, world: str, openai_server: OpenAIServer
) -> None:
    openai_server.most_inputs = 10, "DashScope"
    embedder = resolve_embedder(EMBEDDERS[kind](openai_server), dims=DIMS, batch_size=10)
    np.testing.assert_allclose(WORLDS[world](embedder, TEXTS), words(TEXTS), rtol=1e-6)
    assert openai_server.sizes == [10, 10, 5]


def test_a_size_that_is_said_too_large_is_halved(openai_server: OpenAIServer) -> None:
    openai_server.most_inputs = 5, "TEI"
    resolve_embedder(f"openai:{MODEL}", dims=DIMS, batch_size=8).embed_documents(TEXTS[:16])
    assert openai_server.sizes == [8, 4, 4, 4, 4]


@pytest.mark.parametrize("world", WORLDS)
def test_a_text_that_is_refused_alone_is_raised_as_it_is(
    world: str, openai_server: OpenAIServer
) -> None:
    openai_server.most_inputs = 0, "TEI as OpenAI"
    embedder = resolve_embedder(f"openai:{MODEL}", dims=DIMS)
    with pytest.raises(openai.APIStatusError, match="maximum allowed batch size 0"):
        WORLDS[world](embedder, TEXTS)
    assert openai_server.sizes == [25, 12, 6, 3, 1]
    openai_server.most_inputs = None
    openai_server.requests.clear()
    WORLDS[world](embedder, TEXTS)
    assert openai_server.sizes == [25], "the number of the texts was not why"


@pytest.mark.parametrize("world", WORLDS)
def test_other_refusals_are_not_repeated_in_parts(world: str, openai_server: OpenAIServer) -> None:
    embedder = resolve_embedder(f"openai:{MODEL}", dims=DIMS)
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        WORLDS[world](embedder, [*TEXTS, "tea " * 9000])
    openai_server.fail(400)
    with pytest.raises(openai.BadRequestError, match="Told to fail"):
        WORLDS[world](embedder, TEXTS)
    assert openai_server.sizes == [26, 25]


def test_many_texts_cost_few_refusals(openai_server: OpenAIServer) -> None:
    openai_server.most_inputs = 10, "DashScope"
    texts = [f"word{n}" for n in range(600)]
    vectors = resolve_embedder(f"openai:{MODEL}", dims=DIMS).embed_documents(texts)
    np.testing.assert_allclose(vectors, words(texts), rtol=1e-6)
    refused = [size for size in openai_server.sizes if size > 10]
    assert len(refused) <= 6
    assert len(openai_server.sizes) <= 6 + 600 // 5


def test_callers_at_once_share_what_was_found(openai_server: OpenAIServer) -> None:
    openai_server.most_inputs = 10, "TEI"
    embedder = resolve_embedder(f"openai:{MODEL}", dims=DIMS)
    found: list[Vectors] = []
    threads = [
        threading.Thread(target=lambda: found.append(embedder.embed_documents(TEXTS)), daemon=True)
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert len(found) == 6
    for vectors in found:
        np.testing.assert_allclose(vectors, words(TEXTS), rtol=1e-6)
    assert embedder.batch_size.most == 6


# --- what errors say
# -------------------------------------------------------------------------------


class StatusError(Exception):
    def __init__(self, message: str, **told: Any) -> None:
        super().__init__(message)
        self.__dict__.update(told)


class HostileError(Exception):
    """An error that cannot be looked at."""

    def __str__(self) -> str:
        raise KeyError("no words")

    def __getattr__(self, name: str) -> Any:
        raise LookupError("no attributes")


@pytest.mark.parametrize(
    "error",
    [
        ValueError(
            "batch size is invalid, it should not be larger than 25.: payload.input.contents"
        ),
        ValueError(
            "HTTP error occurred: status_code: 400 \n code: InvalidParameter \n message: batch "
            "size is invalid"
        ),
        StatusError(
            "status_code: 400, body: {'message': 'total number of texts must be at most 96'}",
            status_code=400,
        ),
        StatusError(
            "Malformed input request: #/texts: expected maximum item count: 96, found: 100"
        ),
        StatusError("400 5 instance(s) is allowed per prediction. Actual: 30.", code=400),
        StatusError("input数组最大不得超过64条", status_code=400),
        StatusError("batch_size exceeds 8", response={"ResponseMetadata": {"HTTPStatusCode": 400}}),
        StatusError("Too many inputs. The max number of inputs is 1.", http_status=400),
        StatusError(
            "Invalid 'input': array too long. Expected an array with maximum length 2048",
            status_code=400,
        ),
        StatusError("", status_code=413),
    ],
)
def test_errors_that_say_too_many(error: Exception) -> None:
    assert says_too_many(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(
            "This model's maximum context length is 512 tokens. However, you requested 600 tokens "
            "in the input"
        ),
        ValueError(
            "input (600 tokens) is too large to process. increase the physical batch size "
            "(current: 512)"
        ),
        StatusError("Error code: 429 - Too many requests", status_code=429),
        StatusError("Rate limit reached: too many inputs in this minute", status_code=429),
        StatusError("batch size 33 > maximum allowed batch size 32", status_code=500),
        StatusError("HTTP 503: batch size unknown"),
        StatusError("Input string_too_long", status_code=422),
        StatusError("bad", response={"ResponseMetadata": {"HTTPStatusCode": 400}}),
        RuntimeError("no more credit"),
        KeyError("batch"),
    ],
)
def test_errors_that_say_something_else(error: Exception) -> None:
    assert not says_too_many(error)


def test_an_error_that_cannot_be_looked_at_says_nothing() -> None:
    assert not says_too_many(HostileError())
