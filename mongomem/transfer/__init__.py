"""Everything of one user as JSON, and back into a database.

    json_parts     parts of a JSON document, checked where they are read
    pieces         serialized values in JSON: what checkpoints share stands there once
    transcript     the messages of a thread, for people
    given_thread   what a document says of a thread
    given_values   what it says of a checkpoint, read by the serializer
    stored_thread  plans: what a database has of a thread; its times
    thread_export  plans: a thread as JSON
    thread_import  plans: a thread from JSON
    memories       plans: items as JSON, and back
    users          plans: everything of a user as JSON, and back

The document, version 1. Fields in brackets are there only where they say something.

    format, version             "mongomem.user", 1
    user_id, exported_at
    threads                     one each
        thread_id, created_at, updated_at
        labels, users           what update_thread has set; whom the thread names, by metadata key
        transcript              role, text, time of each message: for people, not read by the import
        pieces                  base64, each of at most 4096 bytes
        checkpoints             one each: namespace, id, parent_id, [hidden]
            checkpoint          the value of the checkpoint without channels, with its metadata
            channels            values by channel
            writes              pending writes: task_id, task_path, idx, channel, value
    memories       one each
        namespace               the labels below the user's namespace
        key, value              the value as JSON, as well as it can say it
        [encoded]               the value where JSON cannot say it exactly
        created_at, updated_at, [ttl_minutes], [index]
        [embedded]              true where the item had vectors, which are not in the document
    undecided                   ids of threads that do not say whose they are, or of which no
                                checkpoint can be read

A value of a thread is ``{"type": ..., "data": base64}``, or ``{"type": ..., "pieces": [...]}``:
the pieces of the thread, by their places, that are its bytes. ``type`` and bytes are what the
serializer gives. They are not encrypted, also where the saver encrypts.
"""
