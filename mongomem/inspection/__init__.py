"""What is stored: queries that the command line asks, and any other window on a database.

    presence    whether a database has collections of mongomem

Nothing here writes. Every query is bounded, or gives pages.
"""
