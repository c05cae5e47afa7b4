"""Short-term memory: MongoSaver and what it stores.

    saver       the public class: one expression a method
    upkeep      the methods of the class that are about whole threads
    context     what every plan is given: options, serializer, caches
    caches      what a saver remembers between calls, bounded in bytes
    damage      which damaged documents listings left out
    plans/      one module a LangGraph method: control flow that awaits commands
    documents/  the stored documents, and what a config and its metadata mean: pure
    serde/      values to bytes to chunks, and back: pure

    put        saver -> plans/put -> serde/channels -> documents -> one ordered BulkWrite
    get_tuple  saver -> plans/read -> one Aggregate -> documents/checkpoint -> plans/restore ->
               plans/load

Imports go down this list. Start with ``documents/__init__.py``, then ``plans/put.py``.
"""
