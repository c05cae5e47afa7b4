"""What is exported: everything, or threads, users and namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mongomem.arguments import shown
from mongomem.checkpoint.plans.threads import thread_ids
from mongomem.errors import ThreadNotFoundError
from mongomem.memory import MongoMemory
from mongomem.store.documents.namespace import Namespace
from mongomem.transfer.thread_export import living_document
from mongomem.user_data import threads_of

EVERYTHING: Sequence[Namespace] = ((),)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is exported. Nothing named is everything.

    Attributes:
        threads: Ids of threads.
        users: Users, with all of their threads and memories.
        namespaces: Namespaces, with those below them.
    """

    threads: Sequence[str] = ()
    users: Sequence[str] = ()
    namespaces: Sequence[Namespace] = ()

    @property
    def is_everything(self) -> bool:
        return not (self.threads or self.users or self.namespaces)

    def check(self, memory: MongoMemory) -> None:
        """Refuse threads that are not there.

        Raises:
            ThreadNotFoundError: One is not.
        """
        run, context = memory.saver._runners.run, memory.saver._context()
        absent = [one for one in self.threads if run(living_document(context, one)) is None]
        if absent:
            raise ThreadNotFoundError(
                f"there is no thread {', '.join(map(shown, absent))} in this database"
            )

    def thread_ids(self, memory: MongoMemory) -> Iterator[str]:
        """Give the ids of the threads, each once."""
        if self.is_everything:
            yield from every_thread_id(memory)
            return
        run, context = memory.saver._runners.run, memory.saver._context()
        given = dict.fromkeys(self.threads)
        for user in self.users:
            whose = memory.user(user)._whose()
            given |= run(threads_of(context, whose.user_key, whose.user_id)).found
        yield from given

    def undecided(self, memory: MongoMemory) -> Iterator[tuple[str, str]]:
        """Give users and threads of which it is not certain whether they are theirs."""
        run, context = memory.saver._runners.run, memory.saver._context()
        for user in self.users:
            whose = memory.user(user)._whose()
            found = run(threads_of(context, whose.user_key, whose.user_id))
            yield from ((user, thread_id) for thread_id in found.undecided)

    def all_namespaces(self, memory: MongoMemory) -> Sequence[Namespace]:
        """Return the namespaces, none of them below another."""
        if self.is_everything:
            return EVERYTHING
        named = [*self.namespaces, *(memory.user(user).namespace for user in self.users)]
        outer: list[Namespace] = []
        for one in sorted(set(named)):
            if not outer or one[: len(outer[-1])] != outer[-1]:
                outer.append(one)
        return outer


def every_thread_id(memory: MongoMemory) -> Iterator[str]:
    """Give the ids of all threads, in an order that nothing changes."""
    behind: bytes | None = b""
    while behind is not None:
        found, behind = memory.saver._runners.run(thread_ids(memory.saver._context(), behind))
        yield from found
