"""The commands that read: each asks `mongomem.inspection`, and says how its answer is printed.

arguments   what options of these commands mean: times, filters, namespaces
scopes      where items are looked for, page by page
texts       values, times and numbers in lines
threads     ``mongomem threads``
history     ``mongomem history``
show        ``mongomem show``
diff        ``mongomem diff``
memories    ``mongomem memories`` and ``mongomem namespaces``
stats       ``mongomem stats``
doctor      ``mongomem doctor``
"""
