"""The stem of a normalised word: what inflected forms of it have in common.

English has rules of its own, which need no package. Other languages have the stemmers of
snowballstemmer (extra ``stems``). Its modules are imported one by one, and not by its function
``stemmer``: that one answers with PyStemmer where it is installed, whose stems may be those of
another version, and which raises for a lone surrogate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, TypeAlias

Stemmer: TypeAlias = Callable[[str], str]

ENGLISH_ENDINGS = ("ing", "edly", "ed", "ies", "es", "ly", "s", "e", "y")

_BEFORE_A_VOWEL = {"ing", "edly", "ed", "es", "s", "ly"}
"""Endings that may leave the "e" or "y" of the word before them."""

_VOWEL = re.compile("[aeiouy]")

LETTERS_OF_A_STEM = 6


def english_stem(word: str) -> str:
    """Cut an ending of English, and of what is left keep the first six letters.

    On questions about public conversations it ranked as well as Snowball's English. It does so
    also for other languages with suffixes, since these begin behind the first six letters of many
    words.
    """
    for ending in ENGLISH_ENDINGS:
        rest = word[: -len(ending)]
        if len(rest) >= 3 and word.endswith(ending) and _VOWEL.search(rest):
            return _without_last_letter(rest, ending)[:LETTERS_OF_A_STEM]
    return word[:LETTERS_OF_A_STEM]


def _without_last_letter(rest: str, ending: str) -> str:
    """Cut what an ending added or left: "stopp" of "stopping" and "visite" of "visites"."""
    if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz":
        rest = rest[:-1]
    if len(rest) > 3 and rest[-1] in "ey" and ending in _BEFORE_A_VOWEL:
        rest = rest[:-1]
    return rest


def snowball_languages() -> set[str]:
    """Return the languages that snowballstemmer knows; none where it is not installed."""
    package = find_spec("snowballstemmer")
    modules = iter_modules(package.submodule_search_locations if package else ())
    end = "_stemmer"
    return {module.name.removesuffix(end) for module in modules if module.name.endswith(end)}


def snowball_version() -> str:
    """Return the version of snowballstemmer, since another one may answer with other stems."""
    return version("snowballstemmer")


def snowball_stemmer(language: str) -> Stemmer:
    """Return the stemmer of a language, which any thread may call."""
    name = f"{language.title().replace('_', '')}Stemmer"
    make: Any = getattr(import_module(f"snowballstemmer.{language}_stemmer"), name)

    def stem(word: str) -> str:
        # Each word has a stemmer of its own: it keeps the word that it works at.
        stemmed: str = make().stemWord(word)
        return stemmed

    return stem
