"""Both memories of a LangGraph application in MongoDB.

    with MongoMemory.from_conn_string(uri, index={"embed": "local", "dims": 256}) as memory:
        graph = builder.compile(checkpointer=memory.saver, store=memory.store)

`MongoSaver` keeps the state of threads, `MongoStore` what outlives them, `MongoMemory` holds both.
`MongoMemory.user` is one user of both. `MongoCache` keeps results of nodes
(``compile(cache=memory.cache)``).
"""

from mongomem.cache.cache import MongoCache
from mongomem.checkpoint.documents.thread_list import Thread
from mongomem.checkpoint.plans.prune import PruneReport
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.retention.sweep import RetentionReport
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.runners import Concerns
from mongomem.errors import (
    ConfigurationError,
    ContentionError,
    CorruptDataError,
    DimensionMismatchError,
    IndexMismatchError,
    InvalidInputError,
    LocalServerError,
    MongomemError,
    ReindexError,
    SchemaVersionError,
    ServerUnavailableError,
    ThreadNotFoundError,
    UnstorableValueError,
    UsageError,
)
from mongomem.local_server.server import LocalServer, local_uri
from mongomem.memory import MongoMemory
from mongomem.store.documents.stored_item import ExplainedItem
from mongomem.store.plans.get_vectors import ItemVectors
from mongomem.store.store import MongoStore
from mongomem.transfer.users import Imported
from mongomem.user import User
from mongomem.user_data import Erased
from mongomem.user_export import AsyncUserExport, UserExport
from mongomem.user_labels import user_namespace

__all__ = [
    "AsyncUserExport",
    "Concerns",
    "ConfigurationError",
    "ContentionError",
    "CorruptDataError",
    "DimensionMismatchError",
    "Erased",
    "ExplainedItem",
    "Imported",
    "IndexMismatchError",
    "InvalidInputError",
    "ItemVectors",
    "LocalServer",
    "LocalServerError",
    "MongoCache",
    "MongoMemory",
    "MongoSaver",
    "MongoStore",
    "MongomemError",
    "PruneReport",
    "ReindexError",
    "Retention",
    "RetentionReport",
    "SchemaVersionError",
    "ServerUnavailableError",
    "Thread",
    "ThreadNotFoundError",
    "UnstorableValueError",
    "UsageError",
    "User",
    "UserExport",
    "local_uri",
    "user_namespace",
]
