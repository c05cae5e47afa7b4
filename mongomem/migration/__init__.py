"""The way over: threads and items of other LangGraph packages, copied into a `MongoSaver` and a
`MongoStore`.

    parts            what a source gives: places, checkpoints, writes, items, what is left out
    blocked_types    classes that a serializer did not revive while a value was read
    lost_sources     errors by which a source is gone
    mongodb_threads  source: the documents of langgraph-checkpoint-mongodb
    mongodb_items    source: the documents of langgraph-store-mongodb
    saver_threads    source: any saver, by its public methods
    lenient_lister   listings of a saver that go on behind what cannot be read
    store_items      source: any store, by its public methods
    report           what was found, copied and left out, and what differs
    thread_copies    threads, each whole, its checkpoints oldest first
    item_copies      items, page by page, with their times
    comparison       both sides, read and compared

A source is read and never written to. What is done is recognised by what is in the target: a copy
that was cut short anywhere goes on when it is called again. Of a checkpoint the writes are stored
first, so one that is there has its writes. At no time more is in memory than a page, the ids of all
threads of a saver, the namespaces of a store, digests of the items of one namespace, and the places
of one thread. Of a store whose pages overlap, it is the items of one namespace.
"""
