"""The choice of an embedder. How each of them works is in its own file."""

from __future__ import annotations

from typing import Any, TypeAlias

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import ensure_embeddings

from mongomem.arguments import checked_number, checked_text, looking_at, shown, without_secrets
from mongomem.embeddings.batches import BatchSize
from mongomem.embeddings.custom import EmbeddingFunction, function_embedder, langchain_embedder
from mongomem.embeddings.embedder import Embedder
from mongomem.embeddings.minilm import minilm_embedder
from mongomem.embeddings.openai import OpenAIEmbedder
from mongomem.embeddings.wordllama import local_embedder
from mongomem.errors import ConfigurationError

EmbedOption: TypeAlias = str | Embeddings | EmbeddingFunction

MOST_DIMS = 2**20
"""So large a vector, with its code, a document still holds."""

LONGEST_NAME = 1_000
"""Characters of the name of an embedder or a model."""

LONGEST_REASON = 1_000


def resolve_embedder(
    embed: EmbedOption, *, dims: int | None, model: str | None = None, batch_size: int | None = None
) -> Embedder:
    """Make an embedder of what a user configured.

    Nothing is connected or loaded before the first text, and no key of OpenAI is needed before it.

    Args:
        embed: A name such as "openai:MODEL", an instance of LangChain's ``Embeddings``, or a
            function.
        dims: Size of the vectors; None accepts any, and of the local model is its default.
        model: What the model is called; None: as `mongomem.embeddings.identity` reads it.
        batch_size: How many texts it is sent at once at most; None: as many as it takes.

    Raises:
        ConfigurationError: Nothing can be made of `embed`, a package is missing, `dims` does not
            fit, nothing names the model, or an option is of the wrong kind.
    """
    with looking_at("dims", ConfigurationError):
        if dims is not None and (type(dims) is not int or not 1 <= dims <= MOST_DIMS):
            raise ConfigurationError(
                f"dims must be a positive number, {MOST_DIMS:,} at most, not {shown(dims)}"
            )
    with looking_at("model", ConfigurationError):
        given = None if model is None else _checked_name("model", model)
    with looking_at("batch_size", ConfigurationError):
        if batch_size is not None:
            batch_size = checked_number("batch_size", batch_size, least=1, error=ConfigurationError)
    with looking_at("embed", ConfigurationError):
        return _embedder(embed, dims, BatchSize(batch_size), given)


def _embedder(embed: Any, dims: int | None, batch_size: BatchSize, given: str | None) -> Embedder:
    if isinstance(embed, str):
        return _embedder_of_name(_checked_name("embed", embed), dims, batch_size, given)
    if isinstance(embed, Embeddings):
        return langchain_embedder(embed, dims, batch_size, given)
    if isinstance(embed, type) or not callable(embed):
        raise ConfigurationError(
            'embed must be "openai:MODEL", "local", "PROVIDER:MODEL", an instance of LangChain\'s '
            f"Embeddings or a function from texts to vectors, not {shown(embed)}"
        )
    return function_embedder(embed, dims, batch_size, given)


def _embedder_of_name(
    name: str, dims: int | None, batch_size: BatchSize, given: str | None
) -> Embedder:
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        return OpenAIEmbedder(given=given, dims=dims, batch_size=batch_size, model=model)
    if name == "local:minilm":
        return minilm_embedder(dims, batch_size, given)
    if provider == "local":
        return local_embedder(name, dims, batch_size, given)
    try:
        embeddings = ensure_embeddings(name)
    except Exception as error:  # of langchain, of the provider's package, of its validation
        hint = 'There are "local", "local:minilm" and "openai:MODEL" without LangChain. '
        reason = without_secrets(str(error)[:LONGEST_REASON])
        raise ConfigurationError(f"No embedder for embed={shown(name)}. {hint}{reason}") from error
    return langchain_embedder(embeddings, dims, batch_size, given, fallback=f"langchain:{name}")


def _checked_name(option: str, name: object) -> str:
    text = checked_text(option, name, ConfigurationError)
    if len(text) > LONGEST_NAME or (option == "model" and not text.strip()):
        raise ConfigurationError(
            f"{option} must be a name of 1 to {LONGEST_NAME:,} characters, not {shown(text)}"
        )
    return text
