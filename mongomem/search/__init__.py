"""Ranking by embedding: pure functions and structures over vectors, without a database."""
