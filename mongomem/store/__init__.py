"""Long-term memory: MongoStore and what it stores.

    store              MongoStore, one expression a method: what a running graph calls
    namespace_methods  its base class: the methods about whole namespaces (delete, reindex, expire)
    sweeper            what start_ttl_sweeper answers
    context            what every plan is given: options, clock, what is shared between calls
    plans/             one module an operation: control flow that awaits commands
    documents/         items, values, namespaces, filters: pure
    vectors/           quantization, the in-memory index, its watermark: pure
    words/             the words of texts: pure

    put     store -> documents/ops -> plans/batch -> plans/put -> EmbedDocuments -> one BulkWrite
    search  store -> plans/batch -> plans/semantic_search -> plans/candidates -> plans/index_sync
            -> vectors/memory_index -> Find by _id -> score

``store`` imports ``plans``, these ``context`` and ``documents``, these ``vectors``
and ``words``. Start with
``documents/__init__.py``, then ``plans/batch.py``.
"""
