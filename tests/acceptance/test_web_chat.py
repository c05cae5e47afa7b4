"""The API of the web chat, asked without a browser; and its command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langchain_core.messages import AnyMessage
from openai import OpenAIError

import web_chat
from mongomem import MongoMemory
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
KEY = b"a key of these tests"
INDEX: Any = {"embed": "local", "dims": 256, "fields": ["text"]}


class Gate:
    """Answers by the rules; to "slowly" when it is told to, to "fail" with an error, to "break off"
    with half an answer.
    """

    def __init__(self) -> None:
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def __call__(
        self, messages: Sequence[AnyMessage], memories: Sequence[str]
    ) -> AsyncIterator[str]:
        if messages[-1].text == "fail":
            raise OpenAIError("a secret of the server")
        if messages[-1].text == "break off":
            yield "Half an "
            raise httpx.RemoteProtocolError("a secret of the connection")
        if messages[-1].text == "slowly":
            self.reached.set()
            await self.may_go_on.wait()
        async for piece in web_chat.answer_by_rules(messages, memories):
            yield piece


@pytest.fixture
def gate() -> Gate:
    return Gate()


Client = Callable[..., httpx.AsyncClient]


@pytest_asyncio.fixture
async def client(mongo_uri: str, database_name: str, gate: Gate) -> AsyncIterator[Client]:
    """Browsers of users, each with the cookies of their own."""
    memory = await MongoMemory.aconnect(mongo_uri, db_name=database_name, index=INDEX)
    async with serving(memory, gate) as browser:
        yield browser
    await memory.aclose()


@asynccontextmanager
async def serving(memory: MongoMemory, gate: Gate) -> AsyncIterator[Client]:
    """Serve the web chat on a memory."""
    app = web_chat.create_app(web_chat.Answers(memory, gate), KEY, ["testserver"])
    transport = httpx.ASGITransport(app=app)

    def browser(name: str | None = None, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=transport,
            base_url="http://testserver/api",
            cookies={} if name is None else {"session": web_chat.Sessions(KEY).cookie(name)},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )

    async with app.router.lifespan_context(app):
        yield browser


async def send(
    browser: httpx.AsyncClient, text: str, thread: str | None = None
) -> tuple[str, list[dict[str, str]]]:
    """Send a message; return the answer and all events."""
    answer = await browser.post("/messages", json={"text": text, "thread": thread})
    assert answer.status_code == 200, answer.text
    events = [json.loads(line) for line in answer.text.splitlines()]
    return "".join(event.get("text", "") for event in events), events


async def test_what_is_told_in_one_thread_is_known_in_another(client: Client) -> None:
    ada = client("ada")
    answer, events = await send(ada, "I live in Lisbon, and I have a dog called Brunel.")
    assert answer == "I will remember: I live in Lisbon; I have a dog called Brunel"
    first = events[0]["thread"]
    answer, events = await send(ada, "Where is my home?")
    assert answer.endswith('"I live in Lisbon"')
    await send(ada, "Hm.", first)
    threads = (await ada.get("/threads")).json()
    assert [thread["id"] for thread in threads] == [first, events[0]["thread"]]
    assert threads[0]["title"] == "I live in Lisbon, and I have a dog called Brunel."
    thread = (await ada.get(f"/threads/{first}")).json()
    assert [message["from"] for message in thread["messages"]] == ["human", "ai"] * 2


async def test_a_user_reaches_nothing_of_another(client: Client) -> None:
    ada, grace = client("ada"), client("grace")
    thread = (await send(ada, "I like quinces."))[1][0]["thread"]
    (memory,) = (await ada.get("/memories")).json()
    assert (await grace.get("/threads")).json() == []
    assert (await grace.get("/memories", params={"query": "quinces"})).json() == []
    assert (await grace.get(f"/threads/{thread}")).status_code == 404
    assert (await grace.delete(f"/threads/{thread}")).status_code == 404
    told = await grace.post("/messages", json={"text": "Hello", "thread": thread})
    assert told.status_code == 404
    await grace.delete("/memories", params={"key": memory["key"]})
    assert len((await ada.get("/memories")).json()) == 1
    assert len((await ada.get(f"/threads/{thread}")).json()["messages"]) == 2
    assert (await ada.delete(f"/threads/{thread}")).status_code == 200
    assert (await ada.get(f"/threads/{thread}")).status_code == 404


async def test_only_cookies_that_were_made_here_count(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = web_chat.Sessions(KEY).cookie("ada")
    payload, _, signature = made.partition(".")
    others = web_chat.Sessions(b"another key").cookie("ada")
    monkeypatch.setattr(web_chat, "SESSION_SECONDS", -1)
    over = web_chat.Sessions(KEY).cookie("ada")
    of_eve = web_chat.Sessions(KEY).cookie("eve").partition(".")[0]
    assert (await client(cookie=f"session={made}").get("/me")).json() == {"name": "ada"}
    for forged in (f"{of_eve}.{signature}", others, over, payload, f"{payload}.", "", ".", "é.é"):
        assert web_chat.Sessions(KEY).name(forged) is None
        with_it = client(cookie=f"session={forged}") if forged.isascii() else client()
        assert (await with_it.get("/threads")).status_code == 401
    for path in ("/threads", "/threads/1", "/memories"):
        assert (await client().get(path)).status_code == 401
    assert (await client().post("/messages", json={"text": "Hello"})).status_code == 401
    assert (await client().get("/me")).json() == {"name": None}


async def test_logging_in_and_out(client: Client) -> None:
    browser = client()
    for name in ("", " ", "a/b", "<b>", " ada", "a" * 41, None, 7):
        assert (await browser.post("/login", json={"name": name})).status_code == 422
    answer = await browser.post("/login", json={"name": "ada.l@example.com"})
    assert {"HttpOnly", "SameSite=strict"} < set(answer.headers["set-cookie"].split("; "))
    assert (await browser.get("/me")).json() == {"name": "ada.l@example.com"}
    await browser.post("/logout")
    assert (await browser.get("/threads")).status_code == 401


async def test_pages_of_other_sites_are_refused(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        foreign = client("ada", sec_fetch_site=site)
        assert (await foreign.get("/threads")).status_code == 403
        assert (await foreign.post("/messages", json={"text": "Hello"})).status_code == 403
    assert (await client("ada", host="example.com").get("/me")).status_code == 400
    form = client("ada", content_type="text/plain")
    told = await form.post("/messages", content='{"text": "Hello"}')
    assert told.status_code == 422
    assert (await client("ada").get("/threads")).json() == []


async def test_the_page_runs_nothing_but_its_own_script(client: Client) -> None:
    page = await client().get("http://testserver/")
    policy = dict(
        part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "http" not in page.text  # nothing is loaded from elsewhere


async def test_wrong_messages_are_refused(client: Client) -> None:
    ada = client("ada")
    for text in ("", "x" * 4_001, None):
        assert (await ada.post("/messages", json={"text": text})).status_code == 422
    for thread in ("none", "\0", "", "../threads"):
        told = await ada.post("/messages", json={"text": "Hello", "thread": thread})
        assert told.status_code in (400, 404), thread
    assert (await ada.delete("/memories", params={"key": "none"})).status_code == 200
    assert (await ada.get("/threads")).json() == []


async def test_a_thread_answers_one_message_at_a_time(client: Client, gate: Gate) -> None:
    ada = client("ada")
    thread = (await send(ada, "Hello."))[1][0]["thread"]
    first = asyncio.create_task(send(ada, "slowly", thread))
    await gate.reached.wait()
    told = await ada.post("/messages", json={"text": "Hello?", "thread": thread})
    assert told.status_code == 409
    assert (await ada.get(f"/threads/{thread}")).json()["running"]
    gate.may_go_on.set()
    await first
    assert not (await ada.get(f"/threads/{thread}")).json()["running"]


async def test_a_thread_is_deleted_while_it_is_answered(client: Client, gate: Gate) -> None:
    ada = client("ada")
    thread = (await send(ada, "Hello."))[1][0]["thread"]
    answering = asyncio.create_task(send(ada, "slowly", thread))
    await gate.reached.wait()
    assert (await ada.delete(f"/threads/{thread}")).status_code == 200
    await answering
    assert (await ada.get("/threads")).json() == []


async def test_a_model_that_fails_costs_a_turn(client: Client) -> None:
    ada = client("ada")
    thread = (await send(ada, "Hello."))[1][0]["thread"]
    _, events = await send(ada, "fail", thread)
    assert events == [{"error": "That failed: OpenAIError. Try again."}]
    answer, _ = await send(ada, "Where do I live?", thread)
    assert answer.startswith("You have told me nothing yet.")


async def test_an_answer_that_breaks_off_is_told(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ada = client("ada")
    answer, events = await send(ada, "break off")
    assert answer == "Half an "
    assert events[-1] == {"error": "That failed: RemoteProtocolError. Try again."}
    (logged,) = caplog.records
    assert logged.exc_info
    assert (await send(ada, "Hello.", events[0]["thread"]))[0].startswith("I follow a few rules.")


@pytest.mark.parametrize("value", ["NaN", r'"\ud800"', "[" * 500 + "]" * 500])
async def test_what_cannot_be_sent_back_is_refused(client: Client, value: str) -> None:
    headers = {"content-type": "application/json"}
    for path, name in (("/messages", "text"), ("/login", "name"), ("/messages", "thread")):
        body = f'{{"{name}": {value}}}'
        told = await client("ada").post(path, content=body, headers=headers)
        assert told.status_code == 422, path
        assert "ud800" not in told.text


async def test_a_message_that_is_too_long_is_told_the_limit(client: Client) -> None:
    told = await client("ada").post("/messages", json={"text": "a" * 4001})
    assert told.json() == {"detail": "text: String should have at most 4000 characters"}


async def test_memories_of_another_embedder(
    client: Client, gate: Gate, mongo_uri: str, database_name: str
) -> None:
    await send(client("ada"), "I like quinces.")
    other: Any = {**INDEX, "dims": 128}
    async with (
        MongoMemory.from_conn_string(mongo_uri, db_name=database_name, index=other) as memory,
        serving(memory, gate) as browser,
    ):
        told = await browser("ada").get("/memories", params={"query": "x"})
    assert told.status_code == 503
    assert told.json() == {"detail": "That failed: IndexMismatchError. Try again."}


async def test_memories_of_another_program(
    client: Client, mongo_uri: str, database_name: str
) -> None:
    async with MongoMemory.from_conn_string(mongo_uri, db_name=database_name) as memory:
        namespace = (*memory.user("ada").namespace, "memories")
        await memory.store.aput(namespace, "k", {"note": "tea"})
    ada = client("ada")
    assert (await ada.get("/memories")).json() == [{"key": "k", "text": "{'note': 'tea'}"}]
    assert (await send(ada, "Do I like tea?"))[0].startswith("What you told me")


async def test_a_move_is_remembered(client: Client) -> None:
    ada = client("ada")
    assert (await send(ada, "I moved to Porto."))[0] == "I will remember: I moved to Porto"
    assert [each["text"] for each in (await ada.get("/memories")).json()] == ["I moved to Porto"]


def test_another_embedder_ends_it_in_one_line(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MongoMemory.from_conn_string(mongo_uri, db_name=database_name, index=INDEX) as memory:
        memory.setup()
    monkeypatch.setenv("MONGODB_URI", mongo_uri)
    arguments = ["web_chat.py", "--port", "0", "--db", database_name, "--dims", "128"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=r"^web_chat: IndexMismatchError: [^\n]+$"):
        web_chat.main()


def test_wrong_options_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["web_chat.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            web_chat.main()
        told = str(ended.value) if isinstance(ended.value.code, str) else capsys.readouterr().err
        return told.splitlines()[-1]

    assert end("--port", "x").endswith("a port is a number from 0 to 65535")
    assert end("--port", "65536").endswith("a port is a number from 0 to 65535")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert end("--port", port).startswith(f"web_chat: no listening on 127.0.0.1:{port}: ")
    monkeypatch.setenv("MONGODB_URI", "postgres://127.0.0.1")
    assert end("--port", "0").startswith("web_chat: ConfigurationError: ")


def test_ctrl_c_ends_it(mongo_uri: str, database_name: str) -> None:
    ours = {"MONGODB_URI": mongo_uri, "MONGOMEM_DB": database_name, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "web_chat.py"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ours},
    ) as running:
        assert running.stdout is not None
        url = running.stdout.readline().split()[0]
        assert httpx.get(url).status_code == 200
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=HANG_SECONDS)
    assert (running.returncode, errors) == (130, "")
