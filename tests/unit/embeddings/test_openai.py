"""The OpenAI embedder, through the openai package and over real HTTP."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable

import numpy as np
import openai
import pytest

from mongomem.embeddings import Embedder, Vectors, resolve_embedder
from mongomem.errors import ConfigurationError, DimensionMismatchError
from support.bag_of_words import bag_of_words
from support.openai_server import OpenAIServer
from support.waits import HANG_SECONDS

DIMS = 32
SMALL = "openai:text-embedding-3-small"
words = bag_of_words(DIMS)

WORLDS: dict[str, Callable[[Embedder, list[str]], Vectors]] = {
    "sync": lambda embedder, texts: embedder.embed_documents(texts),
    "async": lambda embedder, texts: asyncio.run(embedder.aembed_documents(texts)),
}


def test_openai_asks_for_base64_with_the_environments_key(openai_server: OpenAIServer) -> None:
    resolve_embedder(SMALL, dims=DIMS).embed_documents(["I like tea", ""])
    (request,) = openai_server.requests
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["I like tea", " "],
        "dimensions": DIMS,
        "encoding_format": "base64",
    }


@pytest.mark.parametrize(
    ("model", "dims", "sent"),
    [
        ("text-embedding-3-large", 256, 256),
        ("text-embedding-3-large", None, None),
        ("text-embedding-ada-002", 1536, None),
        ("nomic-embed-text", 1536, None),
    ],
)
def test_dimensions_are_sent_to_models_that_know_them(
    model: str, dims: int | None, sent: int | None, openai_server: OpenAIServer
) -> None:
    vector = resolve_embedder(f"openai:{model}", dims=dims).embed_query("a")
    assert openai_server.requests[0].body.get("dimensions") == sent
    assert vector.size == (dims or 3072)


@pytest.mark.parametrize("world", ["sync", "async"])
def test_openai_batches_by_count_and_keeps_the_order(
    world: str, openai_server: OpenAIServer
) -> None:
    texts = [f"word{i}" for i in range(5000)]
    embedder = resolve_embedder(SMALL, dims=DIMS)
    documents = WORLDS[world](embedder, texts)
    assert [len(request.body["input"]) for request in openai_server.requests] == [2048, 2048, 904]
    np.testing.assert_allclose(documents, words(texts), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (
            "tea " * 7000,
            [36, 36, 8],
        ),  # 28,000 bytes count as the 8192 tokens that a valid text may have
        ("茶" * 1000, [80]),  # 3000 bytes are at most 3000 tokens
        ("茶" * 2500, [40, 40]),
    ],
)
def test_openai_batches_by_tokens(text: str, sizes: list[int], openai_server: OpenAIServer) -> None:
    resolve_embedder(SMALL, dims=DIMS).embed_documents([text] * 80)
    assert [len(request.body["input"]) for request in openai_server.requests] == sizes


def test_a_text_over_the_models_limit_is_refused_by_the_api(openai_server: OpenAIServer) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 8192"):
        resolve_embedder(SMALL, dims=DIMS).embed_query("tea " * 9000)


@pytest.mark.parametrize("world", ["sync", "async"])
@pytest.mark.parametrize("status", [429, 500])
def test_openai_retries_as_the_sdk_does(
    status: int, world: str, openai_server: OpenAIServer
) -> None:
    openai_server.fail(status, times=2)
    documents = WORLDS[world](resolve_embedder(SMALL, dims=DIMS), ["a"])
    assert documents.shape == (1, DIMS)
    assert len(openai_server.requests) == 3


def test_openai_gives_up_with_the_sdks_error(openai_server: OpenAIServer) -> None:
    openai_server.fail(429, times=3)
    with pytest.raises(openai.RateLimitError):
        resolve_embedder(SMALL, dims=DIMS).embed_query("a")


def test_openai_with_wrong_dimensions(openai_server: OpenAIServer) -> None:
    openai_server.wrong_dimensions = 7
    with pytest.raises(
        DimensionMismatchError,
        match=f"{SMALL} at {openai_server.base_url}: expected {DIMS} dimensions, got 7",
    ):
        resolve_embedder(SMALL, dims=DIMS).embed_query("a")


def test_a_missing_key_is_the_sdks_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)
    embedder = resolve_embedder(SMALL, dims=DIMS)
    for world in ("sync", "async"):
        with pytest.raises(openai.OpenAIError) as caught:
            WORLDS[world](embedder, ["a"])
        if sys.version_info >= (3, 11):
            assert 'embed="local"' in "".join(caught.value.__notes__)


def test_a_missing_openai_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigurationError, match="pip install openai"):
        resolve_embedder(SMALL, dims=DIMS).embed_query("a")


def test_openai_serves_loop_after_loop_and_loops_at_once(openai_server: OpenAIServer) -> None:
    embedder = resolve_embedder(SMALL, dims=DIMS)

    async def many() -> None:
        vectors = await asyncio.gather(*(embedder.aembed_query("tea") for _ in range(5)))
        assert {vector.shape for vector in vectors} == {(DIMS,)}

    for _ in range(3):
        asyncio.run(many())
    threads = [threading.Thread(target=asyncio.run, args=(many(),), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert len(openai_server.requests) == 7 * 5
    assert embedder.clients._awaiting == {}, "each loop closed its client at its end"


def test_openai_forgets_loops_that_were_closed_without_a_shutdown(
    openai_server: OpenAIServer,
) -> None:
    embedder = resolve_embedder(SMALL, dims=DIMS)
    loops = [asyncio.new_event_loop() for _ in range(3)]
    for loop in loops:
        loop.run_until_complete(embedder.clients.awaiting())
        assert list(embedder.clients._awaiting) == [loop]
        loop.close()


async def test_openai_keeps_its_client_within_a_loop(openai_server: OpenAIServer) -> None:
    embedder = resolve_embedder(SMALL, dims=DIMS)
    clients = {await embedder.clients.awaiting() for _ in range(2)}
    clients |= set(await asyncio.gather(*(embedder.clients.awaiting() for _ in range(5))))
    assert len(clients) == 1


async def test_a_dropped_openai_embedder_closes_its_client(openai_server: OpenAIServer) -> None:
    embedder = resolve_embedder(SMALL, dims=DIMS)
    client = await embedder.clients.awaiting()
    await embedder.aembed_query("a")
    del embedder
    gc.collect()
    for _ in range(1000):
        await asyncio.sleep(0.005)
        if client.is_closed():
            break
    assert client.is_closed()


async def test_openai_does_not_block_the_loop(openai_server: OpenAIServer) -> None:
    openai_server.delay = 0.2
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await resolve_embedder(SMALL, dims=DIMS).aembed_query("a")
    ticking.cancel()
    assert ticks > 5


def test_the_server_also_chats(openai_server: OpenAIServer) -> None:
    with openai.OpenAI() as client:
        messages = [
            {"role": "system", "content": "Knows: tea"},
            {"role": "user", "content": "Hello"},
        ]
        answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        assert answer.choices[0].message.content == "You said: Hello\nKnows: tea"
        with pytest.raises(openai.BadRequestError, match="empty string"):
            client.embeddings.create(model="text-embedding-3-small", input=[""])
        as_floats = client.embeddings.create(
            model="text-embedding-3-small", input="a", encoding_format="float"
        )
    assert as_floats.data[0].embedding == pytest.approx(bag_of_words(1536)(["a"])[0])
