"""Both memories as ``langgraph.json`` names them, for ``langgraph dev`` and other servers.

    {
      "checkpointer": {"path": "mongomem.langgraph.checkpointer"},
      "store": {"path": "mongomem.langgraph.store", "index": {...}, "ttl": {...}}
    }

    factories      what a server enters: `checkpointer`, `store`, and `memory`, which holds both
    settings       what the environment says, which a server sets of ``langgraph.json``
    embedder_file  an embedder that is named as "./FILE.py:NAME"

A server enters a factory once in each of its event loops. All that one process enters in one loop
has one client.
"""

from mongomem.langgraph.factories import checkpointer, memory, store

__all__ = ["checkpointer", "memory", "store"]
