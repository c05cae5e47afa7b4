"""What is told of operations while they run: spans of OpenTelemetry, and a line for each slow one.

    observer    makes a plan one that is observed, or leaves it as it is where nobody looks
    operation   what is counted of an operation: round trips, bytes, time; its commands, observed
    subjects    what an operation is about: its thread or its namespace
    sizes       how large documents are as BSON, without encoding them
    slow_lines  the line of a slow operation
    spans       spans: the only module that imports ``opentelemetry``, and only where others did

An observed plan is a plan: it awaits the commands of the plan that it observes, each inside of one
that measures it. So every runner runs it, and no runner knows of it. No value is told: neither
messages nor state, neither queries nor the texts of errors.
"""
