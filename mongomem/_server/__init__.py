"""The server behind ``mongomem.local``: a mongod that its users hold together, and that ends with the last of them.

    lease       the users' end: join a running server, or launch one      runs in each user's process
    supervisor  the server's end: count the users, end mongod             runs in a process of its own
    process     start, watch and stop mongod, the child                   of the supervisor
    directory   the node directory: its lock and its state                in both
    mongod      find the program, explain why it does not start           runs in each user's process

The supervisor imports this package by itself, outside of mongomem: ``supervisor``, ``process`` and
``directory`` use the standard library and relative imports only, and nothing belongs in this file.
"""
