"""The command line, ``mongomem`` (extra ``cli``).

    entry        what the console script calls; says what to install where the extra is missing
    application  the commands, by their names
    command      what all commands have in common: options, errors, exit codes, ``--json``
    database     the options that name a database, and what is opened of it
    factories    objects that an option names as MODULE:FACTORY
    refusals     exit codes, and one line for an error, that tells what to do
    printout     what is printed: answers as text, tables and JSON; progress
    tables       tables as lines, as wide as a terminal is
    migrate      the command that copies the data of other packages
    sources      what ``migrate`` copies: the sources that its options name, opened
    queries/     the commands that read
    changes/     the commands that change what is stored, and those that move it

A command decides nothing of its subject: that is done by a library layer, as `mongomem.inspection`
for what reads, and `mongomem.migration`. Results go to the standard output, everything else to the
standard error. Read `command` first.

How every command behaves: a result is text, or one JSON object with ``--json``; an error is one
line that tells what to do, without a traceback. The exit codes are 0 (all is well), 1 (something
failed or needs to be done), 2 (wrong usage, nothing was begun) and 130 (ended by Ctrl-C). A closed
pipe is no error. Progress and colours are for terminals alone. Nothing that is stored reaches a
terminal with its control characters. What destroys asks first, or is told ``--yes``.
"""
