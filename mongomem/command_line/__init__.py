"""The command line, ``mongomem`` (extra ``cli``).

    entry        what the console script calls; says what to install where the extra is missing
    application  the commands and their exit codes
    migrate      the command that copies the data of other packages
    ends         what the options name: sources and targets, opened
    refusals     one line for an error, that tells what to do
    printout     what is printed: a report, as text and as JSON

A command decides nothing of its subject: that is done by a library layer, as `mongomem.migration`.
Results go to the standard output, everything else to the standard error.
"""
