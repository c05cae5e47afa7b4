"""The exceptions of mongomem: few, typed, and each one something a caller can act on.

    MongomemError
    ├── InvalidInputError         (ValueError)    an argument that no call may carry
    │   ├── UnstorableValueError  (TypeError)     a value that MongoDB or the serializer cannot hold
    │   └── DimensionMismatchError                an embedder answered with vectors of another size
    ├── ConfigurationError        (ValueError)    options that contradict each other or the data
    │   └── IndexMismatchError                    the store was indexed with another configuration
    ├── UsageError                (RuntimeError)  the right call in the wrong place
    ├── ThreadNotFoundError       (LookupError)   there is no such thread
    ├── CorruptDataError          (RuntimeError)  stored documents that contradict each other
    ├── SchemaVersionError        (RuntimeError)  a document written by a newer mongomem
    ├── ReindexError              (RuntimeError)  some items could not be indexed anew; names them
    ├── ServerUnavailableError    (ConnectionError)  no server answers at this address
    ├── ContentionError           (RuntimeError)  others changed a thread or an item too often
    └── LocalServerError          (RuntimeError)  the embedded mongod cannot start

Each also inherits the builtin it mirrors. Errors of the driver (``pymongo.errors``) pass through
unchanged, with a note that names the operation.
"""

from __future__ import annotations

from collections.abc import Mapping


class MongomemError(Exception):
    """Root of every error that mongomem raises by itself."""


class InvalidInputError(MongomemError, ValueError):
    """An argument is of the wrong kind. Raised before anything is read or written."""


class UnstorableValueError(InvalidInputError, TypeError):
    """A value cannot be stored. Names the item and the path inside it, or the channel; nothing was
    written.

    Also a ``TypeError``: that is what LangGraph's serializer raises, and so other savers.
    """


class DimensionMismatchError(InvalidInputError):
    """An embedding has not the configured number of dimensions. Nothing was written."""


class ConfigurationError(MongomemError, ValueError):
    """Options contradict each other, or what is stored already."""


class IndexMismatchError(ConfigurationError):
    """The stored vectors were made with another embedding configuration. ``store.reindex()`` is the
    way out.
    """


class UsageError(MongomemError, RuntimeError):
    """The call is right but not here, e.g. a sync method on the loop of its client. Says what to
    write instead.
    """


class ThreadNotFoundError(MongomemError, LookupError):
    """There is no such thread: it was deleted, has expired, or has no checkpoint yet. Nothing was
    changed.
    """


class CorruptDataError(MongomemError, RuntimeError):
    """Stored documents do not fit together, e.g. a chunk is gone. Names thread and checkpoint."""


class SchemaVersionError(MongomemError, RuntimeError):
    """A document carries a schema version from the future. Upgrade mongomem to read it."""


class ReindexError(MongomemError, RuntimeError):
    """A reindex converted all items but some, which follow unscored in searches until they are put
    again.

    Attributes:
        items: Namespace and key of each, and why.
    """

    def __init__(self, items: Mapping[tuple[tuple[str, ...], str], str]) -> None:
        self.items = dict(items)
        shown = [
            f"item {key!r} in {namespace!r}: {why}"
            for (namespace, key), why in [*self.items.items()][:10]
        ]
        more = ", ..." if len(self.items) > len(shown) else ""
        super().__init__(
            f"{len(self.items)} items could not be indexed, all others are: "
            f"{'; '.join(shown)}{more}"
        )


class ContentionError(MongomemError, RuntimeError):
    """Others changed the same thread or item at the same time, again and again. Nothing is broken:
    repeat the call later.
    """


class ServerUnavailableError(MongomemError, ConnectionError):
    """No server answers where the connection string says. Names the hosts and what each met."""


class LocalServerError(MongomemError, RuntimeError):
    """The embedded MongoDB server cannot start. Says what is missing and what to install."""
