"""Nobody gets anything from the local server without the key in its data directory; with it, every
state heals.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.uri_parser import parse_uri

from mongomem.errors import LocalServerError
from mongomem.local_server import orphan, replica_set
from mongomem.local_server.credentials import Credentials, read_credentials
from mongomem.local_server.node_directory import State, write_state
from mongomem.local_server.orphan import end_orphan
from mongomem.local_server.server import LocalServer, find_mongod
from support.local_data import connected, keys, write
from support.waits import HANG_SECONDS

pytestmark = pytest.mark.usefixtures("no_uri")

UNAUTHORIZED, AUTHENTICATION_FAILED = 13, 18

# What a stranger would try: to read, to write, to end the server, to become somebody, to change or
# to spy on it.
COMMANDS: Mapping[str, Mapping[str, Any]] = {
    "find": {"find": "t"},
    "aggregate": {"aggregate": "t", "pipeline": [], "cursor": {}},
    "insert": {"insert": "t", "documents": [{"_id": "stranger"}]},
    "update": {"update": "t", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]},
    "delete": {"delete": "t", "deletes": [{"q": {}, "limit": 0}]},
    "drop": {"drop": "t"},
    "dropDatabase": {"dropDatabase": 1},
    "createIndexes": {"createIndexes": "t", "indexes": [{"key": {"a": 1}, "name": "a"}]},
    "listDatabases": {"listDatabases": 1},
    "listCollections": {"listCollections": 1},
    "createUser": {"createUser": "stranger", "pwd": "x", "roles": ["root"]},
    "updateUser": {"updateUser": "mongomem", "pwd": "x"},
    "dropAllUsersFromDatabase": {"dropAllUsersFromDatabase": 1},
    "usersInfo": {"usersInfo": 1},
    "shutdown": {"shutdown": 1, "force": True},
    "replSetInitiate": {
        "replSetInitiate": {"_id": "mongomem", "members": [{"_id": 0, "host": "127.0.0.1:1"}]}
    },
    "replSetReconfig": {
        "replSetReconfig": {
            "_id": "mongomem",
            "version": 99,
            "members": [{"_id": 0, "host": "127.0.0.1:1"}],
        },
        "force": True,
    },
    "replSetStepDown": {"replSetStepDown": 60, "force": True},
    "replSetGetConfig": {"replSetGetConfig": 1},
    "replSetGetStatus": {"replSetGetStatus": 1},
    "applyOps": {"applyOps": [{"op": "i", "ns": "t.t", "o": {"_id": "stranger"}}]},
    "fsync": {"fsync": 1, "lock": True},
    "setParameter": {"setParameter": 1, "logLevel": 5},
    "getParameter": {"getParameter": "*"},
    "getLog": {"getLog": "global"},
    "serverStatus": {"serverStatus": 1},
    "currentOp": {"currentOp": 1},
    "killAllSessions": {"killAllSessions": []},
}
LOGINS = {
    "nobody": {},
    "a wrong password": {"username": "mongomem", "password": "x", "authSource": "admin"},
    "no such user": {"username": "root", "password": "x", "authSource": "admin"},
    "a node with a wrong key": {"username": "__system", "password": "x", "authSource": "local"},
    "an old mechanism": {
        "username": "__system",
        "password": "x",
        "authSource": "local",
        "authMechanism": "SCRAM-SHA-1",
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("local")) as server:
        write(server.uri, "ours")
        yield server


def port_of(server: LocalServer) -> int:
    ((_, port),) = parse_uri(server.uri)["nodelist"]
    assert port is not None
    return int(port)


def stranger(port: int, **login: Any) -> MongoClient[dict[str, Any]]:
    return MongoClient("127.0.0.1", port, directConnection=True, **login)


def system(port: int, credentials: Credentials) -> MongoClient[dict[str, Any]]:
    return stranger(port, **credentials.of_system())


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_gets_anything(server: LocalServer, command: str) -> None:
    with stranger(port_of(server)) as client:
        for database in (client.t, client.admin, client.local):
            with pytest.raises(OperationFailure) as refused:
                database.command(dict(COMMANDS[command]))
            assert refused.value.code == UNAUTHORIZED
    assert server.is_running()
    assert keys(server.uri) == ["ours"]


@pytest.mark.parametrize("login", [one for one in LOGINS if one != "nobody"])
def test_wrong_credentials_are_refused(server: LocalServer, login: str) -> None:
    with (
        stranger(port_of(server), **LOGINS[login]) as client,
        pytest.raises(OperationFailure) as refused,
    ):
        client.t.t.find_one()
    assert refused.value.code == AUTHENTICATION_FAILED


def test_anybody_learns_only_that_it_is_there(server: LocalServer) -> None:
    with stranger(port_of(server)) as client:
        hello = client.admin.command("hello")
        assert client.admin.command("connectionStatus")["authInfo"] == {
            "authenticatedUsers": [],
            "authenticatedUserRoles": [],
        }
    assert hello["isWritablePrimary"]


def test_a_server_without_users_makes_no_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first user is not whoever on the machine is first to ask for it."""
    refusals = []

    def asked(client: MongoClient[dict[str, Any]], credentials: Credentials) -> None:
        assert client.address is not None
        with stranger(client.address[1]) as nobody, pytest.raises(OperationFailure) as refused:
            nobody.admin.command("createUser", "stranger", pwd="x", roles=["root"])
        refusals.append(refused.value.code)
        let_user_in(client, credentials)

    let_user_in = replica_set._let_user_in
    monkeypatch.setattr(replica_set, "_let_user_in", asked)
    with LocalServer(tmp_path) as server:
        assert refusals == [UNAUTHORIZED]
        write(server.uri, "a")


def test_the_secrets_are_in_the_key_file_and_the_uri_alone(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        key = (tmp_path / "keyfile").read_text()
        password = parse_uri(server.uri)["password"]
        write(server.uri, "a")
        commands = [
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)
        ]
        shown = f"{server!r} {vars(server)!r}".encode()
    assert len(key) == len(password) == 64
    assert key != password
    assert b"\0--keyFile\0" in b"".join(commands)
    told = [shown, *commands, *(path.read_bytes() for path in tmp_path.rglob("*.log*"))]
    assert [text for text in told if key.encode() in text or password.encode() in text] == []


def readable(path: Path) -> bool:
    try:
        return path.read_bytes() != b""
    except OSError:  # it ended
        return False


def test_what_is_made_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    script = f"""
import os
os.umask(0)
from mongomem.local_server.server import LocalServer
with LocalServer({str(tmp_path / "a" / "b")!r}):
    pass
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANG_SECONDS)
    made = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert {path.name for path in made} >= {
        "keyfile",
        "start.lock",
        "server.json",
        "mongod.log",
        "WiredTiger",
    }
    assert {
        str(path): oct(path.stat().st_mode) for path in made if path.stat().st_mode & 0o077
    } == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda key: key.unlink(),
        lambda key: key.write_text("0123"),
        lambda key: key.write_text(""),
        lambda key: key.rename(key.with_name("keyfile.new")),
    ],
    ids=["gone", "cut", "empty", "a draft"],
)
def test_another_key_opens_the_data_at_the_next_start(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")
        first = server.uri
    damage(tmp_path / "keyfile")
    with LocalServer(tmp_path) as server:
        assert server.uri != first
        assert keys(server.uri) == ["a"]


@pytest.mark.parametrize(
    "damage",
    [
        {"dropUser": "mongomem"},
        {"dropAllUsersFromDatabase": 1},
        {"updateUser": "mongomem", "pwd": "x"},
        {"updateUser": "mongomem", "pwd": "x", "mechanisms": ["SCRAM-SHA-1"]},
    ],
)
def test_the_user_is_mended_by_who_joins_and_by_who_starts(
    tmp_path: Path, damage: Mapping[str, Any]
) -> None:
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")
        with system(port_of(server), read_credentials(tmp_path)) as client:
            client.admin.command(dict(damage))
        with LocalServer(tmp_path) as other:
            assert keys(other.uri) == ["a"]
        with system(port_of(server), read_credentials(tmp_path)) as client:
            client.admin.command(dict(damage))
    with LocalServer(tmp_path) as server:
        assert keys(server.uri) == ["a"]


def test_a_user_without_rights_gets_them_at_the_next_start(tmp_path: Path) -> None:
    with (
        LocalServer(tmp_path) as server,
        system(port_of(server), read_credentials(tmp_path)) as client,
    ):
        client.admin.command("updateUser", "mongomem", roles=[])
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")


def test_a_crash_before_the_user_is_made_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(replica_set, "_let_user_in", crash)
        with pytest.raises(KeyboardInterrupt):
            LocalServer(tmp_path).start()
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")


def test_a_running_server_with_another_key_is_named(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        (tmp_path / "keyfile").unlink()
        with pytest.raises(
            LocalServerError, match=r"does not know the key in .*keyfile: end the processes"
        ):
            LocalServer(tmp_path).start()
        write(server.uri, "still ours")


def mongod(data: Path, port: int, *options: str) -> subprocess.Popen[bytes]:
    """Start mongod by hand, and wait until it answers."""
    data.mkdir(parents=True, exist_ok=True)
    command = [
        str(find_mongod()),
        "--replSet",
        "mongomem",
        "--bind_ip",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += [
        "--dbpath",
        str(data),
        "--nounixsocket",
        "--oplogSize",
        "128",
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--setParameter",
        "shutdownTimeoutMillisForSignaledShutdown=0",
    ]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    with stranger(port, serverSelectionTimeoutMS=60_000) as client:
        client.admin.command("ping")
    return process


@pytest.mark.parametrize("members", [1, 3])
def test_data_of_a_server_without_passwords_go_on(
    tmp_path: Path, free_ports: list[int], members: int
) -> None:
    ports = free_ports[:members]
    nodes = [mongod(tmp_path / f"node{index}" / "data", port) for index, port in enumerate(ports)]
    hosts = [{"_id": index, "host": f"127.0.0.1:{port}"} for index, port in enumerate(ports)]
    settings = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 500}  # as it had them
    try:
        with stranger(ports[0]) as client:
            client.admin.command(
                "replSetInitiate", {"_id": "mongomem", "members": hosts, "settings": settings}
            )
        with connected(f"mongodb://127.0.0.1:{ports[0]}/?replicaSet=mongomem") as client:
            client.t.command("insert", "t", documents=[{"_id": "a"}], writeConcern={"w": members})
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait(60)
    for _ in range(2):
        with LocalServer(tmp_path, members=members) as server:
            assert keys(server.uri) == ["a"]
            for _, port in parse_uri(server.uri)["nodelist"]:
                with stranger(int(port or 0)) as client, pytest.raises(OperationFailure) as refused:
                    client.t.t.find_one()
                assert refused.value.code == UNAUTHORIZED


def test_an_orphan_is_asked_to_end_by_its_key(tmp_path: Path, free_ports: list[int]) -> None:
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")
    node, port, credentials = tmp_path / "node0", free_ports[0], read_credentials(tmp_path)
    process = mongod(node / "data", port, "--keyFile", str(credentials.key_file))
    try:
        write_state(node, State(control=1, token="x", port=port, pid=process.pid))
        with LocalServer(tmp_path) as server:
            assert process.wait(60) == 0
            assert keys(server.uri) == ["a"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("says", ["its own pid", "another pid"])
def test_a_process_that_is_not_proven_ours_is_not_ended(
    tmp_path: Path, free_ports: list[int], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mongod with another key, which holds the lock; what server.json says of it makes no
    difference.
    """
    monkeypatch.setattr(orphan, "STOP_GRACE", 0.5)
    (tmp_path / "other").touch(mode=0o600)
    (tmp_path / "other").write_text("0" * 64)
    node, port = tmp_path / "node0", free_ports[0]
    process = mongod(node / "data", port, "--keyFile", str(tmp_path / "other"))
    try:
        pid = process.pid if says == "its own pid" else process.pid + 1
        write_state(node, State(control=1, token="x", port=port, pid=pid))
        with pytest.raises(
            LocalServerError, match=rf"process {process.pid} holds .*mongod.lock.*MONGOMEM_DATA_DIR"
        ):
            LocalServer(tmp_path).start()
        with pytest.raises(LocalServerError):
            end_orphan(node, read_credentials(tmp_path))
        assert process.poll() is None
        with stranger(port) as client:
            assert client.admin.command("ping")["ok"]
    finally:
        process.kill()
        process.wait()


def test_the_user_may_do_all_that_the_server_offers(server: LocalServer) -> None:
    with connected(server.uri) as client:
        assert client.admin.command("replSetGetStatus")["ok"]
        assert client.local["oplog.rs"].find_one() is not None
        assert client.admin.command("serverStatus")["ok"]
        client.u.u.insert_one({})
        client.drop_database("u")
