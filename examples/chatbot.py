"""A chatbot that remembers: within a thread by its checkpoints, across threads by its store, both
in MongoDB.

    python examples/chatbot.py                              at the keyboard
    python examples/chatbot.py examples/conversation.txt    lines of a file

What a LangGraph application consists of is in ``graph.py``, who answers in ``responder.py``, the
commands in ``conversation.py``. Here they get a memory and lines to answer.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conversation import NO_NAME, Conversation, is_name, short


def keyboard(conversation: Conversation) -> Iterator[str]:
    """Ask for lines until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  it gives `input` editing and a history
    with suppress(EOFError):
        while True:
            yield input(conversation.prompt)


def recorded(lines: Iterable[str], conversation: Conversation) -> Iterator[str]:
    """Show each line as if it were typed; lines that begin with # are remarks."""
    for line in lines:
        if line.startswith("#"):
            print(f"\n{line.rstrip()}")
        elif line.strip():
            print(f"{conversation.prompt}{short(line)}")
            yield line


def converse(
    conversation: Conversation, lines: Iterable[str], troubles: tuple[type[Exception], ...]
) -> None:
    """Answer line by line. Trouble with the model or the database costs a line, and the chat goes
    on.
    """
    for line in filter(None, map(str.strip, lines)):
        if line == "/quit":
            break
        try:
            print(conversation.answer(line))
        except troubles as trouble:
            print(f"That failed: {type(trouble).__name__}: {short(str(trouble), 300)}")


@contextmanager
def open_lines(file: str | None, conversation: Conversation) -> Iterator[Iterator[str]]:
    """Give the lines of a file, of the keyboard, or of whatever standard input is."""
    if file is None and sys.stdin and sys.stdin.isatty():
        yield keyboard(conversation)
        return
    source = file or (0 if sys.stdin else os.devnull)
    with open(source, encoding="utf-8", errors="replace", closefd=source != 0) as lines:
        yield recorded(lines, conversation)


def chat(options: argparse.Namespace) -> None:
    """Open the memory and talk, until the lines end."""
    # Imported here, where Ctrl-C is caught: these take a second.
    from openai import OpenAIError
    from pymongo.errors import PyMongoError

    from graph import build_graph
    from mongomem import MongoMemory
    from mongomem.errors import MongomemError
    from mongomem.local_server.server import local_uri
    from responder import make_responder

    index: Any = {"embed": options.embed, "dims": options.dims, "fields": ["text"]}
    troubles = (OpenAIError, PyMongoError, MongomemError)
    try:
        responder = make_responder()
        with MongoMemory.from_conn_string(local_uri(), db_name=options.db, index=index) as memory:
            graph = build_graph(responder).compile(checkpointer=memory.saver, store=memory.store)
            conversation = Conversation(graph, memory, options.user)
            print(
                f"{responder.introduction}\n{conversation.greeting()} (/help lists the commands.)"
            )
            with open_lines(options.file, conversation) as lines:
                converse(conversation, lines, troubles)
    except troubles as trouble:
        sys.exit(f"chatbot: {short(str(trouble), 600)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A chatbot that remembers.")
    parser.add_argument(
        "file", nargs="?", help="read the lines of this file instead of the keyboard"
    )
    parser.add_argument("--user", default="guest", help="who you are (%(default)s)")
    parser.add_argument(
        "--db",
        default=os.environ.get("MONGOMEM_DB") or "chatbot",
        help="the database (%(default)s)",
    )
    parser.add_argument(
        "--embed", default="local", help="the embedder, e.g. openai:text-embedding-3-small"
    )
    parser.add_argument(
        "--dims", type=int, default=256, help="size of the embeddings (%(default)s)"
    )
    options = parser.parse_args()
    if not is_name(options.user):
        parser.error(NO_NAME)
    if options.file is not None and (
        Path(options.file).is_dir() or not os.access(options.file, os.R_OK)
    ):
        parser.error(f"{options.file} cannot be read")
    return options


def main() -> int:
    """Run the chatbot; return the exit code."""
    if sys.stdin:
        sys.stdin.reconfigure(errors="replace")
    sys.stdout.reconfigure(errors="replace", line_buffering=True)
    try:
        chat(_options())
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what follows is quick
        print("\nGoodbye.")
        return 130
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
