"""What is stored: queries that the command line asks, and any other window on a database.

    inspector        Inspector: the queries on one memory; the door of this folder
    context          what every query is given
    presence         which collections of mongomem a database has
    threads          the list of threads, with what each holds
    history          the checkpoints of a thread, without their values
    state            the state of a thread at one checkpoint
    difference       two states, channel by channel: pure
    memories         items with scores; namespaces, with what they hold
    sizes            bytes of threads and channels, page by page
    thread_channels  the channels of one thread, and what its checkpoints share
    statistics       totals and the largest, which grow page by page
    examination/     what is wrong or slow, and what to do about it
    plain_values     values as JSON can say them, bounded: pure

Nothing here writes, imports what values name, or prints. Every query is bounded, or gives pages.
``inspector`` imports all others; these import the plans and documents of both memories, and of
``display`` how a history is laid out.
"""
