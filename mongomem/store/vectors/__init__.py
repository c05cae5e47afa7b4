"""Ranking by embedding: functions and structures over vectors. Pure: no document, no command.

quantization  float32 vectors, their int8 codes, the three similarities
memory_index  the codes and terms of one namespace prefix, searched: a flat index
products      levels of codes multiplied with a query
fusion        meaning and words as one score
selection     which rows are candidates, given approximate scores and an error bound
watermark     from which timestamp on changes have to be read again
known_changes which of these changes are known already, by their timestamps alone
matching_ids  which items may match a filter that was searched by before
index_cache   an index and its watermark for each prefix, bounded in bytes: the only lock
atlas         the definition of an Atlas Vector Search index, and the stage that asks it
"""
