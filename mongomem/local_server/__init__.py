"""An embedded MongoDB: a mongod that its users hold together, and that ends with the last of them.

    server          the door: LocalServer, local_uri                      each user's process
    lease           the users' end: join a running server, or launch one  each user's process
    supervisor      the server's end: count the users, end mongod         its own process
    process         start, watch and stop mongod, its child               its own process
    node_directory  the data directory: its locks and its state           both
    ownership       what on the disk is this user's alone                 both
    mongod          find the program, explain why it does not start       each user's process
    options         check what the user says                              each user's process
    credentials     the key, and the logins that come from it             each user's process
    replica_set     a primary, and a user that can log in                 each user's process
    orphan          end a mongod that lost its supervisor                 each user's process

The supervisor imports this package by itself, outside of mongomem: ``supervisor``, ``process``,
``node_directory`` and ``ownership`` use the standard library and relative imports only, and nothing
belongs in this file.
"""
