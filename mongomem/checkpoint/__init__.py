"""Short-term memory: the state of threads, stored as what changed."""
