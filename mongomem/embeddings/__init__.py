"""What a user passes as ``index["embed"]``, turned into one typed `Embedder` by `resolve_embedder`.

    "openai:MODEL"                 openai      the `openai` package, in batches
    "local"                        wordllama   no key, no network (extra ``local``)
    "local:minilm"                 minilm      a transformer of English, 10 ms a text (extra
                                               ``minilm``)
    "PROVIDER:MODEL"               custom      whatever ``langchain.embeddings.init_embeddings``
                                               knows
    a LangChain ``Embeddings``     custom
    a function, sync or async      custom

    no_embedder  what a store has that ranks by words alone

    resolve    the choice of an embedder
    embedder   the contract, `Embedder`, and the one place where vectors are checked
    batches    how many texts are sent at once
    identity   what a model is called, so that another one is noticed
    settings   what an embedder holds, as it is written in a name
    token_weights  of a query, from the weights of its words

A new embedder: a frozen dataclass in a module of its own that derives from `embedder.NamedEmbedder`
and embeds in ``_documents`` (in ``_adocuments`` too, only where it can do better than a worker
thread, and in ``embed_queries`` and ``aembed_queries``, only where it has another way for queries);
a factory that gives it its `identity.Identity`; a branch in `resolve._embedder_of_name`, its name
in the error texts there, and a row in the table above and in ``docs/reference/embedders.rst``.
Batches and checks of vectors come with the base class. `wordllama` is the shortest one to copy.

Every embedder serves sync and async callers, from any thread and any number of event loops. Which
texts are embedded, how vectors are stored and how they are compared is no matter of this folder.
"""

from mongomem.embeddings.custom import EmbeddingFunction
from mongomem.embeddings.embedder import Embedder, Vectors
from mongomem.embeddings.resolve import EmbedOption, resolve_embedder
from mongomem.embeddings.wordllama import LOCAL_DIMS

__all__ = [
    "LOCAL_DIMS",
    "EmbedOption",
    "Embedder",
    "EmbeddingFunction",
    "Vectors",
    "resolve_embedder",
]
