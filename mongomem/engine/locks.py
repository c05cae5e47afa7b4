"""Locks that a forked child finds open.

A process may be forked while another of its threads holds a lock. In the child that thread does not
exist, so nobody would ever release the lock. Whatever holds a lock in this package is therefore a
`Guarded`.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

_guarded: dict[int, tuple[weakref.ref[Guarded], Callable[[], Any]]] = {}
"""Every object with a lock, and what makes the lock. By identity, because some have no hash."""


class Guarded:
    """State that threads change one at a time, under a lock that does not outlive a fork.

    In a child that was forked while another thread held the lock, the lock is made anew and
    `_reset` is called: what that thread was changing may be half changed.
    """

    __slots__ = ("__weakref__", "_lock")

    _lock: Any

    def _guard(self, make_lock: Callable[[], Any] = threading.Lock) -> None:
        """Give this object its lock. Called once, when the object is made."""
        key = id(self)
        self._lock = make_lock()
        _guarded[key] = weakref.ref(self, lambda _: _guarded.pop(key, None)), make_lock

    def _reset(self) -> None:
        """Make the state sound again, whatever of it was half changed. Called in a child that has
        no other thread.
        """


class Lock(Guarded):
    """A lock for what is no object of a class: ``with lock: ...``. The thread that holds it may
    take it again.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._guard(threading.RLock)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()


def _renew_held() -> None:
    for reference, make_lock in [*_guarded.values()]:
        guarded = reference()
        if guarded is None:
            continue
        if guarded._lock.acquire(blocking=False):
            guarded._lock.release()
        else:
            guarded._lock = make_lock()
            guarded._reset()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_held)
