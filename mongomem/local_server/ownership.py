"""What on the disk is this user's alone: only such directories are used, and only such files are
opened.

    a directory on the way   this user and root alone can replace what is in it
    the data directory       of this user, and nobody else can write to it
    a directory in it        of this user, and closed to everybody else
    a file in it             a regular file of this user, without a second name, opened without
                             following a link

The order is the safety: once a directory is known to be closed to others, what is in it cannot
change between the check and the use. What the file system says is not repaired where somebody else
may have used it; only modes of what is in the data directory are tightened. On Windows nothing is
checked: there the profile of a user is closed to others, and modes mean nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

if sys.platform != "win32":
    import grp
    import pwd

_MOST_LINKS = 40  # as the kernel of Linux
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITE_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedPathError(Exception):
    """A file or directory is not this user's alone. The message names it and says why."""


def write_own(path: Path, content: bytes) -> None:
    """Replace a file in one step by one that only its owner can read."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(draft, "xb", opener=own_file) as file:
        file.write(content)
    draft.replace(path)


if sys.platform == "win32":

    def trusted_directory(path: Path) -> Path:
        """Make a directory, which Windows keeps in its user's profile; name it without links."""
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve()

    def own_directory(path: Path) -> None:
        """Make a directory, with the rights of the one that it is in."""
        path.mkdir(exist_ok=True)

    def check_tree(directory: Path) -> None:
        """Check nothing: Windows has no owners that could be compared without its own tools."""
        del directory

    def own_file(path: str, flags: int) -> int:
        """Open a file as an `opener` does, unchanged on the way and closed in children."""
        return os.open(path, flags | os.O_BINARY | os.O_NOINHERIT, 0o600)

else:

    def trusted_directory(path: Path) -> Path:
        """Make a directory and those above it, where they are missing; name it without links.

        Raises:
            UntrustedPathError: It belongs to somebody else, or somebody else can write to it or
                replace it.
        """
        at, ahead, links = Path(path.anchor), list(path.parts[1:]), 0
        while ahead:
            _check_way(at)
            step = at / ahead.pop(0)
            status = _status_of_made(step)
            if not stat.S_ISLNK(status.st_mode):
                at = at.parent if step.name == ".." else step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            _check_owner(step, status, _trusted_users())
            at, way = _way_of_link(step, at)
            ahead = [*way, *ahead]
        _check_data_directory(at)
        return at

    def own_directory(path: Path) -> None:
        """Make a directory for this user alone, in one that is; close it to others where it is open
        to them.

        Raises:
            UntrustedPathError: It is no directory, or somebody else's.
        """
        status = _status_of_made(path)
        if not stat.S_ISDIR(status.st_mode):
            raise UntrustedPathError(f"{path} is no directory")
        _check_owner(path, status, {os.geteuid()})
        if status.st_mode & _OTHERS:
            path.chmod(stat.S_IRWXU)

    def check_tree(directory: Path) -> None:
        """Check all that another program will open in a directory of this user's.

        Raises:
            UntrustedPathError: Something in it is a link, a special file or somebody else's.
        """
        pending = [os.fspath(directory)]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # removed meanwhile, by a mongod that is ending
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        _check_owner(entry.path, status, {os.geteuid()})
                        pending.append(entry.path)
                    else:
                        _check_file(entry.path, status)

    def _open_guarded(path: str, flags: int) -> int:
        """Open a file, or make it; neither follow a link nor wait for the other end of a pipe."""
        # Without O_NONBLOCK a pipe of that name would wait for its other end; files do not mind.
        guarded = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(path, guarded, stat.S_IRUSR | stat.S_IWUSR)
        except OSError as error:
            # FreeBSD says EMLINK of a link; a pipe that nobody reads and a socket are ENXIO.
            if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENXIO}:
                raise UntrustedPathError(
                    f"{path} is no regular file but a link or a pipe"
                ) from None
            raise

    def own_file(path: str, flags: int) -> int:
        """Open a file of this user's alone, or make it: an ``opener`` of :func:`open`.

        What is opened to be written is closed to others first. What is read must have been closed
        to their writing.

        Raises:
            UntrustedPathError: It is a link, a special file or somebody else's. It was neither read
                nor changed.
        """
        descriptor = _open_guarded(path, flags & ~os.O_TRUNC)
        try:
            _check_opened(path, descriptor, flags)
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_opened(path: str, descriptor: int, flags: int) -> None:
        status = os.fstat(descriptor)
        _check_file(path, status)
        if flags & os.O_ACCMODE == os.O_RDONLY:
            _check_writers(path, status)
        if status.st_mode & _OTHERS:
            os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)

    def _status_of_made(path: Path) -> os.stat_result:
        """Look at a file without following a link; make a directory, for this user alone, where
        there is none.
        """
        try:
            return path.lstat()
        except FileNotFoundError:
            path.mkdir(mode=stat.S_IRWXU, exist_ok=True)  # another process may be quicker
            return path.lstat()

    def _trusted_users() -> set[int]:
        """Name the users who may own a directory on the way: they can do as they like anyway."""
        # In a user namespace root can have another number; the owner of "/" is who it is.
        return {os.geteuid(), 0, Path("/").stat().st_uid}

    def _check_way(directory: Path) -> None:
        """Check that nobody else can replace what is in a directory."""
        status = directory.lstat()
        _check_owner(directory, status, _trusted_users())
        if not status.st_mode & stat.S_ISVTX:
            _check_writers(directory, status)

    def _way_of_link(link: Path, at: Path) -> tuple[Path, list[str]]:
        """Read where a link in a directory leads: from the root or that directory on, and the way
        from there.
        """
        target = link.readlink()
        start = Path(target.anchor) if target.anchor else at
        return start, [part for part in target.parts if part != target.anchor]

    def _check_data_directory(directory: Path) -> None:
        status = directory.lstat()
        _check_owner(directory, status, {os.geteuid()})
        _check_writers(directory, status)
        if status.st_mode & stat.S_IWGRP:  # of a group of one, by a umask of 002
            directory.chmod(stat.S_IMODE(status.st_mode) & ~_WRITE_OF_OTHERS)

    def _check_writers(path: os.PathLike[str] | str, status: os.stat_result) -> None:
        if status.st_mode & stat.S_IWOTH:
            raise UntrustedPathError(f"everybody can write to {os.fspath(path)}")
        if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
            raise UntrustedPathError(f"group {status.st_gid} can write to {os.fspath(path)}")

    def _is_own_group(group: int) -> bool:
        """Tell whether no other user than this one and root is known to be in a group."""
        everybody = pwd.getpwall()
        trusted = {entry.pw_name for entry in everybody if entry.pw_uid in {os.geteuid(), 0}}
        members = {entry.pw_name for entry in everybody if entry.pw_gid == group}
        try:
            members.update(grp.getgrgid(group).gr_mem)
            # A directory service need not list its users.
            trusted.add(pwd.getpwuid(os.geteuid()).pw_name)
        except KeyError:
            pass
        return members <= trusted

    def _check_owner(path: os.PathLike[str] | str, status: os.stat_result, users: set[int]) -> None:
        if status.st_uid not in users:
            raise UntrustedPathError(
                f"{os.fspath(path)} belongs to another user (uid {status.st_uid})"
            )

    def _check_file(path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedPathError(f"{path} is no regular file but a link, a pipe or the like")
        _check_owner(path, status, {os.geteuid()})
        if status.st_nlink > 1:
            raise UntrustedPathError(
                f"{path} has a second name (a hard link), and may be meant to be another file"
            )
