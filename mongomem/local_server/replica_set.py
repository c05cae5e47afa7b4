"""Make the running nodes one replica set with a primary, and let our user in. Starts and stops no
process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from mongomem.errors import LocalServerError
from mongomem.local_server.credentials import USER, Credentials
from mongomem.local_server.lease import Lease, MongodExitedError
from mongomem.local_server.process import HOST

NAME = "mongomem"

_NOT_YET_INITIALIZED = 94
"""MongoDB's error code of a node without a configuration, or before it is loaded."""

_AUTHENTICATION_FAILED = 18
# Failover within a second or two instead of ten: the nodes share one machine.
_SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 500}

_Client = MongoClient[dict[str, Any]]


def hosts_of(leases: Sequence[Lease]) -> list[str]:
    """Name the nodes as the members of the set, and as the seeds of a connection string."""
    return [f"{HOST}:{lease.port}" for lease in leases]


def await_replica_set(
    leases: Sequence[Lease], credentials: Credentials, timeout: float, *, configure: bool
) -> None:
    """Wait until the nodes are primary and secondaries and know our user, after configuring them if
    told so.

    New nodes are initiated. Nodes that ran on other ports are reconfigured by force, since without
    each other they have no primary to ask; their data stays. Nothing is written where all agrees.

    Raises:
        TimeoutError: They were not ready within the seconds of the timeout.
        MongodExitedError: One of them ended.
        LocalServerError: They were started with another key, or by an earlier mongomem without one.
    """
    deadline = time.monotonic() + timeout
    if not configure and _is_ready(leases, credentials, timeout, deadline):
        return
    try:
        with _connected(leases, timeout, credentials.of_system()) as clients:
            if configure:
                _configure(clients[0], hosts_of(leases), deadline)
            _let_user_in(_await_primary(clients, leases, deadline), credentials)
    except OperationFailure as error:
        if error.code != _AUTHENTICATION_FAILED:
            raise
        raise LocalServerError(
            f"the server that runs does not know the key in {credentials.key_file}: "
            "end the processes that use it, then start again"
        ) from None


def _is_ready(
    leases: Sequence[Lease], credentials: Credentials, timeout: float, deadline: float
) -> bool:
    """Wait for the primary as our user; False if it is not let in."""
    try:
        with _connected(leases, timeout, credentials.of_user()) as clients:
            _await_primary(clients, leases, deadline)
    except OperationFailure as error:
        if error.code != _AUTHENTICATION_FAILED:
            raise
        return False
    return True


@contextmanager
def _connected(
    leases: Sequence[Lease], timeout: float, login: Mapping[str, Any]
) -> Iterator[list[_Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(lease.port, timeout, login)) for lease in leases]


def connect(port: int, timeout: float, login: Mapping[str, Any]) -> _Client:
    """Connect to one node with the options of a login, which the first command performs."""
    limit = int(timeout * 1000)
    return MongoClient(
        HOST,
        port,
        directConnection=True,
        serverSelectionTimeoutMS=limit,
        connectTimeoutMS=limit,
        socketTimeoutMS=limit,
        **login,
    )


def _let_user_in(client: _Client, credentials: Credentials) -> None:
    """Create our user where it is missing; give it the password of the key where it has another."""
    stored = client.admin["system.users"].find_one({"user": USER, "db": "admin"})
    if stored is None or not credentials.are_those_of(stored):
        client.admin.command(
            "createUser" if stored is None else "updateUser",
            USER,
            pwd=credentials.password,
            roles=["root"],
            mechanisms=["SCRAM-SHA-256"],
        )


def _configure(client: _Client, hosts: Sequence[str], deadline: float) -> None:
    members = [{"_id": index, "host": host} for index, host in enumerate(hosts)]
    # Asked on disk: a node says that it has no configuration as well while it looks for itself in
    # the one it has, for up to 30 s if another program is silent on its old port. To initiate it
    # then would crash it.
    stored = client.local["system.replset"].find_one()
    if stored is None:
        client.admin.command(
            "replSetInitiate", {"_id": NAME, "members": members, "settings": _SETTINGS}
        )
    elif [member["host"] for member in stored["members"]] != list(hosts):
        _reconfigure(client, members, deadline)


def _reconfigure(client: _Client, members: list[dict[str, Any]], deadline: float) -> None:
    """Give a replica set other members, whatever its configuration says of those that it has."""
    config = _await_config(client, deadline)
    config |= {"version": config["version"] + 1, "members": members}
    client.admin.command("replSetReconfig", config, force=True)


def _await_config(client: _Client, deadline: float) -> dict[str, Any]:
    while True:
        try:
            config: dict[str, Any] = client.admin.command("replSetGetConfig")["config"]
        except OperationFailure as error:
            if error.code != _NOT_YET_INITIALIZED or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return config


def _await_primary(clients: Sequence[_Client], leases: Sequence[Lease], deadline: float) -> _Client:
    """Poll until one node accepts writes and the others replicate; tell which one it is."""
    while time.monotonic() < deadline:
        if not all(lease.is_alive() for lease in leases):
            raise MongodExitedError(None)
        states = [_state_of(client) for client in clients]
        if "primary" in states and "other" not in states:
            return clients[states.index("primary")]
        time.sleep(0.02)
    raise TimeoutError("its replica set has no primary")


def _state_of(client: _Client) -> str:
    try:
        hello = client.admin.command("hello")
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and error.code == _AUTHENTICATION_FAILED:
            raise
        return "other"  # e.g. a connection that a change of state closed
    return (
        "primary" if hello["isWritablePrimary"] else "secondary" if hello["secondary"] else "other"
    )
