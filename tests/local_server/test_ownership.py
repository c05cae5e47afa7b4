"""What others prepared is refused: no link is followed, and nothing of anybody else's opened,
changed or ended.
"""

from __future__ import annotations

import fcntl
import grp
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mongomem.errors import LocalServerError
from mongomem.local_server import ownership
from mongomem.local_server.node_directory import START_LOCK, hold_lock, read_state
from mongomem.local_server.ownership import (
    UntrustedPathError,
    check_tree,
    own_directory,
    own_file,
    trusted_directory,
    write_own,
)
from mongomem.local_server.server import LocalServer, local_uri

pytestmark = pytest.mark.usefixtures("no_uri")

TREASURE = b"what must stay as it is"
FILES = (
    *(
        "start.lock",
        "keyfile",
        "node0/server.lock",
        "node0/server.json",
        "node0/mongod.log",
        "node0/mongod.log.1",
    ),
    *(
        "node0/supervisor.log",
        "node0/data/mongod.lock",
        "node0/data/WiredTiger",
        "node0/data/WiredTiger.lock",
    ),
    "node0/data/journal/WiredTigerLog.0000000001",
)
"""Files that the server opens by name."""


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)


def told(path: Path) -> tuple[int, ...]:
    """Say what changes when a file or a directory is changed."""
    status = path.stat()
    return (
        status.st_mode,
        status.st_uid,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@pytest.fixture
def treasure(tmp_path: Path) -> Iterator[Path]:
    """A file of this user's outside of the data directory, to which a prepared name leads."""
    path = tmp_path / "treasure"
    path.write_bytes(TREASURE)
    path.chmod(0o644)
    yield path
    assert path.read_bytes() == TREASURE
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.fixture
def another_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make this process take itself for another user, so that all it made before is somebody
    else's.
    """
    uid = os.geteuid() + 1
    return lambda: monkeypatch.setattr(os, "geteuid", lambda: uid)


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic link": lambda name, treasure: name.symlink_to(treasure),
    "dangling link": lambda name, treasure: name.symlink_to(treasure.with_name("nothing")),
    "hard link": lambda name, treasure: name.hardlink_to(treasure),
    "pipe": lambda name, treasure: os.mkfifo(name),
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", FILES)
def test_a_prepared_file_is_refused_and_what_it_leads_to_is_untouched(
    tmp_path: Path, treasure: Path, name: str, link: str
) -> None:
    prepared = tmp_path / "data" / name
    prepared.parent.mkdir(parents=True)
    LINKS[link](prepared, treasure)
    server = LocalServer(tmp_path / "data")
    with pytest.raises(LocalServerError, match=rf"{name}.*MONGOMEM_DATA_DIR"):
        server.start()
    assert not server.is_running()
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["node0", "node0/data", "node0/data/journal"])
def test_a_directory_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    prepared = tmp_path / "data" / name
    prepared.parent.mkdir(parents=True)
    prepared.symlink_to(elsewhere)
    with pytest.raises(LocalServerError, match=name):
        local_uri(tmp_path / "data")
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_the_draft_of_a_file_follows_no_link(tmp_path: Path, treasure: Path) -> None:
    (tmp_path / "keyfile.new").symlink_to(treasure)
    write_own(tmp_path / "keyfile", b"new")
    assert (tmp_path / "keyfile").read_bytes() == b"new"
    assert not is_open_to_others(tmp_path / "keyfile")


def test_what_belongs_to_another_user_is_refused(
    tmp_path: Path, treasure: Path, another_user: Callable[[], None]
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory").chmod(0o755)
    another_user()
    for mode in ("rb", "ab", "wb", "r+b"):
        with pytest.raises(UntrustedPathError, match="treasure belongs to another user"):
            open(treasure, mode, opener=own_file).close()
    with pytest.raises(UntrustedPathError, match="directory belongs to another user"):
        own_directory(tmp_path / "directory")
    with pytest.raises(UntrustedPathError, match="belongs to another user"):
        check_tree(tmp_path)
    with pytest.raises(UntrustedPathError, match="belongs to another user"):
        trusted_directory(tmp_path / "directory")
    with pytest.raises(UntrustedPathError, match="belongs to another user"), hold_lock(treasure, 0):
        pass
    assert (tmp_path / "directory").stat().st_mode & 0o777 == 0o755


def test_a_data_directory_of_another_user_is_refused(
    tmp_path: Path, another_user: Callable[[], None]
) -> None:
    """Root's are accepted on the way to the data directory, and not as the data directory
    itself.
    """
    with LocalServer(tmp_path / "data"):
        pass
    (tmp_path / "data").chmod(0o777)
    before = {path: told(path) for path in tmp_path.rglob("*")}
    another_user()
    for server in (LocalServer(tmp_path / "data"), LocalServer(tmp_path / "data", members=2)):
        with pytest.raises(
            LocalServerError,
            match=r"belongs to another user \(uid \d+\); name another directory in",
        ):
            server.start()
    assert {path: told(path) for path in tmp_path.rglob("*")} == before


def test_a_file_to_be_read_that_others_could_write_is_refused(tmp_path: Path) -> None:
    for name in ("keyfile", "node0/server.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"control": 1, "token": "x", "port": 1, "pid": 1}))
        path.chmod(0o662)
        with pytest.raises(LocalServerError, match=rf"everybody can write to .*{name}"):
            LocalServer(tmp_path).start()
        path.unlink()


def test_what_is_ours_and_open_is_closed(tmp_path: Path) -> None:
    """A server of an earlier version, or of a umask of 002, left its files open behind a closed
    directory.
    """
    (tmp_path / "node0" / "data").mkdir(parents=True)
    opened = [
        tmp_path / START_LOCK,
        tmp_path / "node0" / "server.lock",
        tmp_path / "node0" / "supervisor.log",
    ]
    for path in opened:
        path.touch()
        path.chmod(0o666)
    for path in (tmp_path / "node0", tmp_path / "node0" / "data"):
        path.chmod(0o777)
    with LocalServer(tmp_path):
        assert [path for path in tmp_path.rglob("*") if is_open_to_others(path)] == []


def test_a_data_directory_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    for mode in (0o777, 0o1777, 0o702):
        tmp_path.chmod(mode)
        with pytest.raises(LocalServerError, match="everybody can write to"):
            LocalServer(tmp_path).start()
        assert tmp_path.stat().st_mode & 0o7777 == mode  # "/tmp" of root's must not be changed
        assert list(tmp_path.iterdir()) == []


def test_a_directory_on_the_way_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    way = tmp_path / "way"
    way.mkdir()
    way.chmod(0o777)
    with pytest.raises(UntrustedPathError, match="everybody can write to"):
        trusted_directory(way / "data" / "below")
    assert list(way.iterdir()) == []
    way.chmod(0o1777)  # as /tmp: what is ours in it stays ours
    assert trusted_directory(way / "data" / "below") == way / "data" / "below"
    assert not is_open_to_others(way / "data")


@pytest.mark.parametrize(
    ("members", "trusted"), [([], True), (["root"], True), (["mallory"], False)]
)
def test_a_group_is_trusted_if_nobody_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[str], trusted: bool
) -> None:
    """A umask of 002 goes with a group for each user."""
    way = tmp_path / "way"
    (way / "data").mkdir(parents=True)
    way.chmod(0o775)
    (way / "data").chmod(0o775)
    ours = SimpleNamespace(pw_name="us", pw_uid=os.geteuid(), pw_gid=way.stat().st_gid)
    root = SimpleNamespace(pw_name="root", pw_uid=0, pw_gid=0)
    monkeypatch.setattr(ownership.pwd, "getpwall", lambda: [ours, root])
    monkeypatch.setattr(ownership.pwd, "getpwuid", lambda uid: ours)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_mem=members))
    if trusted:
        assert trusted_directory(way / "data") == way / "data"
        assert (way / "data").stat().st_mode & 0o777 == 0o755
        return
    for path in (way / "data", way / "new"):
        with pytest.raises(UntrustedPathError, match=r"group \d+ can write to"):
            trusted_directory(path)


def test_a_group_of_others_whose_first_group_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o770)
    other = SimpleNamespace(
        pw_name="mallory", pw_uid=os.geteuid() + 1, pw_gid=tmp_path.stat().st_gid
    )
    monkeypatch.setattr(ownership.pwd, "getpwall", lambda: [other])
    with pytest.raises(UntrustedPathError, match="group"):
        trusted_directory(tmp_path)


def test_links_on_the_way_are_followed_if_they_are_ours_or_roots(
    tmp_path: Path, another_user: Callable[[], None]
) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")
    (tmp_path / "relative").symlink_to("disk/deep/../deep")
    assert trusted_directory(tmp_path / "absolute" / "data") == tmp_path / "disk" / "deep" / "data"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LocalServerError, match="MONGOMEM_DATA_DIR"):
        LocalServer(tmp_path / "loop" / "data").start()


def test_links_of_another_user_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    ours = os.geteuid()
    lstat = Path.lstat

    def of_another(path: Path) -> object:
        status = lstat(path)
        if path != tmp_path / "link":
            return status
        return SimpleNamespace(st_mode=status.st_mode, st_uid=ours + 1)

    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.raises(UntrustedPathError, match="link belongs to another user"):
        trusted_directory(tmp_path / "link" / "data")
    assert list((tmp_path / "target").iterdir()) == []


def test_a_temporary_directory_in_which_others_could_replace_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(
        LocalServerError, match=r"everybody can write to .*; name another directory in TMPDIR"
    ):
        LocalServer(throw_away=True).start()
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    with LocalServer(throw_away=True):
        (made,) = tmp_path.iterdir()
        assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("says", ["this process", "another"])
def test_a_process_whose_pid_stands_in_the_files_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    monkeypatch.setattr("mongomem.local_server.orphan.STOP_GRACE", 0.2)
    (tmp_path / "node0" / "data").mkdir(parents=True)
    lock = tmp_path / "node0" / "data" / "mongod.lock"
    lock.touch(mode=0o600)
    script = (
        f"import fcntl, os; f = open({str(lock)!r}, 'r+'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        lock.write_text(f"{process.pid}\n")
        pid = process.pid if says == "this process" else os.getppid()
        state = {"control": 1, "token": "x", "port": 1, "pid": pid}
        write_own(tmp_path / "node0" / "server.json", json.dumps(state).encode())
        with pytest.raises(LocalServerError, match=rf"process {process.pid} holds .*mongod\.lock"):
            LocalServer(tmp_path).start()
        assert process.poll() is None
        process.communicate(b"\n")
    assert process.returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "1", '"control"', "{}", "\udcff"),
        *(
            json.dumps({"control": 1, "token": "x", "port": 1, "pid": 1, **wrong})
            for wrong in (
                *(
                    {"control": 0},
                    {"control": 65536},
                    {"control": "1"},
                    {"control": True},
                    {"control": None},
                ),
                *(
                    {"token": 1},
                    {"token": None},
                    {"port": -1},
                    {"port": 1e3},
                    {"port": 10**30},
                    {"port": "1,evil:1"},
                ),
                *({"pid": 0}, {"pid": -1}, {"pid": "1"}, {"pid": [1]}),
            )
        ),
    ],
)
def test_a_damaged_state_is_no_state(tmp_path: Path, text: str) -> None:
    write_own(tmp_path / "server.json", text.encode(errors="surrogateescape"))
    assert read_state(tmp_path) is None


def test_a_lock_is_kept_closed_and_held(tmp_path: Path) -> None:
    path = tmp_path / START_LOCK
    with hold_lock(path, 0):
        assert not is_open_to_others(path)
        with path.open("ab") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
