"""The documents of long-term memory, and what a caller's operations mean. Pure: no command is
issued here.

    item          item documents: how they are written, and the table of indexes
    stored_item   item documents, read and checked
    value         values as readable BSON, lossless where BSON is not
    namespace     namespaces as paths, ranges and patterns
    filter        filter operators: how they are checked, and what they mean
    filter_query  the query that narrows by a filter on the server, to a superset
    ttl           times to live and expiry
    score         how well documents answer a query, as they are now
    index_config  LangGraph's IndexConfig, resolved: which texts are embedded, by what
    ops           LangGraph's operations, checked and grouped
    indexed       what an index in memory holds of item documents
    coverage      which paths have given a text so far

The schema, version 1. Fields in brackets are left out where they would say nothing.

{prefix}store_items, one an item
    _id                         path, two NULs, key
    namespace, key              as the caller gave them
    path                        the labels joined by NUL: the shard key
    prefixes                    the paths of all namespaces above, and its own: a prefix search is
                                an equality on it
    value                       readable; what is read back unless there is `exact`
    [exact]                     the value where BSON cannot hold it, with a digest of `value`
    created_at, updated_at
    [expires_at, ttl_minutes]   where the item expires
    changed_at                  timestamp of the server's logical clock, set by every write: what
                                index_sync reads by
    [index, index_fields]       which configuration made the vectors; the item's own choice of
                                fields
    [generation]                how many forced reindexes were before
    [vectors]                   one for each text: path, digest of the text, vector (float32)
    [codes]                     the same as int8 codes, to rank by
    [terms]                     the words of the texts as hashes and counts, to rank by
    schema_version              1

{prefix}store_settings
    the index configuration that all writers agree on, `analyser`: what found the terms, and how
    far the schema has come
"""
