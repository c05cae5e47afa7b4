"""The plans of long-term memory.

    setup            indexes, the index configuration that all writers agree on, the Atlas index
    batch            a batch: all reads on the state before it, then its writes
    read             items by key, refresh of their TTL, namespaces, export
    plain_search     search without a query: newest update first
    semantic_search  candidates, read again, scored
    candidates       where candidates come from: memory, a reading of everything, Atlas
    index_sync       load an in-memory index and bring it up to date
    put              puts and deletions of a batch; delete_namespace
    merge            changes merged into one item, which no concurrent writer undoes
    reindex          make all vectors again
    get_vectors      items with the vectors that are stored with them
    model_check      whether the model is the one that made the vectors; paths that give no text

Rules that every plan keeps:

- One document holds an item whole, so each put is atomic: value, vectors and expiry change
  together.
- Texts are embedded before the first write: an embedder that fails changes nothing.
- What an index in memory proposes is read again and scored on the exact vectors: it never decides
  an answer.
- A filter narrows on the server and is decided in Python.
"""
