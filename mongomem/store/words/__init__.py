"""Ranking by words: what an item is found by beside its embedding. Pure: no document, no command.

readable      texts as they read: JSON without its escapes
analysis      Analyser, which lists the words of a text; one for each language
scripts       where a word starts and ends, in which script it is: patterns
normal_forms  one spelling for what readers take for the same word
stems         the ending that a word loses: own rules for English, Snowball for others
languages     stop words: the words that tell nothing
stored_terms  the terms of an item as bytes of its document
bm25          what a term is worth, and what the terms of an item score
occurrences   which item has which term how often: arrays
term_index    the terms of one namespace prefix in memory
query         the terms of a query, and its phrases in double quotes

``term_index`` imports ``occurrences``, ``stored_terms`` and ``bm25``, and ``query`` imports
``analysis`` and ``scripts``.
"""
