"""An embedded MongoDB: a mongod that its users hold together, and that ends with the last of them.

    server          the door: LocalServer, local_uri                      runs in each user's process
    lease           the users' end: join a running server, or launch one  runs in each user's process
    supervisor      the server's end: count the users, end mongod         runs in a process of its own
    process         start, watch and stop mongod, the child               of the supervisor
    node_directory  the data directory: its locks and its state           in both
    ownership       what on the disk is this user's alone                 in both
    mongod          find the program, explain why it does not start       runs in each user's process
    options         check what the user says                              runs in each user's process
    credentials     the key, and the logins that come from it             runs in each user's process
    replica_set     a primary, and a user that can log in                 runs in each user's process
    orphan          end a mongod that lost its supervisor                 runs in each user's process

The supervisor imports this package by itself, outside of mongomem: ``supervisor``, ``process``, ``node_directory`` and
``ownership`` use the standard library and relative imports only, and nothing belongs in this file.
"""
