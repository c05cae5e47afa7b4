"""The words of texts: what an item is found by beside its embedding. Pure: no document, no command.

analysis      Analyser, which lists the words of a text; one for each language
scripts       where a word starts and ends, in which script it is: patterns
normal_forms  one spelling for what readers take for the same word
stems         the ending that a word loses: own rules for English, Snowball for others
languages     stop words: the words that tell nothing

``analysis`` imports the others, these nothing of each other.
"""
