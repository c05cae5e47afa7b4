"""The choice of an embedder by what the user passes, its name for the stored index, and what is
refused.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import langgraph.store.base.embed as langgraph_embed
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.store.base.embed import EmbeddingsLambda

from mongomem.embeddings import resolve_embedder
from mongomem.errors import ConfigurationError
from support.bag_of_words import bag_of_words

DIMS = 32
SMALL = "openai:text-embedding-3-small"
words = bag_of_words(DIMS)


async def words_async(texts: list[str]) -> list[list[float]]:
    return words(texts)


class CallableObject:
    """An embedding function with state."""

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return words(texts)


class WordEmbeddings(DeterministicFakeEmbedding):
    """A LangChain class that tells its model, as those of the providers do."""

    size: int = DIMS
    model: str = ""


def test_fingerprints_name_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(embed: Any) -> str:
        return resolve_embedder(embed, dims=None).fingerprint

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert fingerprint(SMALL) == "openai:text-embedding-3-small"
    assert fingerprint("local") == fingerprint("local:wordllama") == "local:wordllama-256"
    assert fingerprint(words_async) == "function:test_resolve.words_async"
    assert (
        fingerprint(partial(words_async))
        == fingerprint(EmbeddingsLambda(words_async))
        == fingerprint(words_async)
    )
    assert fingerprint(CallableObject()) == "function:test_resolve.CallableObject"
    assert fingerprint(WordEmbeddings()) == "langchain:WordEmbeddings"
    assert fingerprint(WordEmbeddings(model="tiny")) == "langchain:WordEmbeddings(tiny)"


@pytest.mark.parametrize("embed", [None, 7, {"embed": "openai"}, WordEmbeddings])
def test_what_is_no_embedder_is_refused(embed: Any) -> None:
    with pytest.raises(ConfigurationError, match="embed must be"):
        resolve_embedder(embed, dims=3)


@pytest.mark.parametrize("dims", [0, -1])
def test_dims_must_be_positive(dims: int) -> None:
    with pytest.raises(ConfigurationError, match="positive"):
        resolve_embedder(words, dims=dims)


# Other providers by name


@pytest.fixture
def langchain_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Put a module in the place of ``langchain.embeddings``, which is no dependency."""

    def install(init_embeddings: Any) -> None:
        module = types.ModuleType("langchain.embeddings")
        module.init_embeddings = init_embeddings
        monkeypatch.setitem(sys.modules, "langchain", types.ModuleType("langchain"))
        monkeypatch.setitem(sys.modules, "langchain.embeddings", module)
        langgraph_embed._get_init_embeddings.cache_clear()

    yield install
    langgraph_embed._get_init_embeddings.cache_clear()


def test_other_providers_come_from_langchain(langchain_with: Callable[[Any], None]) -> None:
    langchain_with(lambda name: WordEmbeddings(model=name.partition(":")[2]))
    embedder = resolve_embedder("cohere:embed-v4", dims=DIMS)
    assert embedder.fingerprint == "langchain:WordEmbeddings(embed-v4)"
    assert embedder.embed_query("a").shape == (DIMS,)


def test_the_error_of_langchain_is_passed_on(langchain_with: Callable[[Any], None]) -> None:
    def refuse(name: str) -> Awaitable[None]:
        raise ImportError("Please install langchain-cohere")

    langchain_with(refuse)
    with pytest.raises(
        ConfigurationError, match=r"cohere:embed-v4.*Please install langchain-cohere"
    ):
        resolve_embedder("cohere:embed-v4", dims=DIMS)


@pytest.mark.parametrize("name", ["cohere:embed-v4", "text-embedding-3-small", "openai:", ""])
def test_a_name_that_nobody_knows_is_refused(
    name: str, langchain_with: Callable[[Any], None]
) -> None:
    def refuse(name: str) -> None:
        raise ValueError("Unable to infer the provider")

    langchain_with(refuse)
    with pytest.raises(ConfigurationError, match="No embedder for"):
        resolve_embedder(name, dims=DIMS)
