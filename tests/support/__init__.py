"""What tests share. No test is here; a test imports these modules as ``support.<module>``.

savers         a saver on every kind of client, called by one set of names
stores         a store likewise; a clock in hand, an embedder that counts
caches         a cache likewise, with its collection and a clock in hand
spans          spans that are kept in memory, and the commands that a client sent
stepping       plans performed by and by, so that others can act in between
graphs         graphs, a play of them on any saver, and what two plays have in common
agents         a model that follows a script, and both memories on every kind of client
hostile        values that no parameter expects
filters        filters and values, drawn at random
bag_of_words   an embedding without a model
openai_server  a real HTTP server that speaks OpenAI's protocol
waits          waits for what must happen, which measure nothing
databases      where the databases of the tests are, and how they end
local_data     what the tests of the local server do with its data
"""
