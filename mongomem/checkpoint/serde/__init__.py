"""Values to bytes to chunks, and back. Pure: no document, no command.

serializer         a serializer, compression and a cipher as one: the content that is stored
default            the serializer of a saver that is given none: deserializes data types only; which
                   classes were not revived
place_digest       what content is bound to, so that it is read in no other place
channels           what of a checkpoint is stored: what its parent does not hold, inline or as
                   chunks
chunks             content-defined chunks and their hashes
copies             copies of what a caller may change before it is serialized
size_estimate      about how large values are before they are serialized
versions           versions of channels
message_cache      MessageCache.dumps and loads: lists of messages, serialized and deserialized
                   message by message; compared with the serializer once in each process
message_snapshots  states of messages that nobody can change; only message_cache knows them
message_types      LangChain's message classes, and where pydantic keeps their state
cache              a mapping that is bounded in bytes, and which values it admits

value -> serialized (type, bytes) -> inline bytes, or chunks by hash -> content, compressed or
encrypted
"""
