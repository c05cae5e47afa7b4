"""What a user passes as ``index["embed"]``, turned into one typed `Embedder` by `resolve_embedder`.

    "openai:MODEL"                 openai.py       the `openai` package, in batches
    "local"                        local.py        wordllama: no key, no network (extra ``local``)
    "PROVIDER:MODEL"               functions.py    whatever ``langchain.embeddings.init_embeddings`` knows
    a LangChain ``Embeddings``     functions.py
    a function, sync or async      functions.py

Every embedder serves sync and async callers, from any thread and any number of event loops. Which texts
are embedded, how vectors are stored and how they are compared is no matter of this folder.
"""

from mongomem.embeddings.embedder import Embedder, Vectors
from mongomem.embeddings.functions import EmbeddingFunction
from mongomem.embeddings.local import LOCAL_DIMS
from mongomem.embeddings.resolve import EmbedOption, resolve_embedder

__all__ = ["LOCAL_DIMS", "EmbedOption", "Embedder", "EmbeddingFunction", "Vectors", "resolve_embedder"]
