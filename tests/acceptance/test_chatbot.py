"""The example chatbot, as a user runs it: a process that reads lines and says what it remembers."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mongomem import MongoMemory
from support.openai_server import OpenAIServer, RecordedRequest
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CHATBOT = [sys.executable, str(EXAMPLES / "chatbot.py")]
CONVERSATION = EXAMPLES / "conversation.txt"
NOTHING = "You have told me nothing about that."

Chat = Callable[..., str]


@pytest.fixture
def environment(mongo_uri: str, database_name: str) -> dict[str, str]:
    """The environment of a user who has a server and no key."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")
    }
    ours = {
        "MONGODB_URI": mongo_uri,
        "MONGOMEM_DB": database_name,
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }
    return {**inherited, **ours}


@pytest.fixture
def chat(environment: dict[str, str]) -> Chat:
    """Run the chatbot on some input, see it end well, and return what it printed."""

    def run(*arguments: str, lines: bytes | str = b"", code: int = 0, **variables: str) -> str:
        given = lines.encode() if isinstance(lines, str) else lines
        ran = subprocess.run(
            [*CHATBOT, *arguments],
            input=given,
            capture_output=True,
            env={**environment, **variables},
            timeout=HANG_SECONDS,
        )
        errors = ran.stderr.decode()
        assert (ran.returncode, "Traceback" in errors) == (code, False), errors
        return ran.stdout.decode() + errors

    return run


def replies(output: str, line: str) -> list[str]:
    """Return what was printed after each time that a line was said, up to the next prompt or
    remark.
    """
    said = re.findall(
        rf"> {re.escape(line)}\n(.*?)(?=\n\S+ [0-9a-f]{{8}}> |\n\n#|\n?\Z)", output, re.DOTALL
    )
    assert said, f"{line!r} was never said in:\n{output}"
    return said


def reply(output: str, line: str) -> str:
    (only,) = replies(output, line)
    return only


def test_the_conversation_of_the_demo(chat: Chat) -> None:
    first = chat(str(CONVERSATION))
    assert "rules" in first.splitlines()[0]
    assert replies(first, "/user ada")[0] == "Hello ada, we have not met before."
    assert replies(first, "Can I eat this peanut cake?") == [
        'You told me: "I am allergic to peanuts"',
        NOTHING,
    ]
    assert replies(first, "What is my name?") == ['You told me: "My name is Ada"', NOTHING]
    assert "Philadelphia" in replies(first, "Where do I live?")[1]
    of_ada, of_grace = (set(known.splitlines()) for known in replies(first, "/memories"))
    assert "  I have a dog called Brunel." in of_ada
    assert "  I have two cats, Cobol and Flow." in of_grace
    assert "  I live in Arlington." not in of_grace  # she moved
    assert not of_ada & of_grace
    assert [len(threads.splitlines()) for threads in replies(first, "/threads")] == [2, 2]

    second = chat(str(CONVERSATION))
    assert (
        replies(second, "/user ada")[0]
        == "Welcome back, ada. Known of you from before: 8 memories, 2 threads."
    )
    assert replies(second, "What is my name?")[1] == 'You told me: "My name is Grace."'
    assert [set(known.splitlines()) for known in replies(second, "/memories")] == [of_ada, of_grace]
    assert [len(threads.splitlines()) for threads in replies(second, "/threads")] == [4, 4]


def test_time_travel_forks_the_thread_and_keeps_the_other_branch(chat: Chat) -> None:
    there = "One.\nTwo.\nThree.\n/back 1\nFour.\nWhat did I say?\n"
    output = chat(lines=there + "/back 3\nWhat did I just say?\n/history\n")
    assert reply(output, "/back 1") == "Back at: One."
    assert reply(output, "What did I say?") == 'In this thread you said: "One." "Four."'
    assert (
        reply(output, "What did I just say?") == 'In this thread you said: "One." "Two." "Three."'
    )
    history = reply(output, "/history")
    assert re.findall(r"(\d+) messages", history) == ["2", "4", "6", "4", "6", "8"]
    assert history.splitlines()[-1].startswith("* 6")


def test_another_process_goes_on_with_a_thread(chat: Chat) -> None:
    chat("--user", "ada", lines="The first line of all.\n/new\nThe second thread.\n")
    output = chat("--user", "ada", lines="/threads\n/open 2\nWhat did I say?\n/threads\n")
    before, after = (threads.splitlines() for threads in replies(output, "/threads"))
    assert [line.endswith("The first line of all.") for line in before] == [False, True]
    assert reply(output, "What did I say?") == 'In this thread you said: "The first line of all."'
    assert after[0].startswith("* 1")
    assert after[0].endswith("The first line of all.")


def test_users_never_see_each_other(chat: Chat) -> None:
    prying = "/user {}\nDo I like quinces?\n/memories\n/memories quinces\n/threads\n/open 1\n"
    output = chat(
        "--user", "u1", lines="I like quinces.\n" + prying.format("u10") + prying.format("u1")
    )
    of_another, _, of_hers = output.partition("> /user u10\n")[2].partition("> /user u1\n")
    assert "I like quinces." not in of_another
    assert reply(of_hers, "Do I like quinces?") == 'You told me: "I like quinces."'


@pytest.mark.parametrize("name", ["ada@example.com", "langgraph"])
def test_a_name_may_be_one_that_no_namespace_holds(chat: Chat, name: str) -> None:
    chat("--user", name, lines="I like quinces.\n")
    output = chat(lines=f"/user {name}\nDo I like quinces?\n/memories\n")
    assert reply(output, f"/user {name}").startswith(f"Welcome back, {name}. Known of you")
    assert reply(output, "Do I like quinces?") == 'You told me: "I like quinces."'
    assert reply(output, "/memories") == "  I like quinces."


def test_a_memory_of_another_program_is_shown(
    chat: Chat, mongo_uri: str, database_name: str
) -> None:
    index: Any = {"embed": "local", "dims": 256, "fields": ["text"]}
    with MongoMemory.from_conn_string(mongo_uri, db_name=database_name, index=index) as memory:
        memory.store.put(("ada", "memories"), "k", {"note": "tea"})
    output = chat("--user", "ada", lines="Hello.\n/memories\n")
    assert reply(output, "/memories") == "  {'note': 'tea'}"


MEGABYTE = b"x" * 1_000_000
NONSENSE = [
    *(
        b"",
        b"  \t ",
        b"\xff\xfe\x80 I like \xe9clairs",
        b"I like " + MEGABYTE,
        b"I am. " * 20_000,
        b"/" + MEGABYTE,
    ),
    *(
        b"What did I say?",
        b"/history",
        b"/back 999",
        b"/back x",
        b"/back",
        b"/back -1",
        b"/back \xc2\xb2",
        b"/open 7",
    ),
    *(
        b"/user",
        b"/user a/b",
        b"/user a\0b",
        b"/user " + MEGABYTE,
        b"/memories " + MEGABYTE,
    ),
    *(b"/dance", b"/", b"/help me", b"I \0 like", b"\xc3"),
]


def test_nonsense_costs_a_line_at_most(chat: Chat) -> None:
    output = chat(lines=b"\n".join(NONSENSE))
    assert "That failed" not in output
    assert len(output) < 10_000
    assert reply(output, "/back 999") == "There is no turn 999 (see /history)."
    assert reply(output, "/back x") == "There is no turn x (see /history)."
    assert reply(output, "/dance") == "There is no command /dance (see /help)."
    assert reply(output, "/user a/b").startswith("A user's name is 1 to 40 letters")
    assert len(reply(output, "/history").splitlines()) == 4


@pytest.mark.parametrize("lines", [b"", b"\xff"])
def test_input_may_end_anywhere(chat: Chat, lines: bytes) -> None:
    assert "we have not met before" in chat(lines=lines)


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "told"),
    [
        (["nowhere.txt"], {}, 2, "nowhere.txt cannot be read"),
        (["."], {}, 2, ". cannot be read"),
        (["--user", "a/b"], {}, 2, "1 to 40 letters"),
        (["--embed", "nonsense"], {}, 1, "nonsense"),
        ([], {"MONGODB_URI": "mongodb:///nonsense"}, 1, "chatbot: "),
        (
            [],
            {"MONGODB_URI": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"},
            1,
            "127.0.0.1:9",
        ),
    ],
)
def test_what_cannot_start_says_why(
    chat: Chat, arguments: list[str], variables: dict[str, str], code: int, told: str
) -> None:
    output = chat(*arguments, code=code, **variables)
    assert told in output.splitlines()[-1]


def test_a_reader_that_leaves(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*CHATBOT, str(CONVERSATION)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


class Terminal:
    """The chatbot at a keyboard."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            CHATBOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL
            ),  # jobs in the background ignore it
        )
        os.close(slave)
        self.shown = ""

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, text: str) -> None:
        """Wait until something is shown that was not before."""
        seen = len(self.shown)
        while text not in self.shown[seen:]:
            assert self._read(), f"it ended without {text!r}: {self.shown}"

    def _read(self) -> bool:
        """Take in what is shown; return False at its end."""
        ready, _, _ = select.select([self._master], [], [], HANG_SECONDS)
        if not ready:
            raise TimeoutError(self.shown)
        try:
            more = os.read(self._master, 4096)
        except OSError:  # how Linux says that nobody holds the other end
            more = b""
        self.shown += more.decode(errors="replace")
        return more != b""

    def interrupt(self) -> None:
        """Press Ctrl-C until it is noticed: between showing a prompt and waiting, `input` of
        CPython misses it.
        """
        seen = len(self.shown)
        while "Goodbye" not in self.shown[seen:]:
            os.kill(self._process.pid, signal.SIGINT)
            while (
                "Goodbye" not in self.shown[seen:] and select.select([self._master], [], [], 5)[0]
            ):
                assert self._read(), self.shown

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        while self._read():
            pass
        return self._process.wait(timeout=HANG_SECONDS)

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Terminal]:
    with closing(Terminal(environment)) as opened:
        yield opened


@pytest.mark.parametrize(("last_key", "code"), [(b"\x04", 0), (b"\x03", 130)])
def test_at_the_keyboard(terminal: Terminal, last_key: bytes, code: int) -> None:
    terminal.wait_for("> ")
    terminal.type(b"\xff\xfeMy name is Ada.\n")
    terminal.wait_for("> ")
    if last_key == b"\x03":
        terminal.interrupt()
    else:
        terminal.type(last_key)
    assert terminal.end() == code
    assert "I will remember" in terminal.shown
    assert "Traceback" not in terminal.shown


def test_ctrl_c_while_it_starts(environment: dict[str, str]) -> None:
    with closing(Terminal({**environment, "PYTHONPROFILEIMPORTTIME": "1"})) as terminal:
        terminal.wait_for("asyncio")  # into its imports, which Python then tells one by one
        terminal.interrupt()
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown


def asked(server: OpenAIServer, path: str) -> list[RecordedRequest]:
    return [request for request in server.requests if request.path == path]


def test_a_model_answers_and_its_memories_are_kept(chat: Chat) -> None:
    def model(messages: list[dict[str, str]]) -> str:
        if "teapot" in messages[-1]["content"]:
            return "Sure, in prose."
        return 'Here: {"reply": "Noted.", "memories": ["The user keeps bees."]}'

    embedding = ("--embed", "openai:text-embedding-3-small", "--dims", "512")
    with OpenAIServer(model) as server:
        key = {
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_MODEL": "a-model",
        }
        output = chat(*embedding, lines="I have bees.\nI like my teapot.\n/memories\n", **key)
        assert output.startswith("a-model at 127.0.0.1 answers.")
        assert reply(output, "I have bees.") == "Noted."
        assert reply(output, "I like my teapot.") == "Sure, in prose."
        assert reply(output, "/memories").splitlines() == [
            "  I like my teapot.",
            "  The user keeps bees.",
        ]
        assert {request.body["dimensions"] for request in asked(server, "/v1/embeddings")} == {512}
        last = asked(server, "/v1/chat/completions")[-1].body
        assert last["model"] == "a-model"
        assert "The user keeps bees." in last["messages"][0]["content"]
        said = [message["content"] for message in last["messages"][1:]]
        assert said == ["I have bees.", "Noted.", "I like my teapot."]


def test_errors_of_the_model_cost_a_turn(chat: Chat) -> None:
    with OpenAIServer(lambda _: "Fine.") as server:
        key = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": server.base_url}
        server.fail(400)
        output = chat(lines="Hello?\nHello again?\n" + "w" * 20_000, **key)
        assert reply(output, "Hello?").startswith("That failed: BadRequestError: ")
        assert reply(output, "Hello again?") == "Fine."
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}
        assert len(server.requests[-1].body["messages"][-1]["content"]) < 10_000
