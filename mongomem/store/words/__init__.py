"""Ranking by words. Pure: no document, no command.

analysis      which words a text has, and what each is searched by
languages     stop words and stems by language
stored_terms  the terms of an item as bytes of its document
bm25          what a term is worth, and what an item's terms score
term_index    the terms of one namespace prefix in memory
query         the terms of a query, and its phrases in double quotes
"""
