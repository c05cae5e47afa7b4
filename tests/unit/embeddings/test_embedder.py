"""Every kind of embedder in the sync and the async world, functions of the user, and what answers
are refused.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda

from mongomem.embeddings import Embedder, resolve_embedder
from mongomem.errors import DimensionMismatchError, InvalidInputError, UsageError
from support.bag_of_words import bag_of_words
from support.openai_server import OpenAIServer
from support.waits import HANG_SECONDS

DIMS = 32
SMALL = "openai:text-embedding-3-small"
words = bag_of_words(DIMS)


async def words_async(texts: list[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return words(texts)


class CallableObject:
    """An embedding function with state, sync."""

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return words(texts)


class AsyncCallableObject:
    """An embedding function with state, async."""

    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return await words_async(texts)


class WordEmbeddings(Embeddings):
    """A LangChain class that remembers which of its four methods was called."""

    def __init__(self, model: str = "") -> None:
        self.model, self.calls = model, []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append("embed_documents")
        return words(texts)

    def embed_query(self, text: str) -> list[float]:
        self.calls.append("embed_query")
        return words([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append("aembed_documents")
        return words(texts)

    async def aembed_query(self, text: str) -> list[float]:
        self.calls.append("aembed_query")
        return words([text])[0]


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Run `call` in a thread of its own, and fail where it does not end: a deadlock must not hang
    the suite.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"no answer within {seconds} s"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def blocking(embedder: Embedder, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return embedder.embed_documents(texts), embedder.embed_query(texts[0])


async def awaited(embedder: Embedder, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return await embedder.aembed_documents(texts), await embedder.aembed_query(texts[0])


async def blocking_in_a_loop(embedder: Embedder, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return blocking(embedder, texts)


WORLDS = {
    "sync": blocking,
    "async": lambda *call: asyncio.run(awaited(*call)),
    "sync in a running loop": lambda *call: asyncio.run(blocking_in_a_loop(*call)),
}

EMBEDDERS = {
    "function": words,
    "numpy": lambda texts: np.array(words(texts)),
    "async function": words_async,
    "partial of async": partial(words_async),
    "lambda of async": lambda texts: words_async(texts),
    "object": CallableObject(),
    "async object": AsyncCallableObject(),
    "langchain": WordEmbeddings(),
    "EmbeddingsLambda": EmbeddingsLambda(words),
    "EmbeddingsLambda of async": EmbeddingsLambda(words_async),
    "openai": SMALL,
    "local": "local",
}


# Every kind in every world


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", EMBEDDERS)
def test_every_kind_answers_in_every_world(
    kind: str, world: str, openai_server: OpenAIServer
) -> None:
    dims = 64 if kind == "local" else DIMS
    embedder = resolve_embedder(EMBEDDERS[kind], dims=dims, model="test")
    documents, query = within(10, lambda: WORLDS[world](embedder, ["I like tea", "", "日本 🗾"]))
    assert documents.dtype == query.dtype == np.float32
    assert (documents.shape, query.shape) == ((3, dims), (dims,))
    np.testing.assert_allclose(documents[0], query, rtol=1e-6)
    if kind not in ("openai", "local"):
        np.testing.assert_allclose(query, words(["I like tea"])[0], rtol=1e-6)


def test_no_text_is_no_call() -> None:
    embeddings = WordEmbeddings()
    embedder = resolve_embedder(embeddings, dims=DIMS)
    assert embedder.embed_documents([]).shape == (0, DIMS)
    assert asyncio.run(embedder.aembed_documents([])).shape == (0, DIMS)
    assert embeddings.calls == []


def test_dims_may_be_left_open() -> None:
    embedder = resolve_embedder(words, dims=None)
    assert embedder.dims is None
    assert embedder.embed_documents(["a", "b"]).shape == (2, DIMS)
    assert embedder.embed_documents([]).shape == (0, 0)


# Functions and LangChain


def test_langchain_methods_are_used_natively() -> None:
    embeddings = WordEmbeddings()
    embedder = resolve_embedder(embeddings, dims=DIMS)
    blocking(embedder, ["a"])
    asyncio.run(awaited(embedder, ["a"]))
    assert embeddings.calls == [
        "embed_documents",
        "embed_query",
        "aembed_documents",
        "aembed_query",
    ]


async def test_a_sync_function_does_not_block_the_loop() -> None:
    ticked = threading.Event()

    def waits(texts: list[str]) -> list[list[float]]:
        assert ticked.wait(5), "the loop stood still"
        return words(texts)

    asyncio.get_running_loop().call_later(0.01, ticked.set)
    assert (await resolve_embedder(waits, dims=DIMS, model="test").aembed_query("a")).shape == (
        DIMS,
    )


def test_an_async_function_serves_many_threads_at_once() -> None:
    together = 8
    arrived: list[threading.Thread] = []
    everyone = asyncio.Event()  # belongs to the loop that first waits for it

    async def waits_for_all(texts: list[str]) -> list[list[float]]:
        arrived.append(threading.current_thread())
        if len(arrived) == together:
            everyone.set()
        await everyone.wait()
        return words(texts)

    embedder = resolve_embedder(waits_for_all, dims=DIMS, model="test")
    threads = [
        threading.Thread(target=embedder.embed_query, args=("a",), daemon=True)
        for _ in range(together)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert len(set(arrived)) == 1


def test_an_async_function_that_would_wait_for_itself_is_told_so() -> None:
    async def recursive(texts: list[str]) -> list[list[float]]:
        return [embedder.embed_query(text).tolist() for text in texts]

    embedder = resolve_embedder(recursive, dims=DIMS, model="test")
    with pytest.raises(UsageError, match="await the async twin"):
        within(10, lambda: embedder.embed_query("a"))


def test_an_error_of_a_function_reaches_the_caller_as_it_is() -> None:
    async def fails(texts: list[str]) -> list[list[float]]:
        raise KeyError("mine")

    embedder = resolve_embedder(fails, dims=DIMS)
    with pytest.raises(KeyError, match="mine"):
        embedder.embed_documents(["a"])
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(embedder.aembed_documents(["a"]))


def test_an_async_function_works_in_a_forked_child_and_leaves_no_warning() -> None:
    program = """
import os, sys
from mongomem.embeddings import resolve_embedder

async def embed(texts):
    return [[1.0] for _ in texts]

embedder = resolve_embedder(embed, dims=1)
assert embedder.embed_query("a").tolist() == [1.0]
if hasattr(os, "fork"):
    if not (child := os.fork()):
        os._exit(0 if embedder.embed_query("a").tolist() == [1.0] else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    # From 3.12 on Python warns of any fork beside threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    ended = subprocess.run(
        command, timeout=HANG_SECONDS, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# What is checked


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ([[1.0, 2.0]], DimensionMismatchError, "test: expected 3 dimensions, got 2"),
        ([[]], DimensionMismatchError, "expected 3 dimensions, got 0"),
        ([[[1.0, 2.0, 3.0]]], DimensionMismatchError, "got an array of shape"),
        ([1.0], DimensionMismatchError, "got an array of shape"),
        ([[1.0, 2.0, 3.0]] * 2, InvalidInputError, "answered 1 texts with 2 vectors"),
        ([], InvalidInputError, "answered 1 texts with 0 vectors"),
        ([[1.0, float("nan"), 3.0]], InvalidInputError, "NaN"),
        ([[1.0, float("inf"), 3.0]], InvalidInputError, "NaN or infinity"),
        ([[1.0, 1e39, 3.0]], InvalidInputError, "NaN or infinity"),
        ([[1.0, None, 3.0]], InvalidInputError, "NaN"),
        (None, InvalidInputError, "one vector of numbers per text"),
        ([["a", "b", "c"]], InvalidInputError, "one vector of numbers per text"),
    ],
)
def test_a_wrong_answer_is_refused(answer: Any, error: type[Exception], message: str) -> None:
    embedder = resolve_embedder(lambda texts: answer, dims=3, model="test")
    with pytest.raises(error, match=message):
        embedder.embed_documents(["a"])
    with pytest.raises(error, match=message):
        embedder.embed_query("a")
    with pytest.raises(error, match=message):
        asyncio.run(embedder.aembed_documents(["a"]))


def test_vectors_of_one_call_must_agree_where_dims_are_open() -> None:
    with pytest.raises(DimensionMismatchError, match="expected 2 dimensions, got 1"):
        resolve_embedder(
            lambda texts: [[1.0, 2.0], [1.0]], dims=None, model="test"
        ).embed_documents(["a", "b"])


def test_the_vectors_of_a_function_stay_its_own() -> None:
    cached = np.ones((1, 3), dtype=np.float32)
    resolve_embedder(lambda texts: cached, dims=3, model="test").embed_documents(["a"])[:] = 0
    assert cached.all()
