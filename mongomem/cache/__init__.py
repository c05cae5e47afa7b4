"""The cache of node results: MongoCache and what it stores.

    cache       MongoCache, one expression a method: what a running graph calls
    context     what every plan is given: options, serializer, clock, what is shared between calls
    losses      what the cache could not read or keep, logged once
    plans/      control flow that awaits commands: get, set, clear, setup
    documents/  entries, arguments, values as they were or not at all: pure

    get  cache -> documents/arguments -> plans/entries -> one Find by _id -> documents/entry
         -> documents/revival
    set  cache -> documents/arguments -> documents/entry -> plans/setup -> one BulkWrite

A cache may forget, and may not answer wrongly. What cannot be read, revived, kept or reached is a
miss and a line in the log; what is returned is what was set under this namespace and key.

Values become bytes as those of the saver do (`mongomem.checkpoint.serde`). ``cache`` imports
``plans``, these ``context`` and ``documents``. Start with ``documents/__init__.py``.
"""
