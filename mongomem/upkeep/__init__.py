"""What looks after a database: prepare it, remove from it, distribute it over shards.

    preparation   indexes and migrations: what `setup` did
    removals      what a removal is about: told before it is done
    shard_keys    shard keys, and the commands that set them

What is done is done by the public methods of `MongoMemory`, of its saver and of its store. This
folder says what they did, or would do.
"""
