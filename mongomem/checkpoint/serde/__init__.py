"""Values to bytes to chunks, and back. Pure: no document, no command.

serializer         a serializer, compression and a cipher as one: the content that is stored
default            the serializer of a saver that is given none: revives data types only
place_digest       what content is bound to, so that it is read in no other place
channels           what of a checkpoint is stored: what its parent does not hold, inline or as
                   chunks
chunks             content-defined chunks and their names
copies             copies of what a caller may change before it is serialized
size_estimate      about how large values are before they are serialized
versions           versions of channels
message_cache      lists of LangChain messages, serialized and revived message by message
message_snapshots  what a message was, kept so that nobody can change it
msgpack_elements   a serialized list as its elements
cache              a mapping that is bounded in bytes

value -> serialized (type, bytes) -> inline bytes, or chunks by name -> content, compressed or
encrypted
"""
