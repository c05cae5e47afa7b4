"""Retention: what goes from threads by a policy, at once or beside the puts of an application.

policy           Retention: what is kept; checked
rounds           which threads a round looks at, and how far it has come: pure
lease            plans: one process at a time, by the clock of the server
due_threads      plans: which threads have something to prune, wait for an answer, are in use
sweep            plans: a page of threads, pruned or deleted; the report of what went
apply_retention  the plan of the method: everything at once
background       plans: one step after a put, and what a saver remembers between two

What goes is decided and removed by `plans.prune` and `plans.delete` alone, with what they promise.
A **round** is a set of **scans** of the list of threads, each newest first and between two times. A
**step** is one page of a scan. Where a round has come to stands in the settings, under the lease,
so that any process continues it.

A round looks at the threads that were updated since the round three before it began. So each thread
is looked at three times after its last update, more than the grace apart: first its checkpoints go,
or are hidden where channels are rebuilt from them; then these go; at last the chunks that nothing
refers to any more.
"""
