"""The local model: it finds facts, offline, and leaves the process as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mongomem.embeddings import resolve_embedder
from mongomem.errors import ConfigurationError
from support.waits import HANG_SECONDS

FACTS = [
    "The user is allergic to peanuts",
    "Her dog is called Bruno",
    "He works as a nurse at the city hospital",
    "They moved to Lisbon last spring",
    "Prefers short answers without emojis",
    "Plays the violin in an orchestra",
]
QUESTIONS = {
    "What food must I avoid when cooking?": 0,
    "What is the name of the pet?": 1,
    "What is his job?": 2,
    "In which city do they live?": 3,
    "How should replies be written?": 4,
    "Does she make music with an instrument?": 5,
}


@pytest.mark.parametrize(("dims", "first"), [(256, 5), (128, 4), (64, 4)])
def test_the_local_model_finds_the_right_fact(dims: int, first: int) -> None:
    embedder = resolve_embedder("local", dims=dims)
    documents = embedder.embed_documents(FACTS)
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, rtol=1e-5)
    ranked = [
        np.argsort(-(documents @ embedder.embed_query(question))).tolist() for question in QUESTIONS
    ]
    ranks = [order.index(right) for order, right in zip(ranked, QUESTIONS.values(), strict=True)]
    assert max(ranks) <= 2
    assert ranks.count(0) >= first


def test_the_local_model_needs_neither_network_nor_home_and_leaves_logging_alone(
    tmp_path: Path,
) -> None:
    program = """
import logging, socket, sys

def refuse(*_, **__):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from mongomem.embeddings import resolve_embedder
embedder = resolve_embedder("local", dims=None)
assert "wordllama" not in sys.modules and "openai" not in sys.modules
assert embedder.dims == 256 and embedder.embed_query("tea").shape == (256,)
assert logging.getLogger().handlers == [] and logging.getLogger().level == logging.WARNING
"""
    environment = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        timeout=HANG_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_local_model_reads_long_and_strange_texts() -> None:
    texts = ["tea with milk. " * 20_000, "", "\x00", "\n", "\u200b", "🫖"]
    assert resolve_embedder("local", dims=256).embed_documents(texts).shape == (6, 256)


def test_a_missing_local_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ConfigurationError, match=r'pip install ".\[local\]"'):
        resolve_embedder("local", dims=None)


@pytest.mark.parametrize(
    ("name", "dims"), [("local", 100), ("local:other", None), ("local:", None)]
)
def test_a_local_model_that_does_not_exist_is_refused(name: str, dims: int | None) -> None:
    with pytest.raises(ConfigurationError, match="local embedder"):
        resolve_embedder(name, dims=dims)
