"""Listings that do not end at a value which cannot be read.

A listing ends at its first error, and what is behind it would never be seen. So for listings, of
which only places are wanted, what the serializer cannot read is empty. It fails when it is read by
itself.
"""

from __future__ import annotations

import copy
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

from mongomem.checkpoint.saver import MongoSaver


def lenient(saver: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """Return a copy of a saver, made as ``with_allowlist`` makes one, whose serializer gives
    something empty for what it cannot read.

    A `MongoSaver` itself leaves out of its listings what is damaged. It is returned as it is, and
    so is a saver that cannot be copied.
    """
    if isinstance(saver, MongoSaver):
        return saver
    try:
        serde: Any = copy.copy(saver.serde)
        serde.loads_typed = _LenientLoads(saver.serde)
        lister = copy.copy(saver)
        lister.serde = serde
    except Exception:  # whatever the classes of others do not allow
        return saver
    return lister


class _LenientLoads:
    """``loads_typed`` of a serializer, without its errors. What stands for a value has the members
    of a checkpoint, since it may be one.
    """

    def __init__(self, serde: Any) -> None:
        self._serde = serde

    def __call__(self, data: tuple[str, bytes]) -> Any:
        try:
            return self._serde.loads_typed(data)
        except Exception:  # whatever bytes and serializer are
            return empty_checkpoint()
