"""A web chat: answers that stream, the user's threads in a sidebar, and what is remembered of them.

    make web                              http://127.0.0.1:8000, on MongoDB of this machine
    python examples/web_chat.py --port 8080

It needs the extra `web` (FastAPI, uvicorn); `local_uri` needs `server`, or MONGODB_URI. With
OPENAI_API_KEY a model answers (OPENAI_MODEL, OPENAI_BASE_URL), else a few rules do.

    the graph       one node: recall, answer piece by piece, remember
    Answers         the runs of the graph; they go on when their browser has left
    Sessions        who is logged in, by a signed cookie
    the API         what the page asks for, always of the user who is logged in
    the page        HTML, CSS and JavaScript without any library, at the end

A user reaches only their own threads and memories: every route goes by the user of the cookie, and
a thread of somebody else answers 404. The page inserts whatever was written as text, never as HTML,
and its Content-Security-Policy runs no script but its own.

What an application adds: passwords or its own login (here a name is enough), HTTPS and then
``secure=True`` for the cookie, a limit of requests, and more than one process (a thread is kept
from answering two messages at once within one process only).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import socket
import sys
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from langchain_core.messages import AnyMessage, convert_to_openai_messages
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import Item
from langgraph.types import StateSnapshot
from openai import AsyncOpenAI, OpenAIError
from pydantic import BaseModel, Field
from pymongo.errors import PyMongoError
from starlette.middleware.trustedhost import TrustedHostMiddleware

from mongomem import MongoMemory, User, local_uri
from mongomem.errors import InvalidInputError, MongomemError

RECALLED, LAST_MESSAGES = 3, 20  # what is called to mind for an answer
SHOWN_THREADS, SHOWN_MEMORIES, FOUND_MEMORIES = 100, 100, 8
LONGEST_MESSAGE, LONGEST_TITLE = 4_000, 60
SESSION_SECONDS = 7 * 24 * 3600
COOKIE = "session"
PAUSE = 0.03  # seconds between two words of the rules, which would else be too fast to see

Event = dict[str, Any]
"""What the page is told while an answer is written: `thread`, `text`, `learned` or `error`."""

Answer = Callable[[Sequence[AnyMessage], Sequence[str]], AsyncIterator[str]]
"""Answers the last message, given the memories that fit it, piece by piece."""

TROUBLES = (PyMongoError, MongomemError, OpenAIError)
"""What may fail at any time, and is not the fault of a user."""

logger = logging.getLogger("web_chat")


# The graph.


@dataclass(frozen=True)
class Context:
    """Whom a run is for."""

    user: User


FACT = re.compile(
    r"\bremember(?: that)? ([^.!?\n]{2,300})"
    r"|\b((?:I (?:am|have|like|love|hate|live|work|collect|prefer|moved to)\b|my \w+ is\b)"
    r"(?:(?!,? and I\b)[^.!?\n]){2,300})",
    re.IGNORECASE,
)
"""A statement about the user. ``assistant.py`` has a model that decides itself what to remember."""


def facts(text: str) -> list[str]:
    """Return what a message tells about the user."""
    if text.rstrip().endswith("?"):
        return []
    return [asked or told for asked, told in FACT.findall(text)]


def text_of(item: Item) -> str:
    """Return what a memory says; all of one that another program stored without a text."""
    return str(item.value.get("text", item.value))


def build_graph(answer: Answer) -> StateGraph[MessagesState, Context, MessagesState, MessagesState]:
    """Build a chat of one node, which streams its answer as it is written."""

    async def chat(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        user, text = runtime.context.user, state["messages"][-1].text
        memories = [text_of(item) for item in await user.arecall(text, limit=RECALLED)]
        pieces = []
        async for piece in answer(state["messages"], memories):
            runtime.stream_writer({"text": piece})
            pieces.append(piece)
        for fact in facts(text):
            # The same fact has the same key, so that it is remembered once.
            await user.aremember(fact, key=str(uuid5(NAMESPACE_OID, fact.casefold())))
            runtime.stream_writer({"learned": fact})
        return {"messages": [("ai", "".join(pieces) or "(no answer)")]}

    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node(chat)
    builder.add_edge(START, "chat")
    return builder


async def answer_by_rules(
    messages: Sequence[AnyMessage], memories: Sequence[str]
) -> AsyncIterator[str]:
    """Stand in for a model: quote what is remembered, word by word."""
    text = messages[-1].text
    if told := facts(text):
        reply = "I will remember: " + "; ".join(told)
    elif text.rstrip().endswith("?") and memories:
        reply = f'What you told me that comes closest: "{memories[0]}"'
    elif text.rstrip().endswith("?"):
        reply = "You have told me nothing yet. Try: I live in Lisbon."
    else:
        reply = "I follow a few rules. Tell me what you like or where you live, then ask me."
    for word in re.findall(r"\S+\s*", reply):
        yield word
        await asyncio.sleep(PAUSE)


class ModelAnswer:
    """A model behind the OpenAI API, or one that speaks its protocol."""

    def __init__(self) -> None:
        self._client = AsyncOpenAI(timeout=60)
        self._model = os.environ.get("OPENAI_MODEL") or "gpt-4o-mini"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def __call__(
        self, messages: Sequence[AnyMessage], memories: Sequence[str]
    ) -> AsyncIterator[str]:
        known = "\n".join(memories) or "nothing yet"
        system = {"role": "system", "content": f"What you remember of this user:\n{known}"}
        recent: Any = [system, *convert_to_openai_messages(messages[-LAST_MESSAGES:])]
        stream = await self._client.chat.completions.create(
            model=self._model, messages=recent, stream=True
        )
        async with stream:
            async for chunk in stream:
                if chunk.choices and (piece := chunk.choices[0].delta.content):
                    yield piece


# The runs of the graph.


class Answers:
    """Runs the graph. A run is a task of its own, so that it goes on when its browser leaves."""

    def __init__(self, memory: MongoMemory, answer: Answer) -> None:
        self.memory, self._answer = memory, answer
        self._graph: CompiledStateGraph[MessagesState, Context, MessagesState, MessagesState]
        self._graph = build_graph(answer).compile(checkpointer=memory.saver, store=memory.store)
        self._running: dict[str, asyncio.Task[None]] = {}

    async def state(self, thread_id: str) -> StateSnapshot:
        """Return the newest state of a thread; one without metadata where there is none."""
        return await self._graph.aget_state({"configurable": {"thread_id": thread_id}})

    def is_running(self, thread_id: str) -> bool:
        """Tell whether an answer is being written in a thread."""
        return thread_id in self._running

    def begin(self, user: User, thread_id: str, title: str, text: str) -> AsyncIterator[bytes]:
        """Let the graph answer; return the events, one JSON object a line."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        run = asyncio.create_task(self._run(user, thread_id, title, text, events))
        self._running[thread_id] = run
        run.add_done_callback(lambda _: self._running.pop(thread_id, None))
        run.add_done_callback(lambda _: events.put_nowait(None))
        return _lines(events)

    async def _run(
        self, user: User, thread_id: str, title: str, text: str, events: asyncio.Queue[Event | None]
    ) -> None:
        config = user.config(thread_id)
        config["metadata"] = {"title": title}
        given: Any = {"messages": [("user", text)]}
        try:
            stream = self._graph.astream(
                given, config, context=Context(user), stream_mode="custom", durability="sync"
            )
            async for event in stream:
                events.put_nowait({"thread": thread_id, **event})
        except Exception as trouble:
            # Whatever it is, a client of HTTP has errors of its own: the page is told of an end.
            logger.exception("thread %s", thread_id)
            events.put_nowait({"error": f"That failed: {type(trouble).__name__}. Try again."})

    async def stop(self, thread_id: str) -> None:
        """End what is being written in a thread."""
        if run := self._running.get(thread_id):
            run.cancel()
            await asyncio.wait([run])

    async def aclose(self) -> None:
        """End what is being written, and close the connections to the model."""
        for thread_id in list(self._running):
            await self.stop(thread_id)
        if isinstance(self._answer, ModelAnswer):
            await self._answer.aclose()


async def _lines(events: asyncio.Queue[Event | None]) -> AsyncIterator[bytes]:
    while (event := await events.get()) is not None:
        yield json.dumps(event).encode() + b"\n"


# Who is logged in.


class Sessions:
    """Signed cookies: the name of a user and when it ends, which nobody changes without the key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def cookie(self, name: str) -> str:
        """Return a cookie for a user."""
        payload = urlsafe_b64encode(
            json.dumps([name, int(time.time()) + SESSION_SECONDS]).encode()
        ).decode()
        return f"{payload}.{self._signature(payload)}"

    def name(self, cookie: str) -> str | None:
        """Return whom a cookie is of; None if it was not made here, or its time is over."""
        payload, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(payload).encode()):
            return None
        name, ends = json.loads(urlsafe_b64decode(payload))
        return str(name) if time.time() < ends else None

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()


# The API.


def answers_of(request: Request) -> Answers:
    """Return the answers of the application."""
    answers: Answers = request.app.state.answers
    return answers


def name_of(request: Request) -> str | None:
    """Return the name in the cookie; None without a valid one."""
    sessions: Sessions = request.app.state.sessions
    return sessions.name(request.cookies.get(COOKIE, ""))


def current_user(request: Request) -> User:
    """Return the user of the cookie."""
    name = name_of(request)
    if name is None:
        raise HTTPException(401, "Log in first.")
    return answers_of(request).memory.user(name)


def same_origin(request: Request, response: Response) -> None:
    """Refuse what the pages of others send, which browsers say; and let nothing be cached."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "This is not the page of another site.")
    response.headers["Cache-Control"] = "no-store"


All = Annotated[Answers, Depends(answers_of)]
Me = Annotated[User, Depends(current_user)]


async def own_thread(thread_id: str, answers: All, me: Me) -> StateSnapshot:
    """Return the state of a thread of the user. Of others it is not told that they are there."""
    state = await answers.state(thread_id)
    if dict(state.metadata or {}).get("user_id") != me.id:
        raise HTTPException(404, "There is no such thread.")
    return state


OwnThread = Annotated[StateSnapshot, Depends(own_thread)]


class Login(BaseModel):
    """Who somebody says they are."""

    name: str = Field(pattern=r"^[\w.@-][\w.@ -]{0,38}[\w.@-]$|^\w$")


class Message(BaseModel):
    """What a user writes, in a thread or, without one, in a new one."""

    text: str = Field(min_length=1, max_length=LONGEST_MESSAGE)
    thread: str | None = None


api = APIRouter(prefix="/api", dependencies=[Depends(same_origin)])


@api.post("/login")
async def login(given: Login, request: Request, response: Response) -> dict[str, str]:
    """Log somebody in who says their name."""
    response.set_cookie(
        COOKIE,
        request.app.state.sessions.cookie(given.name),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
    )
    return {"name": given.name}


@api.post("/logout")
async def logout(response: Response) -> None:
    """Log out: the browser forgets the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@api.get("/me")
async def whoami(request: Request) -> dict[str, str | None]:
    """Tell who is logged in, if anybody is."""
    return {"name": name_of(request)}


@api.get("/threads")
async def list_threads(me: Me) -> list[dict[str, Any]]:
    """List the user's threads, the one updated last first."""
    return [
        {
            "id": thread.thread_id,
            "title": thread.metadata.get("title") or "Untitled",
            "preview": short(thread.preview or "", LONGEST_TITLE),
            "updated_at": thread.updated_at,
        }
        for thread in await me.athreads(limit=SHOWN_THREADS)
    ]


@api.get("/threads/{thread_id}")
async def read_thread(thread_id: str, thread: OwnThread, answers: All) -> dict[str, Any]:
    """Return the messages of a thread."""
    messages = thread.values.get("messages", [])
    return {
        "title": _title(messages),
        "messages": [{"from": message.type, "text": message.text} for message in messages],
        "running": answers.is_running(thread_id),
    }


@api.delete("/threads/{thread_id}", dependencies=[Depends(own_thread)])
async def delete_thread(thread_id: str, answers: All) -> None:
    """Delete a thread; what was remembered from it stays."""
    await answers.stop(thread_id)
    await answers.memory.saver.adelete_thread(thread_id)


@api.post("/messages")
async def send(message: Message, answers: All, me: Me) -> StreamingResponse:
    """Answer a message: a stream of events, one JSON object a line."""
    thread_id, messages = message.thread or str(uuid4()), []
    if message.thread is not None:
        messages = (await own_thread(thread_id, answers, me)).values.get("messages", [])
    if answers.is_running(thread_id):
        raise HTTPException(409, "An answer is being written in this thread.")
    title = _title(messages) if messages else short(message.text, LONGEST_TITLE)
    events = answers.begin(me, thread_id, title, message.text)
    return StreamingResponse(events, media_type="application/x-ndjson")


@api.get("/memories")
async def list_memories(me: Me, query: str = "") -> list[dict[str, Any]]:
    """List what is remembered of the user: the newest first, or what fits a query best."""
    limit = FOUND_MEMORIES if query else SHOWN_MEMORIES
    found = await me.arecall(query[:LONGEST_MESSAGE] or None, limit=limit)
    return [{"key": item.key, "text": text_of(item)} for item in found]


@api.delete("/memories")
async def forget(me: Me, key: str) -> None:
    """Forget one memory."""
    await me.aforget(key)


def _title(messages: Sequence[AnyMessage]) -> str:
    return short(messages[0].text, LONGEST_TITLE) if messages else "New chat"


def short(text: str, length: int) -> str:
    """Fit a text into one line."""
    line = " ".join(text[: 2 * length].split())
    return line if len(line) <= length else line[: length - 1] + "…"


async def refused(_: Request, error: Exception) -> JSONResponse:
    """Answer what mongomem does not take."""
    return JSONResponse({"detail": short(str(error), 200)}, 400)


async def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
    """Tell what is wrong with a request, without repeating what may not be sent: NaN for one."""
    wrong = error.errors()[0]
    return JSONResponse({"detail": f"{wrong['loc'][-1]}: {wrong['msg']}"}, 422)


async def failed(_: Request, error: Exception) -> JSONResponse:
    """Answer where the database or the embedder does not."""
    logger.warning("%s: %s", type(error).__name__, error)
    return JSONResponse({"detail": f"That failed: {type(error).__name__}. Try again."}, 503)


def create_app(answers: Answers, key: bytes, hosts: Sequence[str]) -> FastAPI:
    """Make the application. It closes `answers` when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await answers.aclose()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.answers, app.state.sessions = answers, Sessions(key)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(RequestValidationError)(unreadable)
    app.add_exception_handler(InvalidInputError, refused)
    for trouble in TROUBLES:
        app.add_exception_handler(trouble, failed)
    app.include_router(api)

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(PAGE, headers=HEADERS)

    return app


# The page.

STYLE = r"""
:root {
  color-scheme: light dark;
  --back: light-dark(#f6f7f5, #16191a); --card: light-dark(#ffffff, #1f2425);
  --line: light-dark(#dde1dd, #343b3c); --ink: light-dark(#1c2321, #e8ecea);
  --soft: light-dark(#5c6864, #9aa6a2); --main: light-dark(#0b6e4f, #3fbf8f);
  --on-main: light-dark(#ffffff, #0c1512); --mine: light-dark(#e2f1ea, #1f3a30);
  --bad: light-dark(#b3261e, #ff8a80);
}
* { box-sizing: border-box; margin: 0; }
[hidden] { display: none !important; }
html, body { height: 100%; }
body {
  background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
button, input, textarea { font: inherit; color: inherit; }
button {
  border: 1px solid var(--line); border-radius: 8px; background: var(--card);
  padding: 6px 12px; cursor: pointer;
}
button:hover { border-color: var(--main); }
button:disabled { opacity: .5; cursor: default; }
button.main { background: var(--main); border-color: var(--main); color: var(--on-main); }
button.danger { border-color: var(--bad); color: var(--bad); }
button.quiet { border-color: transparent; background: none; color: var(--soft); padding: 4px 8px; }
:focus-visible { outline: 2px solid var(--main); outline-offset: 2px; }
input, textarea {
  width: 100%; padding: 8px 12px; border: 1px solid var(--line); border-radius: 8px;
  background: var(--card);
}
h1, h2 { font-size: 16px; font-weight: 600; }
#login { display: grid; place-items: center; height: 100%; padding: 16px; }
#login form {
  display: grid; gap: 12px; width: min(360px, 100%); padding: 28px; background: var(--card);
  border: 1px solid var(--line); border-radius: 14px;
}
#login h1 { font-size: 22px; }
#login p { color: var(--soft); }
#app { display: grid; grid-template-columns: 270px minmax(0, 1fr) 290px; height: 100%; }
#app.no-memories { grid-template-columns: 270px minmax(0, 1fr); }
#app.no-memories #memories { display: none; }
.pane { display: flex; flex-direction: column; min-height: 0; background: var(--card); }
.pane > header {
  display: flex; align-items: center; justify-content: space-between; gap: 8px;
  min-height: 56px; padding: 8px 16px;
}
#side { border-right: 1px solid var(--line); }
#memories { border-left: 1px solid var(--line); }
.list { flex: 1; overflow-y: auto; padding: 4px 8px 16px; list-style: none; }
.list li { display: flex; align-items: flex-start; border-radius: 10px; }
.list li:hover, .list li[aria-current] { background: var(--back); }
.list li[aria-current] { box-shadow: inset 3px 0 var(--main); }
.list .open {
  flex: 1; min-width: 0; border: 0; background: none; text-align: left; padding: 8px 4px 8px 12px;
}
.list .open span { display: block; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.list .open .under { color: var(--soft); font-size: 13px; }
.list .text { flex: 1; min-width: 0; padding: 8px 4px 8px 12px; overflow-wrap: anywhere; }
.list .delete { margin: 6px 4px 0 0; }
.list .empty { padding: 8px 12px; color: var(--soft); }
#side footer {
  display: flex; align-items: center; justify-content: space-between; gap: 8px;
  padding: 10px 16px; border-top: 1px solid var(--line);
}
#logout { flex: none; white-space: nowrap; }
#me { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-weight: 600; }
main { display: flex; flex-direction: column; min-width: 0; min-height: 0; }
main > header {
  display: flex; align-items: center; gap: 8px; min-height: 56px; padding: 8px 20px;
  border-bottom: 1px solid var(--line); background: var(--card);
}
#title { flex: 1; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
#messages {
  flex: 1; overflow-y: auto; padding: 24px max(20px, calc(50% - 360px));
  display: flex; flex-direction: column; gap: 12px;
}
.message {
  max-width: 85%; padding: 10px 14px; border-radius: 14px; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--card); border: 1px solid var(--line);
  align-self: flex-start; border-bottom-left-radius: 4px;
}
.message.human {
  align-self: flex-end; background: var(--mine); border-color: transparent;
  border-radius: 14px 14px 4px 14px;
}
.message.writing::after { content: "▍"; color: var(--main); animation: blink 1s steps(2) infinite; }
@keyframes blink { 50% { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .message.writing::after { animation: none; } }
.welcome { margin: auto; text-align: center; color: var(--soft); max-width: 34em; }
.welcome h2 { color: var(--ink); font-size: 20px; margin-bottom: 8px; }
#composer {
  display: flex; gap: 8px; align-items: flex-end;
  padding: 12px max(20px, calc(50% - 360px)) 4px;
}
#text { resize: none; max-height: 180px; field-sizing: content; }
#status { min-height: 1.9em; padding: 0 max(20px, calc(50% - 360px)) 6px; color: var(--soft);
  font-size: 13px; }
#status.bad { color: var(--bad); }
#find { padding: 0 16px 8px; }
dialog {
  margin: auto; padding: 24px; border: 1px solid var(--line); border-radius: 14px;
  background: var(--card); color: var(--ink); width: min(400px, calc(100% - 32px));
}
dialog::backdrop { background: rgb(0 0 0 / .4); }
dialog p { margin-bottom: 18px; overflow-wrap: anywhere; }
dialog div { display: flex; justify-content: flex-end; gap: 8px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
#show-side { display: none; }
@media (max-width: 900px) {
  #app, #app.no-memories { grid-template-columns: minmax(0, 1fr); }
  #show-side { display: block; }
  #side, #memories {
    position: fixed; top: 0; bottom: 0; width: min(310px, 85%); z-index: 1; display: none;
    box-shadow: 0 0 40px rgb(0 0 0 / .3);
  }
  #side { left: 0; }
  #memories { right: 0; }
  #app.side-shown #side, #app:not(.no-memories) #memories { display: flex; }
}
"""

BODY = r"""
<section id="login" hidden>
  <form id="login-form">
    <h1>Web chat</h1>
    <p>Say who you are. This example asks for no password.</p>
    <label class="unseen" for="name">Your name</label>
    <input id="name" required maxlength="40" autocomplete="username" placeholder="Your name"
      autocapitalize="none" spellcheck="false">
    <button class="main">Log in</button>
    <p id="login-status" role="alert"></p>
  </form>
</section>
<div id="app" hidden>
  <nav id="side" class="pane" aria-label="Threads">
    <header><h2>Threads</h2><button id="new" class="main">New chat</button></header>
    <ul id="threads" class="list"></ul>
    <footer><span id="me"></span><button id="logout" class="quiet">Log out</button></footer>
  </nav>
  <main>
    <header>
      <button id="show-side" aria-label="Threads" aria-controls="side">☰</button>
      <h1 id="title">New chat</h1>
      <button id="show-memories" aria-controls="memories" aria-expanded="true">Memories</button>
    </header>
    <div id="messages" role="log" aria-label="Messages" tabindex="0"></div>
    <form id="composer">
      <label class="unseen" for="text">Message</label>
      <textarea id="text" rows="1" placeholder="Write a message"></textarea>
      <button id="send" class="main">Send</button>
    </form>
    <p id="status" role="status"></p>
  </main>
  <aside id="memories" class="pane" aria-label="Memories">
    <header><h2>What I remember of you</h2></header>
    <div id="find">
      <label class="unseen" for="search">Search memories by meaning</label>
      <input id="search" type="search" placeholder="Search by meaning" autocomplete="off">
    </div>
    <ul id="memory-list" class="list"></ul>
  </aside>
</div>
<dialog id="confirm" aria-labelledby="question">
  <form method="dialog">
    <p id="question"></p>
    <div>
      <button value="no">Cancel</button>
      <button id="yes" value="yes" class="danger">Delete</button>
    </div>
  </form>
</dialog>
"""

SCRIPT = r"""
"use strict";
const $ = (id) => document.getElementById(id);
const HINT = "Enter sends, Shift+Enter starts a new line.";
const GONE = "This thread was deleted elsewhere. What you send now begins a new one.";
let view = { thread: null, writing: false };  // what is shown; a new object for whatever is opened

// Whatever is written goes through here: strings become text, and never HTML.
function make(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function tell(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

async function call(method, path, body) {
  const headers = body ? { "content-type": "application/json" } : {};
  const answer = await fetch("/api" + path, { method, headers, body: JSON.stringify(body) });
  if (answer.status === 401) leave();
  if (answer.ok) return answer;
  const { detail } = await answer.json().catch(() => ({}));
  const error = new Error(typeof detail === "string" ? detail : "That cannot be sent.");
  throw Object.assign(error, { status: answer.status });
}

const read = async (path) => (await call("GET", path)).json();

// Null where the same was asked for again meanwhile, for only the newest answer is shown, and where
// that is shown already: what is drawn anew loses a click that has begun.
const asked = {}, drawn = {};

async function newest(path, query = "") {
  const mine = asked[path] = {};
  const found = await read(path + query), told = JSON.stringify([query, found]);
  if (asked[path] !== mine || drawn[path] === told) return null;
  drawn[path] = told;
  return found;
}

// Reports what goes wrong where the user sees it.
const safely = (action) => async (...given) => {
  try {
    return await action(...given);
  } catch (error) {
    tell(error instanceof TypeError ? "The server does not answer." : error.message, true);
  }
};

async function confirmed(question) {
  $("question").textContent = question;
  $("confirm").returnValue = "no";
  $("confirm").showModal();
  await new Promise((done) => $("confirm").addEventListener("close", done, { once: true }));
  return $("confirm").returnValue === "yes";
}

// Who is logged in.

// The page is loaded anew, so that nothing of a user is left in it for the next.
function leave() {
  history.replaceState(null, "", location.pathname);
  location.reload();
}

async function enter(name) {
  $("login").hidden = true;
  $("app").hidden = false;
  $("me").textContent = name;
  $("search").value = "";
  await Promise.all([loadThreads(), loadMemories(), openThread(location.hash.slice(1) || null)]);
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("login-status").textContent = "";
  try {
    const answer = await call("POST", "/login", { name: $("name").value.trim() });
    await enter((await answer.json()).name);
  } catch (error) {
    $("login-status").textContent = "A name has letters, digits, blanks, or one of . _ @ -";
  }
});

$("logout").addEventListener("click", safely(async () => {
  await call("POST", "/logout");
  leave();
}));

// Threads.

function when(iso) {
  const time = new Date(iso), today = new Date().toDateString() === time.toDateString();
  return today ? time.toLocaleTimeString([], { timeStyle: "short" })
    : time.toLocaleDateString([], { dateStyle: "medium" });
}

async function loadThreads() {
  const threads = await newest("/threads");
  if (!threads) return markThread();
  $("threads").replaceChildren(...threads.map((thread) => {
    const open = make("button", { className: "open" },
      make("span", {}, thread.title),
      make("span", { className: "under" }, `${when(thread.updated_at)} · ${thread.preview}`));
    open.addEventListener("click", () => go(thread.id));
    const remove = make("button", { className: "quiet delete", title: "Delete" }, "✕");
    remove.setAttribute("aria-label", `Delete the thread: ${thread.title}`);
    remove.addEventListener("click", safely(() => removeThread(thread)));
    const item = make("li", {}, open, remove);
    item.dataset.thread = thread.id;
    return item;
  }));
  if (!threads.length) $("threads").append(make("li", { className: "empty" }, "No thread yet."));
  markThread();
}

function markThread() {
  for (const item of $("threads").children) {
    const shown = view.thread && item.dataset.thread === view.thread;
    if (shown) item.setAttribute("aria-current", "true");
    else item.removeAttribute("aria-current");
  }
}

async function removeThread(thread) {
  if (!(await confirmed(`Delete the thread “${thread.title}”?`))) return;
  await call("DELETE", `/threads/${encodeURIComponent(thread.id)}`);
  if (view.thread === thread.id) go(null);
  await loadThreads();
  $("new").focus();
}

// The thread that is shown is in the address: reloading and going back find it.
function go(thread) {
  $("app").classList.remove("side-shown");
  history.pushState(null, "", thread ? `#${thread}` : location.pathname);
  openThread(thread);
}

const openThread = safely(async (thread) => {
  const opened = view = { thread, writing: false };
  markThread();
  tell(HINT);
  if (!thread) show("New chat", []);
  else await showThread(opened).catch((error) => lose(opened, error, error.message));
  if (view === opened) $("text").focus();
});

async function showThread(opened) {
  const found = await read(`/threads/${encodeURIComponent(opened.thread)}`);
  if (view !== opened) return;
  const shown = [...$("messages").querySelectorAll(".message")].map((each) => each.textContent);
  const texts = found.messages.map((each) => each.text);
  if (JSON.stringify(shown) !== JSON.stringify(texts)) show(found.title, found.messages);
  setWriting(opened, found.running);
  if (found.running) setTimeout(() => view === opened && safely(showThread)(opened), 500);
}

// Leaves a thread that is not there any more, and throws what is to be told; what is written in the
// box stays. That a thread is gone which is not shown any more concerns nobody.
function lose(opened, error, told) {
  if (error.status !== 404) throw error;
  if (view !== opened) return;
  history.replaceState(null, "", location.pathname);
  openThread(null);
  throw new Error(told);
}

function show(title, messages) {
  $("title").textContent = title;
  document.title = `${title} · Web chat`;
  $("messages").replaceChildren(...messages.map((each) => bubble(each.from, each.text)));
  if (!messages.length) $("messages").append(make("div", { className: "welcome" },
    make("h2", {}, "What is on your mind?"),
    "What you tell of yourself is remembered in every thread of yours, and of nobody else."));
  setWriting(view, false);
  toEnd();
}

const bubble = (from, text) => make("div", { className: `message ${from}` }, text);

function toEnd() { $("messages").scrollTop = $("messages").scrollHeight; }

function setWriting(shown, writing) {
  shown.writing = writing;
  $("send").disabled = view.writing;
}

// Messages.

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part; !(part = await reader.read()).done;) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    yield* lines.map((line) => JSON.parse(line));
  }
}

async function send() {
  const shown = view, text = $("text").value.trim();
  if (!text || shown.writing) return;
  const question = bubble("human", text), answer = bubble("ai writing", "");
  $("messages").querySelector(".welcome")?.remove();
  $("messages").append(question, answer);
  $("text").value = "";
  tell("");
  setWriting(shown, true);
  toEnd();
  try {
    const sent = call("POST", "/messages", { text, thread: shown.thread });
    sent.catch(() => question.remove());  // what was refused is in no thread
    await follow(shown, answer, await sent);
  } catch (error) {
    if (!answer.textContent && view === shown) $("text").value ||= text;
    lose(shown, error, GONE);
  } finally {
    answer.classList.remove("writing");
    if (!answer.textContent) answer.remove();
    if (!$("messages").childElementCount) show("New chat", []);
    setWriting(shown, false);
    await loadThreads();
  }
  if (view === shown) tell(HINT);
}

async function follow(shown, answer, response) {
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error);
    if (event.thread && !shown.thread) {
      shown.thread = event.thread;
      if (view === shown) history.replaceState(null, "", `#${event.thread}`);
      if (view === shown) $("title").textContent = $("messages").firstChild.textContent;
      await loadThreads();
    }
    const low = $("messages").scrollHeight - $("messages").scrollTop - $("messages").clientHeight;
    if (event.text) answer.append(event.text);
    if (event.learned) await loadMemories();
    if (view === shown && low < 80) toEnd();
  }
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  safely(send)();
});

$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  safely(send)();
});

// Memories.

async function loadMemories() {
  const query = $("search").value.trim();
  const memories = await newest("/memories", `?query=${encodeURIComponent(query)}`);
  if (!memories) return;
  $("memory-list").replaceChildren(...memories.map((memory) => {
    const remove = make("button", { className: "quiet delete", title: "Delete" }, "✕");
    remove.setAttribute("aria-label", `Delete the memory: ${memory.text}`);
    remove.addEventListener("click", safely(() => removeMemory(memory)));
    return make("li", {}, make("span", { className: "text" }, memory.text), remove);
  }));
  if (!memories.length) $("memory-list").append(
    make("li", { className: "empty" }, query ? "Nothing is found." : "Nothing yet."));
}

async function removeMemory(memory) {
  if (!(await confirmed(`Forget “${memory.text}”?`))) return;
  await call("DELETE", `/memories?key=${encodeURIComponent(memory.key)}`);
  await loadMemories();
  $("search").focus();
}

let soon;
$("search").addEventListener("input", () => {
  clearTimeout(soon);
  soon = setTimeout(safely(loadMemories), 200);
});

// The rest.

// Shows what another window has changed meanwhile.
const refresh = safely(async () => {
  const shown = view;
  if (document.hidden || $("app").hidden || shown.writing) return;
  await Promise.all([loadThreads(), loadMemories()]);
  if (shown.thread) await showThread(shown).catch((error) => lose(shown, error, GONE));
});
window.addEventListener("focus", refresh);
document.addEventListener("visibilitychange", refresh);

$("new").addEventListener("click", () => go(null));
$("show-side").addEventListener("click", () => $("app").classList.toggle("side-shown"));
$("messages").addEventListener("click", () => $("app").classList.remove("side-shown"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") $("app").classList.remove("side-shown");
});
$("show-memories").addEventListener("click", () => {
  const hidden = $("app").classList.toggle("no-memories");
  $("show-memories").setAttribute("aria-expanded", String(!hidden));
});
window.addEventListener("popstate", () => openThread(location.hash.slice(1) || null));
window.addEventListener("hashchange", () => {
  if (location.hash.slice(1) !== (view.thread || "")) openThread(location.hash.slice(1) || null);
});
if (matchMedia("(max-width: 900px)").matches) $("show-memories").click();

safely(async () => {
  const { name } = await read("/me");
  if (name) return enter(name);
  $("login").hidden = false;
  $("name").focus();
})();
"""

PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Web chat</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>{BODY}<script>{SCRIPT}</script></body>
</html>
"""


def _source(text: str) -> str:
    """Name an inline script or style by its digest, as a Content-Security-Policy does."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src {_source(SCRIPT)}; style-src {_source(STYLE)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


# The command line.


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="A web chat that remembers.")
    parser.add_argument("--host", default="127.0.0.1", help="the address (%(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="0 is any (%(default)s)")
    parser.add_argument("--db", default=os.environ.get("MONGOMEM_DB") or "web_chat")
    parser.add_argument("--embed", default="local", help="e.g. openai:text-embedding-3-small")
    parser.add_argument("--dims", type=int, default=256, help="size of its vectors (%(default)s)")
    return parser.parse_args()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


async def serve(options: argparse.Namespace, uri: str, listener: socket.socket) -> None:
    """Connect, and answer browsers until a signal ends it."""
    index: Any = {"embed": options.embed, "dims": options.dims, "fields": ["text"]}
    answer = ModelAnswer() if os.environ.get("OPENAI_API_KEY") else answer_by_rules
    # Without the variable sessions end with the process: users log in again.
    key = os.environ.get("WEB_CHAT_KEY", "").encode() or secrets.token_bytes(32)
    async with MongoMemory.from_conn_string(uri, db_name=options.db, index=index) as memory:
        await memory.asetup()  # another embedder than that of the memories is noticed now
        app = create_app(Answers(memory, answer), key, ["127.0.0.1", "localhost", options.host])
        print(f"http://{options.host}:{listener.getsockname()[1]} (Ctrl-C ends)", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    """Run the web chat. Ends with one line where it cannot begin."""
    options = parse()
    try:
        listener = socket.create_server((options.host, options.port))
    except OSError as error:
        sys.exit(f"web_chat: no listening on {options.host}:{options.port}: {error.strerror}")
    try:
        with listener:
            asyncio.run(serve(options, local_uri(), listener))
    except TROUBLES as trouble:
        sys.exit(f"web_chat: {type(trouble).__name__}: {short(str(trouble), 300)}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
