"""The commands that change what is stored, and those that move it.

    durations   times as options say them
    questions   what is told before something is destroyed, and what is named at the end
    setup       indexes, migrations, time to live
    delete      threads
    prune       old checkpoints
    policies    a retention policy as an option says it
    erase       a user
    reindex     vectors, made again
    export      threads and items into a file
    import_     and from a file
    shard       the commands that shard the collections

Each can be repeated: what was cut short is finished by the same command. What they do is done by
`mongomem.upkeep`, `mongomem.backup` and the methods of `MongoMemory`.
"""
