"""Make the running nodes one replica set with a primary. Starts and stops no process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from mongomem._server.lease import Lease, MongodExitedError
from mongomem._server.process import HOST

NAME = "mongomem"

_NOT_YET_INITIALIZED = 94  # MongoDB's error code of a node without a configuration, or before it is loaded
# Failover within a second or two instead of ten: the nodes share one machine.
_SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 500}

_Client = MongoClient[dict[str, Any]]


def hosts_of(leases: Sequence[Lease]) -> list[str]:
    """Name the nodes as the members of the set, and as the seeds of a connection string."""
    return [f"{HOST}:{lease.port}" for lease in leases]


def await_replica_set(leases: Sequence[Lease], timeout: float, *, configure: bool) -> None:
    """Wait until the nodes are primary and secondaries, after giving them a configuration if told so.

    New nodes are initiated. Nodes that ran on other ports are reconfigured by force, since without
    each other they have no primary to ask; their data stays. Nothing is written where all agrees.

    Raises:
        TimeoutError: They were not ready within the seconds of the timeout.
        MongodExitedError: One of them ended.
    """
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        clients = [stack.enter_context(_connect(lease, timeout)) for lease in leases]
        if configure:
            _configure(clients[0], hosts_of(leases), deadline)
        _await_members(clients, leases, deadline)


def _connect(lease: Lease, timeout: float) -> _Client:
    limit = int(timeout * 1000)
    return MongoClient(
        HOST,
        lease.port,
        directConnection=True,
        serverSelectionTimeoutMS=limit,
        connectTimeoutMS=limit,
        socketTimeoutMS=limit,
    )


def _configure(client: _Client, hosts: Sequence[str], deadline: float) -> None:
    members = [{"_id": index, "host": host} for index, host in enumerate(hosts)]
    # Asked on disk: a node says that it has no configuration as well while it looks for itself in the one it
    # has, for up to 30 s if another program is silent on its old port. To initiate it then would crash it.
    stored = client.local["system.replset"].find_one()
    if stored is None:
        client.admin.command("replSetInitiate", {"_id": NAME, "members": members, "settings": _SETTINGS})
    elif [member["host"] for member in stored["members"]] != list(hosts):
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


def _await_members(clients: Sequence[_Client], leases: Sequence[Lease], deadline: float) -> None:
    """Poll until one node accepts writes and the others replicate."""
    while time.monotonic() < deadline:
        if not all(lease.is_alive() for lease in leases):
            raise MongodExitedError(None)
        states = [_state_of(client) for client in clients]
        if "primary" in states and "other" not in states:
            return
        time.sleep(0.02)
    raise TimeoutError("its replica set has no primary")


def _state_of(client: _Client) -> str:
    try:
        hello = client.admin.command("hello")
    except PyMongoError:  # e.g. a connection that a change of state closed
        return "other"
    return "primary" if hello["isWritablePrimary"] else "secondary" if hello["secondary"] else "other"
