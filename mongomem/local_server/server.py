"""A real MongoDB server without an installation: for demos, notebooks, tests and desktop use.

    uri = local_uri()                               # shared, kept between runs, stopped at exit
    with LocalServer(throw_away=True) as server: ...    # its own directory, deleted at the end

The server is a replica set of one node (or more, for failover tests) on loopback ports, in a data
directory of its user alone. All processes of a user on the same directory share one server, which
ends with the last of them however that one ends. A write that was acknowledged survives any crash
of the processes, since the default write concern waits for the journal.

Other users of the machine can connect to its port, and get nothing: the password is in the
connection string, and comes from the key file in the data directory.

Processes and their signals are the subject of ``_server``; here are the replica set and the
surface.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import final

from pymongo.errors import PyMongoError

from mongomem.arguments import checked_flag, shown
from mongomem.engine.locks import Guarded, Lock
from mongomem.errors import ConfigurationError, LocalServerError, UsageError
from mongomem.local_server.credentials import Credentials, read_credentials
from mongomem.local_server.lease import Lease, MongodExitedError, join, launch
from mongomem.local_server.mongod import explain_exit, find_mongod
from mongomem.local_server.node_directory import (
    DATA,
    MONGOD_LOG,
    START_LOCK,
    SUPERVISOR_LOG,
    hold_lock,
)
from mongomem.local_server.options import (
    checked_members,
    checked_parameters,
    checked_path,
    checked_span,
)
from mongomem.local_server.orphan import end_orphan
from mongomem.local_server.ownership import (
    UntrustedPathError,
    check_tree,
    own_directory,
    trusted_directory,
)
from mongomem.local_server.process import HOST
from mongomem.local_server.replica_set import NAME, await_replica_set, hosts_of
from mongomem.local_server.supervisor import LaunchRequest

if sys.platform != "win32":
    import pwd

__all__ = ["LocalServer", "default_data_dir", "find_mongod", "local_uri"]

URI_VARIABLE = "MONGODB_URI"
DATA_VARIABLE = "MONGOMEM_DATA_DIR"

_OPLOG_MB = 128  # the default, 5 % of the free disk, is meant for servers
_ENGINE = "log=(prealloc=false)"  # else two spare journals of 100 MB each are made in advance
_PARAMETERS: Mapping[str, str] = {
    "diagnosticDataCollectionEnabled": "false",  # else it writes every second
    "writePeriodicNoops": "false",  # else every ten seconds
    "shutdownTimeoutMillisForSignaledShutdown": "0",  # else 15 s for other nodes
    "scramSHA256IterationCount": "5000",  # for guessable passwords: 15000
    "enableLocalhostAuthBypass": "false",  # else anybody creates the first user
}
_LARGEST_CACHE_GB = 10_000
_LONGEST_TIMEOUT = 86_400  # a day


def default_data_dir() -> Path:
    """Name the data directory: $MONGOMEM_DATA_DIR, else "mongomem" where this system keeps a user's
    data.

    Raises:
        LocalServerError: The user has no home directory; the variable is the way out.
        ConfigurationError: The variable is no path.
    """
    if named := checked_path(DATA_VARIABLE, os.environ.get(DATA_VARIABLE) or None):
        return named
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else _home() / "AppData" / "Local") / "mongomem"
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "mongomem"
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification has relative paths ignored.
    return (xdg if xdg.is_absolute() else _home() / ".local" / "share") / "mongomem"


def _home() -> Path:
    """Name the home directory, from the user database where HOME is missing, empty or relative."""
    home = Path(os.environ.get("HOME") or "~")
    if not home.is_absolute() and sys.platform != "win32":
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            raise LocalServerError(
                f"this user has no home directory: name a data directory in {DATA_VARIABLE}"
            ) from None
    return home.expanduser()


@final
class LocalServer(Guarded):
    """A MongoDB server on this machine, shared by all processes that use the same data directory.

    A context manager; or :meth:`start` and :meth:`stop`, both idempotent. The first process decides
    the options, later ones find them decided. ``MONGODB_URI`` has no influence here, unlike on
    :func:`local_uri`. A forked child uses the server under the hold of its parent.

    Args:
        data_dir: Kept between runs; :func:`default_data_dir` if None. Holds the key and one
            directory a node. It and those above it must be such that no other user can write to
            them or replace what is in them.
        binary: The mongod to run; found by :func:`find_mongod` if None.
        members: Nodes of the replica set, each a process. More than one is for failover tests.
        cache_gb: WiredTiger cache of each node in GiB, at least 0.25.
        start_timeout: Seconds that each step of a start may take: waiting for another process that
            starts or stops the server, starting mongod, electing a primary.
        parameters: Further server parameters, e.g. ``{"enableTestCommands": True}``.
        throw_away: Use a new temporary directory, deleted when the last hold on the server ends,
            however it ends; a node that died is started anew with its data.

    Raises:
        ConfigurationError: An argument is of the wrong kind, or out of bounds.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        binary: str | os.PathLike[str] | None = None,
        members: int = 1,
        cache_gb: float = 0.25,
        start_timeout: float = 45.0,
        parameters: Mapping[str, object] | None = None,
        throw_away: bool = False,
    ) -> None:
        self._throw_away = checked_flag("throw_away", throw_away, ConfigurationError)
        if throw_away and data_dir is not None:
            raise ConfigurationError(
                "a throw-away server makes its own directory: leave data_dir out"
            )
        self._data_dir = checked_path("data_dir", data_dir)
        self._binary = checked_path("binary", binary)
        self._members = checked_members("members", members)
        self._cache_gb = checked_span("cache_gb", cache_gb, least=0.25, most=_LARGEST_CACHE_GB)
        self._start_timeout = checked_span(
            "start_timeout", start_timeout, least=0.001, most=_LONGEST_TIMEOUT
        )
        self._parameters = {**_PARAMETERS, **checked_parameters("parameters", parameters)}
        self._directory: Path | None = None
        self._credentials: Credentials | None = None
        self._leases: list[Lease] = []
        self._guard(threading.RLock)
        self._owner = os.getpid()

    def __enter__(self) -> LocalServer:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def uri(self) -> str:
        """The connection string, with the password. UsageError before :meth:`start`."""
        with self._lock:
            if not self._leases or self._credentials is None:
                raise UsageError(
                    "the server is not started: call start(), or use it in a with statement"
                )
            return self._credentials.uri(hosts_of(self._leases), NAME)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of mongod, one a node, in the order of the hosts in :attr:`uri`."""
        with self._lock:
            return tuple(lease.pid for lease in self._leases)

    def is_running(self) -> bool:
        """Tell whether this object holds the server and every node of it runs."""
        with self._lock:
            return bool(self._leases) and all(lease.is_alive() for lease in self._leases)

    def start(self) -> None:
        """Join the server of the data directory, or start it, and wait for its primary. Restarts
        nodes that died.

        Raises:
            LocalServerError: It cannot start, or its directory is not this user's alone. Says what
                is missing and what to do. Nothing is left running unless another process uses it.
        """
        with self._lock:
            if self.is_running():
                return
            binary = find_mongod(self._binary)
            try:
                data_dir = self._prepare()
                # Other processes wait here until the server is ready, then join it.
                with hold_lock(data_dir / START_LOCK, self._start_timeout):
                    self._hold_nodes(data_dir, binary, read_credentials(data_dir))
            except (OSError, PyMongoError, UntrustedPathError) as error:
                self.stop()
                way_out = "TMPDIR" if self._throw_away else DATA_VARIABLE
                raise LocalServerError(
                    f"the local server does not start: {_reason(error, way_out)}"
                ) from error
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Let go of the server; wait until it ended unless another process uses it. Data stays."""
        with self._lock:
            leases, self._leases = self._leases, []
            if os.getpid() != self._owner:  # a forked child: the hold is its parent's
                for lease in leases:
                    lease.connection.close()
                return
            for lease in leases:  # all first, since a node that ends alone waits for the others
                lease.leave()
            for lease in leases:
                lease.close()

    def _prepare(self) -> Path:
        """Create the data directory and the directories of the nodes, for the owner only."""
        if not self._throw_away:
            directory = trusted_directory(self._data_dir or default_data_dir())
        elif self._leases and self._directory:  # some nodes died, others may run
            directory = self._directory
        else:
            directory = _temporary_directory()
        for index in range(self._members):
            own_directory(_node(directory, index))
            own_directory(_node(directory, index) / DATA)
        return directory

    def _hold_nodes(self, directory: Path, binary: Path, credentials: Credentials) -> None:
        """Join or start each node; await the primary. Under the lock of the data directory."""
        self._directory, self._credentials = directory, credentials
        launched = False
        for index in range(self._members):
            if index < len(self._leases):
                if self._leases[index].is_alive():
                    continue
                self._leases.pop(index).close_to_come_back()
            node = _node(directory, index)
            lease = join(node)
            launched |= lease is None
            self._leases.insert(index, lease or self._launch(node, binary, credentials))
        try:
            await_replica_set(self._leases, credentials, self._start_timeout, configure=launched)
        except MongodExitedError as error:
            raise _explained(error, _node(directory, 0), binary) from None

    def _launch(self, node: Path, binary: Path, credentials: Credentials) -> Lease:
        check_tree(node)
        end_orphan(node, credentials)
        command = self._command(node, binary, credentials)
        discard = str(node.parent) if self._throw_away else None
        try:
            return launch(LaunchRequest(str(node), command, self._start_timeout, discard))
        except MongodExitedError as error:
            raise _explained(error, node, binary) from None

    def _command(self, node: Path, binary: Path, credentials: Credentials) -> list[str]:
        """Build the command that starts the mongod of a node, but for its port."""
        command = [
            str(binary),
            "--replSet",
            NAME,
            "--bind_ip",
            HOST,
            "--dbpath",
            str(node / DATA),
            "--quiet",
        ]
        command += ["--wiredTigerCacheSizeGB", str(self._cache_gb), "--oplogSize", str(_OPLOG_MB)]
        command += [
            "--wiredTigerEngineConfigString",
            _ENGINE,
            "--keyFile",
            str(credentials.key_file),
        ]
        if sys.platform != "win32":
            command.append("--nounixsocket")  # it would outlive a kill -9, in /tmp
        for name, value in self._parameters.items():
            command += ["--setParameter", f"{name}={value}"]
        return command


def _temporary_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="mongomem-"))  # for this user alone
    try:
        return trusted_directory(directory)
    except UntrustedPathError:
        directory.rmdir()
        raise


def _node(directory: Path, index: int) -> Path:
    return directory / f"node{index}"


def _reason(error: Exception, variable: str) -> str:
    """Say what went wrong, and which variable is the way out where it is the directory's fault."""
    hint = f"; name another directory in {variable}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {shown(str(error.filename))}{hint}"
    return f"{error}{hint if isinstance(error, UntrustedPathError) else ''}"


def _explained(error: MongodExitedError, node: Path, binary: Path) -> LocalServerError:
    """Make the error that users see. A silent mongod leaves the blame to the supervisor."""
    log = node / MONGOD_LOG
    own = node / SUPERVISOR_LOG
    if own.is_file() and own.stat().st_size:
        log = own
    return LocalServerError(explain_exit(error.code, binary, log))


_shared: dict[tuple[int, Path], LocalServer] = {}
_shared_lock = Lock()


@atexit.register
def _stop_shared() -> None:
    """Stop what :func:`local_uri` started. The kernel would let go too; this waits, as a container
    will not.
    """
    for server in _shared.values():
        server.stop()


def local_uri(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    binary: str | os.PathLike[str] | None = None,
    cache_gb: float = 0.25,
    start_timeout: float = 45.0,
) -> str:
    """Give the connection string of a server, started if need be and held until this process exits.

    ``MONGODB_URI`` in the environment is given as it is, and nothing is started. Else the arguments
    are those of :class:`LocalServer`; a later call for the same directory gives the same server,
    and starts it again if it died. The password of the server is in what is returned: it belongs
    into no log.

    Raises:
        LocalServerError: The server cannot start. Says what is missing and what to do.
        ConfigurationError: An argument is of the wrong kind, or out of bounds.
    """
    server = LocalServer(data_dir, binary=binary, cache_gb=cache_gb, start_timeout=start_timeout)
    if uri := os.environ.get(URI_VARIABLE):
        return uri
    server._data_dir = directory = server._data_dir or default_data_dir()
    with _shared_lock:
        # The key has the process id: a forked child takes a hold of its own.
        server = _shared.setdefault((os.getpid(), directory), server)
        server.start()
        return server.uri
