"""The plans of the cache.

    entries  get, set and clear
    setup    the index; whose the collection is

Rules that every plan keeps:

- Arguments are checked, and values serialized, before the first command.
- One document holds an entry whole, so each set of it is atomic.
- What a get cannot read is absent. Only a wrong argument, a wrong configuration and an error of the
  server other than a lost connection are raised.
- A clear raises whatever it meets: whoever calls it relies on what is gone.
"""
