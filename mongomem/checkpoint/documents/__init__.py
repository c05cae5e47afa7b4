"""The documents of short-term memory, and what a config and its metadata mean. Pure: no command is
issued here.

    collections     names of the collections, `_id` values, queries, the table of indexes
    fields          one field of a document, read and checked; the schema version
    checkpoint      checkpoints and pending writes: encode and decode
    thread          threads and chunks: encode and decode; `epoch` and `generation` explained
    thread_list     the list of threads: what it shows, filters, labels
    list_query      the arguments of list, and where a listing has come to
    config          RunnableConfig to CheckpointRef, checked
    metadata        the readable copy of metadata, what a filter means, the query that narrows it
    identity        whose a thread is: identity keys, members
    ancestry        ancestors, checkpoints kept for replay, what a removal takes
    garbage         which chunks are marked, and which are deleted
    preview         the beginning of a thread's last message

The schema, version 1. Fields in brackets are there only where they say something.

{prefix}checkpoints, ``type: "thread"``, one a thread
    _id                      digest of the thread id, 12 bytes, with which the `_id` of all its
                             documents begin
    thread_id                the thread id
    epoch                    the life of the thread: raised by a deletion; also on checkpoints, on
                             chunks, and on pending writes whose value is in chunks
    generation               random; changed by every removal
    created_at, updated_at   when its life began, and when a checkpoint was last put; a tombstone
                             has no updated_at
    touched_at, stamped_at   when this document, and when all of the thread, was last used: what
                             expires by a TTL
    members                  by identity key, for whom the thread was put: strings, or keyed digests
                             where encrypted
    identity, metadata       the first values of identity keys; metadata that the first format kept
                             here
    last_metadata            readable metadata of the newest put that is not of a single step
    [labels]                 what update_thread set
    [preview]                the beginning of the last message
    [name_key]               the secret key of its chunk hashes, encrypted
    [deleted_at, ended_at]   when a deletion made it a tombstone; when a former life ended
    schema_version           1

{prefix}checkpoints, ``type: "checkpoint"``, one a checkpoint
    _id                      of the thread, and a digest of namespace and checkpoint id: 28 bytes
    thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id
    epoch, created_at, touched_at, schema_version
    metadata                 the readable copy of the metadata, for filters
    [metadata_omitted]       its keys that the copy leaves out; "*" for any
    body                     a value: the checkpoint without its channels, and its metadata: what is
                             read back
    channels                 values, each with its ``channel``
    content                  the inline bytes of body and channels, one after the other:
                             data | packed | sealed + cipher; ``digest`` binds them to their place
    [sends_in_parent]        its pending sends are writes of its parent (format below 4)
    [hidden, hidden_at]      removed, and kept for the replay of another one; since when
    [parent_is_hidden]       its parent is

A value is ``type`` (of the serializer), ``length`` (inline bytes), and where it is long ``size``
and ``chunks``: its list of chunk hashes, 16 bytes each, joined. A long list is in chunks itself, so
``chunks`` has one entry a level, the highest first; each is what is inline of that level.

{prefix}checkpoints, ``type: "chunk"``, one a chunk
    _id                      of the thread, and a hash of the content (keyed where values are
                             encrypted): 28 bytes
    thread_id, epoch, touched_at
    data | packed | sealed + cipher    plain, compressed or encrypted: a piece of a value, or of a
                                       list of chunk hashes
    [idle_since]             when a prune found that nothing refers to it

{prefix}checkpoint_writes, one a pending write
    _id                      of the thread, and a digest of checkpoint, task and idx
    thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel
    touched_at, schema_version
    type, data | packed | sealed + cipher, digest, [size, chunks, epoch]    the value; epoch only
                                                                            with chunks

{prefix}checkpoint_settings
    how far the schema has come; the lease and the record of the retention
    (`mongomem.checkpoint.retention`)
"""
