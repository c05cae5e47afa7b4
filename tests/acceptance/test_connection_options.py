"""Opening a connection: which database, what is said where nobody answers, and which options there
are.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from typing import Any

import mongomock
import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.monitoring import CommandListener

import mongomem
from mongomem import (
    ConfigurationError,
    MongoCache,
    MongoMemory,
    MongoSaver,
    MongoStore,
    ServerUnavailableError,
)
from mongomem.arguments import shown
from mongomem.engine.client_context import Connection
from mongomem.engine.clients import database_name_of
from mongomem.engine.runners import Concerns, runners_for
from mongomem.errors import MongomemError
from mongomem.testing import MongomockDatabase
from support.databases import with_database

# PyMongo 4.20 leaves open the socket of an async monitor that is closed while it connects.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

THREAD: Any = {"configurable": {"thread_id": "t"}}
EVERYTHING = (MongoMemory, MongoSaver, MongoStore)
SECRET = "s3cret"


@pytest.fixture(scope="module", autouse=True)
def what_was_there_before_is_left_alone() -> Iterator[None]:
    """Spare the collector what has been imported, a quarter of a second after each test."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def what_is_left_is_collected_here() -> Iterator[None]:
    """Collect what a test leaves where the filter of this module holds."""
    yield
    gc.collect()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def enter(opening: Any, kind: str) -> Any:
    """Enter an opening, and leave it again."""
    if kind == "async":
        async with opening as one:
            return one
    with opening as one:
        return one


# Which database.


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("opened", EVERYTHING)
@pytest.mark.parametrize(
    ("named", "given", "used"),
    [
        ("of_uri", None, "of_uri"),
        ("of_uri", "given", "given"),
        ("", None, "mongomem"),
        ("admin", None, "mongomem"),
        ("local", None, "mongomem"),
    ],
)
async def test_the_database_is_the_one_given_or_that_of_the_uri(
    kind: str, opened: Any, named: str, given: str | None, used: str, mongo_uri: str
) -> None:
    options = {} if given is None else {"db_name": given}
    one = await enter(opened.from_conn_string(with_database(mongo_uri, named), **options), kind)
    runners = one._runners
    database = runners.run.database if kind == "sync" else runners.arun.database
    assert database.name == used


async def test_clients_of_the_caller_name_it_too() -> None:
    for uri, used in (
        ("mongodb://127.0.0.1:1/mine", "mine"),
        ("mongodb://127.0.0.1:1", "mongomem"),
    ):
        async with AsyncMongoClient(uri) as awaiting:
            with MongoClient(uri, connect=False) as blocking:
                for client in (awaiting, blocking, mongomock.MongoClient(uri)):
                    assert database_name_of(client, None) == used
                    assert database_name_of(client, "given") == "given"
                    assert MongoMemory(client, db_name=None).store._runners is not None


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a b",
        "a.b",
        "a$b",
        "a/b",
        "a\\b",
        'a"b',
        "a\0b",
        "x" * 64,
        "ü" * 40,
        "\ud800",
        5,
        b"a",
        ["a"],
        True,
    ],
)
@pytest.mark.parametrize("made", EVERYTHING)
def test_what_is_no_name_of_a_database_is_refused(made: Any, wrong: Any) -> None:
    for client in (MongoClient(connect=False), mongomock.MongoClient()):
        with pytest.raises(ConfigurationError, match="db_name"):
            made(client, wrong)
        client.close()


def test_a_memory_has_the_drivers_and_so_the_concerns_of_its_saver(mongo_uri: str) -> None:
    concerns = Concerns()
    with MongoClient(mongo_uri) as client:
        memory = MongoMemory(client, "d", saver_options={"concerns": concerns})
        assert memory._runners is memory.saver._runners
    assert isinstance(
        runners_for(mongomock.MongoClient(), None, concerns).run.database, MongomockDatabase
    )  # type: ignore[attr-defined]


# Whether anybody answers.


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("opened", EVERYTHING)
async def test_where_nobody_answers_one_error_says_so(
    kind: str, opened: Any, closed_port: int
) -> None:
    uri = f"mongodb://ada:{SECRET}@127.0.0.1:{closed_port}/db?authSource=admin"
    opening = opened.from_conn_string(uri, open_timeout=0.5)
    with pytest.raises(ServerUnavailableError) as caught:
        await enter(opening, kind)
    said = str(caught.value)
    assert (
        f"{opened.__name__}: no MongoDB server answers within 0.5 s. 127.0.0.1:{closed_port}: "
        in said
    )
    assert "[Errno " in said
    assert len(said) < 400
    assert SECRET not in said
    assert "Topology" not in said
    assert caught.value.__suppress_context__
    assert isinstance(caught.value, ConnectionError)
    assert opening._opened == {}


async def test_connecting_says_the_same(closed_port: int) -> None:
    uri = f"mongodb://127.0.0.1:{closed_port},localhost:{closed_port}/?replicaSet=mine"
    with pytest.raises(
        ServerUnavailableError, match=f"127.0.0.1:{closed_port}: .*; localhost:{closed_port}: "
    ):
        MongoMemory.connect(uri, open_timeout=0.5)
    with pytest.raises(ServerUnavailableError, match="open_timeout= says how long to wait"):
        await MongoMemory.aconnect(uri, open_timeout=0.5)


WAITS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "nobody says it": ("?appName=a", {}, 5),
    "the connection string": ("?appName=a&serverSelectionTimeoutMS=300", {}, 0.3),
    "in other letters": ("?serverselectiontimeoutms=300", {}, 0.3),
    "longer than by default": ("?serverSelectionTimeoutMS=30000", {}, 30),
    "an option of the client": (
        "?serverSelectionTimeoutMS=9",
        {"serverSelectionTimeoutMS": 300},
        0.3,
    ),
    "what bounds every operation": ("?timeoutMS=300&serverSelectionTimeoutMS=9000", {}, 0.3),
    "no bound of operations": ("?timeoutMS=0&serverSelectionTimeoutMS=300", {}, 0.3),
    "what is no number": ("?timeoutMS=soon&serverSelectionTimeoutMS=-9", {}, 5),
    "not at all": ("?serverSelectionTimeoutMS=0", {}, 0.001),
    "given beside it": (
        "?serverSelectionTimeoutMS=9000&timeoutMS=9000",
        {"open_timeout": 0.3},
        0.3,
    ),
    "not asked": ("?serverSelectionTimeoutMS=9000", {"open_timeout": None}, None),
}


@pytest.mark.filterwarnings("ignore:.*must be:UserWarning")
@pytest.mark.parametrize("case", WAITS)
def test_entering_waits_as_long_as_the_user_says(case: str) -> None:
    query, options, seconds = WAITS[case]
    connection = MongoMemory.from_conn_string(
        f"mongodb://127.0.0.1:1/{query}", connect=False, **options
    )._connection
    client = connection.make(MongoClient)
    assert connection.wait(client) == seconds
    client.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("opened", [*EVERYTHING, MongoCache])
async def test_a_connection_string_says_how_long(kind: str, opened: Any, closed_port: int) -> None:
    uri = f"mongodb://127.0.0.1:{closed_port}/?serverSelectionTimeoutMS=300"
    with pytest.raises(ServerUnavailableError, match=r"no MongoDB server answers within 0\.3 s\."):
        await enter(opened.from_conn_string(uri), kind)


async def test_a_server_that_accepts_and_says_nothing_is_waited_for_no_longer(
    closed_port: int,
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnavailableError):
            MongoSaver.from_conn_string(uri, open_timeout=0.5).__enter__()
        with pytest.raises(ServerUnavailableError):
            await MongoSaver.from_conn_string(uri, open_timeout=0.5).__aenter__()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_none_does_not_ask(kind: str, closed_port: int) -> None:
    await enter(
        MongoMemory.from_conn_string(f"mongodb://127.0.0.1:{closed_port}", open_timeout=None), kind
    )


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "5", True, [5], 10**9])
def test_what_is_no_time_to_wait_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="open_timeout"):
        MongoSaver.from_conn_string("mongodb://127.0.0.1:1", open_timeout=wrong)


def test_nothing_is_opened_before_it_is_entered(closed_port: int) -> None:
    """So it can stand in a module, and its server need not run yet."""
    for opened in EVERYTHING:
        assert opened.from_conn_string(f"mongodb://127.0.0.1:{closed_port}")._opened == {}


class Asked(CommandListener):
    """The commands that were sent, but for those that begin and end a session."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        if event.command_name not in ("endSessions", "saslContinue"):
            self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_server_is_asked_once_and_by_whom_it_is_asked(kind: str, mongo_uri: str) -> None:
    asked = Asked()
    opening = MongoSaver.from_conn_string(mongo_uri, event_listeners=[asked])
    if kind == "async":
        async with opening as one, opening as other:
            assert one is other
            client = one._runners.arun.database.client
    else:
        with opening as one, opening as other:
            assert one is other
            client = one._runners.run.database.client
    assert asked.names == ["listDatabases"]
    names = client.options.pool_options.metadata["driver"]
    assert names["name"].split("|").count("mongomem") == 1
    assert len(names["name"].split("|")) == len(names["version"].split("|"))


async def test_the_servers_of_a_client_that_is_given_are_told_once(mongo_uri: str) -> None:
    with MongoClient(mongo_uri) as client:
        for _ in range(3):
            MongoMemory(client)
        assert (
            client.options.pool_options.metadata["driver"]["name"].split("|").count("mongomem") == 1
        )
        MongoSaver(client).get_tuple(THREAD)
        named = client.admin.aggregate(
            [{"$currentOp": {"localOps": True, "idleConnections": True}}]
        ).to_list()
        assert any(
            "mongomem" in one.get("clientMetadata", {}).get("driver", {}).get("name", "")
            for one in named
        )


# Which options.


SUGGESTED = [
    (MongoStore, "index_config", "Did you mean index=...?"),
    (MongoStore, "ttl_config", "Did you mean ttl=...?"),
    (MongoStore, "collection_name", "Did you mean collection_prefix=...?"),
    (MongoSaver, "checkpoint_collection_name", "Did you mean collection_prefix=...?"),
    (MongoSaver, "writes_collection_name", "Did you mean collection_prefix=...?"),
    (MongoSaver, "metadata_index", "Did you mean metadata_indexes=...?"),
    (MongoSaver, "database_name", "Did you mean db_name=...?"),
    (MongoSaver, "opentimeout", "Did you mean open_timeout=...?"),
    (MongoMemory, "tread_ttl", "Did you mean thread_ttl=...?"),
    (MongoMemory, "metadata_indexes", "Did you mean saver_options={'metadata_indexes': ...}?"),
    (MongoMemory, "index_cache_bytes", "Did you mean store_options={'index_cache_bytes': ...}?"),
    (MongoMemory, "index_config", "Did you mean index=...?"),
    (MongoMemory, "zzz", "has no option 'zzz'. There are: db_name, index, serde"),
    (MongoMemory, "client", "has no option 'client'."),
]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("opened", "option", "said"), SUGGESTED)
async def test_an_option_that_nobody_has_is_named_with_the_one_that_was_meant(
    kind: str, opened: Any, option: str, said: str
) -> None:
    opening = opened.from_conn_string(f"mongodb://ada:{SECRET}@127.0.0.1:1", **{option: SECRET})
    with pytest.raises(ConfigurationError) as caught:
        await enter(opening, kind)
    assert f"{opened.__name__} has no option '{option}'" in str(caught.value)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert opening._opened == {}


@pytest.mark.parametrize(
    "options",
    [
        {"maxPoolSize": "many"},
        {"appname": 5},
        {"event_listeners": 3},
        {"host": "h"},
        {"tls": True, "ssl": False},
    ],
)
def test_an_option_of_the_client_that_is_wrong_is_one_error(options: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot make a client of its "):
        MongoSaver.from_conn_string("mongodb://127.0.0.1:1", **options).__enter__()


@pytest.mark.parametrize("holder", ["saver_options", "store_options"])
@pytest.mark.parametrize(
    "wrong",
    [{"zzz": 1}, {"db_name": "d"}, {"client": 1}, {"collection_prefix": "p"}, {5: 1}, [], "a"],
)
def test_options_of_saver_and_store_are_looked_at(holder: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=holder):
        MongoMemory(mongomock.MongoClient(), **{holder: wrong})


def test_options_of_saver_and_store_reach_them() -> None:
    options = {
        "saver_options": {"metadata_indexes": ["user_id", "kind"]},
        "store_options": {"index_cache_bytes": 5},
    }
    memory = MongoMemory(mongomock.MongoClient(), **options)  # type: ignore[arg-type]
    assert memory.saver._options.metadata_keys == ("user_id", "kind")
    assert memory.store._context().index_cache.limit == 5


# What is never said.


LEAKY = [
    f"mongodb://ada:{SECRET}@127.0.0.1:1",
    f"mongodb://ada:a/{SECRET}@127.0.0.1:1/db",
    f"mongodb://ada:a@{SECRET}@127.0.0.1:1/db",
    f"mongodb://ada:a:{SECRET}@127.0.0.1:1/db",
    f"mongodb://ada:a%{SECRET}@127.0.0.1:1/db",
    f"mongodb://ada:a?{SECRET}@127.0.0.1:1/db",
    f"mongodb://ada:a\"'{SECRET}@127.0.0.1:1/a b",
    f"mongodb://ada:{SECRET}@127.0.0.1:99999999",
    f"mongodb://ada:{SECRET}@127.0.0.1:port",
    f"mongodb+srv://ada:{SECRET}@a.b.invalid/db",
    f"http://ada:{SECRET}@127.0.0.1:1",
    f"ada:{SECRET}@127.0.0.1",
    f"mongodb://ada:{SECRET}@",
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyMongo, about options
@pytest.mark.parametrize("uri", LEAKY)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_no_error_says_a_password(uri: str, kind: str) -> None:
    with pytest.raises(MongomemError) as caught:
        await enter(MongoSaver.from_conn_string(uri, open_timeout=0.3), kind)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "wrong",
    [
        f"mongodb://ada:{SECRET}@h".encode(),
        [f"mongodb://ada:{SECRET}@h"],
        {"uri": SECRET},
        None,
        "",
        5,
        MongoClient("mongodb://h", username="ada", password=SECRET, connect=False),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
@pytest.mark.parametrize("opened", EVERYTHING)
def test_what_is_no_connection_string_is_refused_and_not_shown(opened: Any, wrong: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="needs a connection string such as mongodb://"
    ) as caught:
        opened.from_conn_string(wrong)
    assert SECRET not in str(caught.value)


def test_a_connection_does_not_show_what_it_connects_by() -> None:
    connection = Connection("MongoSaver", f"mongodb://ada:{SECRET}@h", {"password": SECRET})
    assert SECRET not in repr(connection)
    assert SECRET not in repr(
        MongoSaver.from_conn_string(f"mongodb://ada:{SECRET}@h", password=SECRET)
    )


@pytest.mark.parametrize("uri", [uri for uri in LEAKY if "://" in uri])
def test_what_is_shown_of_a_connection_string_holds_no_password(uri: str) -> None:
    assert SECRET not in shown(uri)
    assert SECRET not in shown([uri])


def test_the_new_error_is_public() -> None:
    assert mongomem.ServerUnavailableError is ServerUnavailableError
