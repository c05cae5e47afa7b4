"""The plans of short-term memory, named after the methods of the saver.

    setup          indexes, migrations, the TTL that the collections have
    put            put: the parent from the caches or by one read, then one ordered command
    put_writes     put_writes
    read           get_tuple, and the pages of list
    restore        stored checkpoints and pending writes to CheckpointTuples
    load           chunk hashes to bytes to objects; whose fault it is that content cannot be opened
    delta_history  get_delta_channel_history
    copy_thread    copy_thread
    delete         delete_thread; tombstones, and what is left behind them
    prune          prune, delete_for_runs; garbage
    threads        list_threads, update_thread, delete_idle_threads
    thread_state   read, make and touch the thread document; what a put on a thread stands on

Rules that every plan keeps:

- Chunks are written first, the checkpoint last, in one ordered command: a crash leaves chunks that
  nothing refers to.
- A removal begins with what makes data visible and ends with what a repetition finds the rest by.
- `epoch` is the life of a thread. Deleting the thread begins another; documents of an ended one are
  not shown.
- `generation` changes whenever something is removed from a thread. A put that relies on chunks of
  its parent updates the thread under the generation it knows; under another one nothing behind the
  chunks is written, and the put begins anew.
- A thread with a TTL is touched as a whole, at most once in a tenth of the TTL, before anything new
  is written.
- Attempts are bounded, with a growing pause; the last one ends in `ContentionError`.
- Arguments are checked before the first command. A damaged document is an error
  where it is asked for by name; listings leave it out.
"""
