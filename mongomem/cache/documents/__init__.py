"""The documents of the cache, and what a caller's arguments mean. Pure: no command is issued here.

    entry      entries: how they are written, read and checked; the table of indexes
    arguments  keys, pairs, namespaces and times to live, checked
    revival    values as they were, or not at all

The schema, version 1. Fields in brackets are left out where they would say nothing.

{prefix}cache_entries, one an entry
    _id             digest of the namespace, 16 bytes, and digest of the key, 16 bytes: the entries
                    of a namespace are one range, which is what `clear` deletes
    namespace, key  as the caller gave them, for people
    type            what the serializer calls the form of the value
    data | packed   its bytes, in plain, compressed where that is shorter; with
      digest        that of the bytes under the digest of their place
    sealed, cipher  instead: its bytes, encrypted together with the digest of their place
    created_at
    [expires_at]    where the entry expires: from then on it is absent, and the server deletes it
    schema_version  1

The place is namespace, key, type and expires_at: what was copied to another entry, or whose life
was changed, is not read.
"""
