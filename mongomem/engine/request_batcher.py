"""Concurrent operations of one kind, gathered into one batch.

A graph that reads twenty memories at once means one round trip, not twenty. The first caller of a
tick of its event loop leads: it lets the others of that tick join, performs all of them in its own
task, and hands out the answers. No task is made, so nothing outlives its callers.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")

ALONE = object()
"""Handed out in place of an answer: ask for yourself."""


@dataclass(slots=True)
class OpenBatch(Generic[Q]):
    """What is asked in one tick beside the request of the leader, and where each caller waits for
    its answer.
    """

    requests: list[Q] = field(default_factory=list)
    places: list[asyncio.Future[Any]] = field(default_factory=list)

    def hand_out(self, answers: Sequence[Any]) -> None:
        """Answer those who still wait; with too few answers, the rest must ask alone."""
        missing = [ALONE] * (len(self.places) - len(answers))
        for place, answer in zip(self.places, [*answers, *missing], strict=True):
            if not place.done():
                place.set_result(answer)


@dataclass(slots=True)
class RequestBatcher(Generic[Q, A]):
    """Calls `perform` once for what is asked in one tick of an event loop.

    Where that fails, or the leader is cancelled, each of the others asks for itself: an error
    reaches only the caller whose request meets it.

    Attributes:
        perform: Answers requests, in their order.
    """

    perform: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]
    _open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, OpenBatch[Q]] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def __call__(self, make: Callable[[], Q]) -> Coroutine[Any, Any, A]:
        """Make a request now, and ask it when the coroutine is awaited. What fails now is raised
        then.
        """
        try:
            return self._ask(make())
        except Exception as error:
            return _fail(error)

    async def _ask(self, request: Q) -> A:
        loop = asyncio.get_running_loop()
        gathered = self._open.get(loop)
        if gathered is None:
            answer: Any = await self._lead(request, loop)
        else:
            gathered.requests.append(request)
            gathered.places.append(loop.create_future())
            answer = await gathered.places[-1]
        return (await self.perform([request]))[0] if answer is ALONE else answer

    async def _lead(self, request: Q, loop: asyncio.AbstractEventLoop) -> Any:
        gathered = self._open[loop] = OpenBatch[Q]()
        answers: Sequence[Any] = ()
        try:
            try:
                await asyncio.sleep(0)
            finally:
                del self._open[loop]
            answers = await self.perform([request, *gathered.requests])
        except Exception:
            if not gathered.requests:
                raise
        finally:
            gathered.hand_out(answers[1:])
        return answers[0] if answers else ALONE


async def _fail(error: Exception) -> Any:
    try:
        raise error
    finally:
        del error  # or it would hold this frame, which holds it
