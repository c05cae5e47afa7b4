"""What plans run on: commands, and the runners that perform them.

Of the code of both memories only this folder knows PyMongo's collections, threads and event loops.
`loops`, `runners`, `effects`, `request_batcher`, `client_context` and `workers` import asyncio.
Outside of it, embedders do (`embeddings/custom` runs a loop for functions that are awaited,
`embeddings/openai` keeps a client a loop), and `store/sweeper`, which answers with futures.

    commands         one round trip to MongoDB as a frozen value: Find, Aggregate, BulkWrite, ...;
                     and what a plan is
    effects          the other commands: Compute, EmbedDocuments, EmbedQueries, Sleep, CacheUse,
                     DescribeConcerns; and FindInParts, which computes between its round trips
    runners          what runs plans, one runner for each way of waiting
    loops            event loops seen from other threads: where the client of a runner lives
    workers          the threads that wait and compute on behalf of event loops
    locks            locks that a forked child finds open
    clients          clients of PyMongo: the database that one names, and what is remembered of each
    client_context   from_conn_string: a client is made, asked whether its servers are there, and
                     closed
    request_batcher  concurrent awaited calls of one kind become one batch
    writes           writes that others may be making at the same moment, and those that are sent
                     once
    mongomock        the adapter that makes a mongomock database answer the commands
    clock            the time, where a caller gives no other clock

A **command** describes one effect. A **plan** is an ``async def`` that awaits commands and other
plans, and nothing else: it knows no client, thread or loop. A **runner** performs the commands of a
plan, blocking or awaited, so every operation of both memories is written once. Start with
`commands`, then `runners`.
"""
