"""The choice of an embedder. How each of them works is in its own file."""

from __future__ import annotations

from typing import TypeAlias

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import ensure_embeddings

from mongomem.embeddings.embedder import Embedder
from mongomem.embeddings.functions import EmbeddingFunction, function_embedder, langchain_embedder
from mongomem.embeddings.local import local_embedder
from mongomem.embeddings.openai import OpenAIEmbedder
from mongomem.errors import ConfigurationError

EmbedOption: TypeAlias = str | Embeddings | EmbeddingFunction


def resolve_embedder(embed: EmbedOption, *, dims: int | None) -> Embedder:
    """Make an embedder of what a user configured.

    Nothing is connected or loaded before the first text, and no key of OpenAI is needed before it.
    `dims` of None accepts any size; the local model then has its default.

    Raises:
        ConfigurationError: Nothing can be made of `embed`, a package is missing, or `dims` does not fit.
    """
    if dims is not None and (type(dims) is not int or dims < 1):
        raise ConfigurationError(f"dims must be a positive number of dimensions, not {dims!r}")
    if isinstance(embed, str):
        return _embedder_of_name(embed, dims)
    if isinstance(embed, Embeddings):
        return langchain_embedder(embed, dims)
    if isinstance(embed, type) or not hasattr(embed, "__call__"):  # noqa: B004  `callable` is always true to mypy
        raise ConfigurationError(
            'embed must be "openai:MODEL", "local", "PROVIDER:MODEL", an instance of LangChain\'s Embeddings '
            f"or a function from texts to vectors, not {embed!r}"
        )
    return function_embedder(embed, dims)


def _embedder_of_name(name: str, dims: int | None) -> Embedder:
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        return OpenAIEmbedder(fingerprint=name, dims=dims, model=model)
    if provider == "local":
        return local_embedder(name, dims)
    try:
        embeddings = ensure_embeddings(name)
    except Exception as error:  # of langchain, of the provider's package, of its validation
        hint = 'There are "local" and "openai:MODEL" without LangChain. '
        raise ConfigurationError(f"No embedder for embed={name!r}. {hint}{error}") from error
    return langchain_embedder(embeddings, dims)
