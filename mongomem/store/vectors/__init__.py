"""Ranking by embedding: functions and structures over vectors. Pure: no document, no command.

quantization  float32 vectors, their int8 codes, the three similarities
memory_index  the codes of one namespace prefix in memory, ranked
index_cache   an index for each prefix that is searched, bounded in bytes
watermark     from which timestamp an index has to read again
atlas         the definition of an Atlas Vector Search index, and the stage that asks it
"""
