"""Threads and items as lines of JSON: out of a database, and into one.

    lines         the lines of a file: written, and read one at a time
    selection     what is exported: everything, or threads, users and namespaces
    page_sizes    how many items are read at a time
    exports       the export: threads one after the other, then items
    given_lines   a thread of a file, gathered on the disk until it is whole
    imports       the import: what is there already is skipped

The file, version 1. Each line is a JSON object, in UTF-8, of at most 128 MiB. The first one is
``{"format": "mongomem.lines", "version": 1, "exported_at": ..., "index": ...}``, where the index is
how items were embedded, or null. Every other one has one member:

    thread       begins a thread: thread_id, created_at, updated_at, labels, users
    pieces       base64, each of at most 4096 bytes: the next ones of the thread
    checkpoint   one of the thread: namespace, id, parent_id, [hidden], checkpoint, channels, writes
    thread_end   ends it: thread_id, and how many checkpoints it has
    item         one item: namespace, key, value, [encoded], created_at, updated_at, [ttl_minutes],
                 [index], [embedded]
    end          the last line: how many threads, checkpoints and items there are

What stands in them is what `mongomem.transfer` describes: a value is ``{"type": ..., "data":
base64}``, or ``{"type": ..., "pieces": [...]}``, the places of pieces that came before it among all
of the thread. Values are not encrypted, also where the saver encrypts. Namespaces are whole. There
are no vectors in the file: a store with an index makes them anew.

Where a file has an item several times, the one that was updated last is stored, and of those the
last one. What is in the database counts as a line before the first.

No side holds more in memory than one checkpoint or a page of items, and of a thread the places of
its checkpoints and digests of its pieces. A thread is checked whole before the first of it is
stored, so of one that a file has by half nothing is.
"""
