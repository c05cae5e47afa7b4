"""A real HTTP server on loopback that speaks the part of the OpenAI protocol that mongomem and its
examples use.

    POST /v1/embeddings           a bag of hashed words, as floats or base64, with `dimensions`
    POST /v1/chat/completions     whole or streamed; `reply` decides what the assistant says, and
                                  which tools it calls

It keeps what it was asked, holds the limits that the API documents, and fails, lags or answers with
the wrong size where a test says so. ``PYTHONPATH=tests python -m support.openai_server`` serves
until interrupted, for trying an example by hand."""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

from typing_extensions import Self

from support.bag_of_words import bag_of_words

MAX_INPUTS = 2048
MAX_INPUT_TOKENS = 8192
MAX_REQUEST_TOKENS = 300_000
DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

Body = dict[str, Any]

Reply = str | Body | Iterable[str]
"""What an assistant says: a text, a message with its `tool_calls`, or pieces of a text, each sent
when it is there.
"""

REFUSALS: dict[str, tuple[int, Any]] = {
    "DashScope": (
        400,
        {
            "error": {
                "message": "<400> InternalError.Algo.InvalidParameter: Value error, batch size is "
                "invalid, "
                "it should not be larger than {most}.: input.contents",
                "type": "InvalidParameter",
                "param": None,
                "code": "InvalidParameter",
            }
        },
    ),
    "TEI": (
        422,
        {
            "error": "batch size {count} > maximum allowed batch size {most}",
            "error_type": "Validation",
        },
    ),
    "TEI as OpenAI": (
        413,
        {"message": "batch size {count} > maximum allowed batch size {most}", "type": "Validation"},
    ),
    "SiliconFlow": (
        400,
        {"code": 20042, "message": "input batch size {count} > maximum allowed batch size {most}"},
    ),
    "Cohere": (
        400,
        {
            "message": (
                "invalid request: total number of texts must be at most {most} - received {count}"
            )
        },
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "[{{'type': 'too_long', 'loc': ('body', 'input', 'list[str]'), 'msg': "
            "'List should have at most {most} items after validation, not {count}'}}]",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "Mistral": (
        422,
        {
            "error": {
                "message": "Value should have at most {most} items after validation, not {count}",
                "type": "invalid_request_error",
                "param": "input",
                "code": "array_above_max_length",
            }
        },
    ),
    "Azure": (
        400,
        {
            "error": {
                "message": "Too many inputs. The max number of inputs is {most}.  We hope to "
                "increase the number of "
                "inputs per request soon.",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        },
    ),
    "Gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": (
                        "* BatchEmbedContentsRequest.requests: at most {most} requests can "
                        "be in one batch\n"
                    ),
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    "a proxy": (413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
}
"""What servers answer to more texts than they take: status and body, as users of them reported."""

CREATED = 1_900_000_000
"""When completions say that they were made: nobody reads it."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it arrived, failed ones too."""

    path: str
    headers: dict[str, str]
    body: Body


class RefusedError(Exception):
    """What the server answers with an error status."""

    def __init__(
        self, status: int, message: str, code: str | None = None, body: Any = None
    ) -> None:
        super().__init__(message)
        self.status, self.body = status, _error(message, code) if body is None else body


def say_what_was_said(messages: list[Body]) -> str:
    """Answer with what the user said last, and the system prompt it was said under."""
    said = {message["role"]: message["content"] for message in messages}
    return f"You said: {said.get('user', '')}\n{said.get('system', '')}".strip()


class OpenAIServer:
    """The server, running while its ``with`` block does. Its attributes may be changed at any time.

    Attributes:
        requests: Everything that was asked, oldest first.
        reply: Messages of a chat to the assistant's answer: of a stream all kinds but a message.
        wrong_dimensions: Size of the vectors, whatever was asked for.
        most_inputs: How many texts a request may hold, and in whose words more are refused: a key
            of `REFUSALS`.
        delay: Seconds before every answer.
    """

    def __init__(
        self, reply: Callable[[list[Body]], Reply] = say_what_was_said, *, port: int = 0
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.reply = reply
        self.wrong_dimensions: int | None = None
        self.most_inputs: tuple[int, str] | None = None
        self.delay = 0.0
        self._failures: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def base_url(self) -> str:
        """What OPENAI_BASE_URL must say."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def fail(self, status: int, *, times: int = 1, retry_after_ms: int = 10) -> None:
        """Answer the next requests with an error status; the client is told to come back soon."""
        self._failures += [(status, str(retry_after_ms))] * times

    @property
    def sizes(self) -> list[int]:
        """How many texts each request for embeddings held."""
        return [len(request.body["input"]) for request in self.requests if "input" in request.body]

    def answer(self, request: RecordedRequest) -> tuple[int, dict[str, str], Any]:
        """Give status, headers and body for one request."""
        with self._lock:
            self.requests.append(request)
            failure = self._failures.pop(0) if self._failures else None
        time.sleep(self.delay)
        if failure is not None:
            return (
                failure[0],
                {"retry-after-ms": failure[1]},
                _error(f"Told to fail with {failure[0]}", None),
            )
        try:
            return 200, {}, self._answer(request)
        except RefusedError as refused:
            return refused.status, {}, refused.body

    def _answer(self, request: RecordedRequest) -> Body | Iterator[str]:
        if not request.headers.get("authorization", "").startswith("Bearer "):
            raise RefusedError(401, "You didn't provide an API key", "invalid_api_key")
        if request.path == "/v1/embeddings":
            return self._embed(request.body)
        if request.path == "/v1/chat/completions":
            return self._chat(request.body)
        raise RefusedError(404, f"Unknown request URL: POST {request.path}")

    def _embed(self, body: Body) -> Body:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self._check_count(len(texts))
        tokens = _checked_tokens(texts)
        dims = body.get("dimensions") or DIMENSIONS.get(body["model"], 1536)
        if "dimensions" in body and not body["model"].startswith("text-embedding-3"):
            raise RefusedError(400, "This model does not support specifying dimensions.")
        vectors = bag_of_words(self.wrong_dimensions or dims)(texts)
        encode = _base64 if body.get("encoding_format") == "base64" else list
        data = [
            {"object": "embedding", "index": i, "embedding": encode(vector)}
            for i, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    def _check_count(self, count: int) -> None:
        most, who = self.most_inputs or (count, "")
        if count > most:
            status, body = REFUSALS[who]
            raise RefusedError(status, "", body=_filled(body, count=count, most=most))

    def _chat(self, body: Body) -> Body | Iterator[str]:
        reply = self.reply(body["messages"])
        completion = {
            "id": f"chatcmpl-{len(self.requests)}",
            "created": CREATED,
            "model": body["model"],
        }
        if body.get("stream"):
            return _stream(completion, [reply] if isinstance(reply, str) else reply)
        message = reply if isinstance(reply, dict) else {"content": "".join(reply)}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": None, "refusal": None, **message},
            "finish_reason": finish,
            "logprobs": None,
        }
        return {
            **completion,
            "object": "chat.completion",
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _stream(completion: Body, pieces: Iterable[str]) -> Iterator[str]:
    """Give the server-sent events of a streamed completion."""
    for piece in pieces:
        choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
        chunk = {**completion, "object": "chat.completion.chunk", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _handler_of(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept open, as the API does
        wbufsize = -1  # headers and body in one packet
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, extra, answer = server.answer(RecordedRequest(self.path, headers, body))
            if isinstance(answer, Iterator):
                self._send_stream(answer)
                return
            kind = "text/html" if isinstance(answer, str) else "application/json"
            payload = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {
                **extra,
                "content-type": kind,
                "content-length": len(payload),
            }.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(payload)

        def _send_stream(self, events: Iterator[str]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in chain(map(str.encode, events), [b""]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: `requests` has it all."""

    return Handler


def _checked_tokens(texts: list[str]) -> int:
    if not 1 <= len(texts) <= MAX_INPUTS:
        raise RefusedError(
            400, f"'$.input' is invalid: expected 1 to {MAX_INPUTS} inputs, got {len(texts)}"
        )
    if "" in texts:
        raise RefusedError(400, "'$.input' is invalid: input cannot be an empty string")
    tokens = [_tokens(text) for text in texts]
    if max(tokens) > MAX_INPUT_TOKENS:
        raise RefusedError(400, f"This model's maximum context length is {MAX_INPUT_TOKENS} tokens")
    if sum(tokens) > MAX_REQUEST_TOKENS:
        raise RefusedError(
            400, f"Requested {sum(tokens)} tokens, max {MAX_REQUEST_TOKENS} tokens per request"
        )
    return sum(tokens)


def _tokens(text: str) -> int:
    """Count as English prose is: four bytes a token; other characters at their worst, a token per
    byte.
    """
    rare = sum(len(character.encode()) for character in text if not character.isascii())
    return max(1, rare + sum(map(str.isascii, text)) // 4)


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _filled(body: Any, **numbers: int) -> Any:
    """Put numbers into every text of a body."""
    if isinstance(body, dict):
        return {name: _filled(value, **numbers) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, **numbers) for value in body]
    return body.format(**numbers) if isinstance(body, str) else body


def _error(message: str, code: str | None) -> Body:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    }


if __name__ == "__main__":
    with OpenAIServer(port=8399) as running:
        print(f"OPENAI_BASE_URL={running.base_url} OPENAI_API_KEY=any")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
