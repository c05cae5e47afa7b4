"""Classes that a serializer did not revive while a value was read.

A copy would keep the plain data in the place of the object for good, so such a checkpoint is left
out instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mongomem.checkpoint.serde.default import unrevived_classes
from mongomem.errors import InvalidInputError


@contextmanager
def all_revived() -> Iterator[None]:
    """Read values, and refuse them where a class was not revived.

    Raises:
        InvalidInputError: At the end, names the classes.
    """
    with unrevived_classes() as blocked:
        yield
    if blocked:
        raise InvalidInputError(
            f"it holds objects of {', '.join(blocked[:3])}, whose module is not imported: "
            "--import imports it"
        )
