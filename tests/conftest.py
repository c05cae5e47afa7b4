"""What every test of the suite can ask for: a real server, and a database of its own on it.

test_architecture  the shape of the package itself
unit/              modules by themselves, without a server; folders as in mongomem
engine/            runners and event loops, on every kind of client
backup/            exports and imports of lines of JSON
migration/         data of other packages, copied by the library and by the command line
command_line/      the commands, as processes and in this one
schema/            indexes, migrations, collections that are somebody else's
checkpoint/        the saver, on real servers and every kind of client
store/             the store likewise
cache/             the cache likewise
telemetry/         spans and lines of slow calls
local_server/      the embedded server
acceptance/        both memories as users meet them: connections, rights, agents, the examples, the
                   documents, the notebooks
support/           what tests share; no test is there
fixtures/          documents that past versions stored
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pymongo import MongoClient

from support.databases import drop, made_in_memory
from support.openai_server import OpenAIServer

if sys.version_info < (3, 11):
    # deepagents, the server of LangGraph, and the saver that a notebook compares with, are for
    # Python 3.11 and newer
    collect_ignore = [
        "acceptance/test_clients_deepagents.py",
        "acceptance/test_langgraph_dev.py",
        "acceptance/test_notebooks.py",
        "migration/test_official_packages.py",
    ]


LONGEST = (
    "checkpoint/test_damage.py",
    "store/test_damage.py",
    "acceptance/test_support_bot.py",
    "local_server/test_authentication.py",
    "local_server/test_server.py",
    "store/test_against_memory_store.py",
    "acceptance/test_chatbot.py",
    "checkpoint/test_integrity.py",
    "store/test_hostile_arguments.py",
    "acceptance/test_docs.py",
    "acceptance/test_notebooks.py",
    "acceptance/test_web_chat_browser.py",
    "acceptance/test_langgraph_dev.py",
    "migration/test_command.py",
    "command_line/test_changes.py",
    "command_line/test_interrupted_changes.py",
    "command_line/test_queries.py",
    "command_line/test_common.py",
    "command_line/test_doctor.py",
    "checkpoint/test_crashes.py",
    "checkpoint/test_interleavings.py",
    "checkpoint/test_subgraph_histories.py",
    "checkpoint/test_values.py",
    "engine/test_loops.py",
    "acceptance/test_failover.py",
    "acceptance/test_tenants.py",
)
"""The files that take longest, which begin: workers that take file after file then end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, and leave the others in their order."""
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


@pytest.fixture(scope="session")
def mongo_uri() -> Iterator[str]:
    """The server of the suite: the one MONGODB_URI names, or a real mongod that starts and ends
    with the session.
    """
    if uri := os.environ.get("MONGODB_URI"):
        yield uri
        return
    from mongomem.local_server.server import LocalServer

    # Thrown away by its supervisor, whatever ends this process: memory that is full of what dead
    # sessions left is missing on the whole machine.
    server = LocalServer(throw_away=True)
    with made_in_memory():
        server.start()
    with server:
        yield server.uri


@pytest.fixture
def no_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests of the local server start one, even where the others use a server elsewhere."""
    monkeypatch.delenv("MONGODB_URI", raising=False)


@pytest.fixture
def free_ports() -> list[int]:
    """Three ports of this machine on which nothing listens."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="session")
def mongo_client(mongo_uri: str) -> Iterator[MongoClient]:
    """One client for the session, to look at what is stored and to drop it."""
    with MongoClient(mongo_uri) as client:
        yield client


@pytest.fixture(scope="module")
def shared_database(mongo_client: MongoClient) -> Iterator[str]:
    """One database for a module: to make and drop one takes longer than most tests."""
    name = f"test_{uuid4().hex}"
    yield name
    drop(mongo_client, name)


@pytest.fixture
def database_name(request: pytest.FixtureRequest, mongo_client: MongoClient) -> Iterator[str]:
    """A database that nobody else uses, dropped afterwards; in a module that shares one, emptied
    afterwards.
    """
    if request.node.get_closest_marker("shares_database") is not None:
        name = request.getfixturevalue("shared_database")
        yield name
        for collection in mongo_client[name].list_collection_names():
            mongo_client[name][collection].delete_many({})
        return
    name = f"test_{uuid4().hex}"
    yield name
    drop(mongo_client, name)


@pytest.fixture
def target(mongo_client: MongoClient, database_name: str) -> Iterator[str]:
    """A second database."""
    name = f"{database_name}_to"
    yield name
    drop(mongo_client, name)


@pytest.fixture
def openai_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server of embeddings, where ``"openai:MODEL"`` asks in this test."""
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        yield running
