"""Short-term memory: MongoSaver and what it stores.

    saver           MongoSaver, one expression a method: what a running graph calls
    thread_methods  its base class: the methods about whole threads (list, label, copy, prune)
    context         what every plan is given: options, serializer, caches
    caches          what a saver remembers between calls, bounded in bytes
    plans/          one module a LangGraph method: control flow that awaits commands
    documents/      the stored documents, and what a config and its metadata mean: pure
    retention/      what goes from threads by a policy, at once or beside the puts
    serde/          values to bytes to chunks, and back: pure

    put        saver -> plans/put -> serde/channels -> documents -> one ordered BulkWrite
    get_tuple  saver -> plans/read -> one Aggregate -> documents/checkpoint -> plans/restore ->
               plans/load

``saver`` imports ``plans``, these ``context`` and ``documents``, these ``serde``. Start with
``documents/__init__.py``, then ``plans/put.py``.

A new method: its two twins in ``saver`` or ``thread_methods`` (the async one under
`begins_at_call`), its plan in the module of ``plans/`` that is nearest (rules in
``plans/__init__.py``), its scenario in ``tests/checkpoint/test_crashes.py``, its row in
``tests/checkpoint/test_hostile_arguments.py``, and for ``thread_methods`` its names in
``docs/reference/saver.rst``. Tests fail where one of these is missing. A method without commands or
without a twin is named in `WITHOUT_COMMANDS` and `WITHOUT_TWIN` of the tests.
"""
