"""The words of a text, each with the term that it is searched by.

A word goes through four steps, and its spelling is the key to a cache of the last three:

1. `scripts` tells where it starts and ends.
2. `normal_forms` spells it as others do. A word that is a stop word then ends here (`languages`).
3. A word with a digit is a number or a code, and is its own term.
4. Any other word is searched by its stem (`stems`).

A run of characters in a script without spaces has no words. Each two neighbours in it are one, so
these words overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from mongomem.arguments import checked_text, shown
from mongomem.errors import ConfigurationError
from mongomem.store.words.languages import STOP_WORDS
from mongomem.store.words.normal_forms import normalised
from mongomem.store.words.scripts import ASCII_WORD, CHARACTER, IN_BIGRAM_SCRIPT, RUN, WORD
from mongomem.store.words.stems import (
    Stemmer,
    english_stem,
    snowball_languages,
    snowball_stemmer,
    snowball_version,
)

DEFAULT_LANGUAGE = "english"

VERSION = 1
"""Part of every analyser's name. To be raised with every change of a term: in this folder or in one
of its tables."""

LOOKED_AT = 64
"""Characters of a word that its term depends on. Bounds what is cached, and the time of NFKC, which
is quadratic in the marks of one character."""

WORK_PER_CHARACTER = 20
"""How many bytes of work a character of a text is, for `mongomem.engine.effects.Compute`."""

CACHED_WORDS = 2**15
"""Spellings whose terms an analyser keeps, about 6 MB."""

_DIGIT = re.compile("[0-9]")


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        start: Where in the text it stands.
        end: Where it ends.
        term: What it is searched by.
    """

    start: int
    end: int
    term: str


@dataclass(frozen=True, slots=True)
class Analyser:
    """Lists the words of texts, by the rules of one language. Made by `analyser_for`.

    Any text in any language has words. Only stop words and stems are those of the language. Threads
    may share it.
    """

    language: str
    name: str
    """What made the terms: the language, the version of the rules, and the version of a package
    that has a part in them. Texts analysed under the same name have comparable terms."""

    term_of: Callable[[str], str | None] = field(repr=False, compare=False)
    """The term of a word, or none of a stop word, or None where the word has to be divided."""

    def words(self, text: str) -> list[Word]:
        """List the words of a text by where they start; stop words are left out.

        Takes time linear in the length of the text, and fails for none.
        """
        if text.isascii():
            found = ASCII_WORD.finditer(text)
        else:
            text = text.replace("_", " ")
            found = WORD.finditer(text)
        words: list[Word] = []
        term_of = self.term_of
        for match in found:
            given = match[0]
            term = term_of(given) if len(given) <= LOOKED_AT else None
            if term:
                words.append(Word(*match.span(), term))
            elif term is None:
                words += self._parts(text, *match.span())
        return words

    def _parts(self, text: str, start: int, end: int) -> Iterator[Word]:
        """Divide what is written without spaces: at the borders of scripts, and into pairs."""
        for run in RUN.finditer(text, start, end):
            spans = _pairs(text, *run.span()) if run[1] else [run.span()]
            for first, last in spans:
                spelling = text[first : min(last, first + LOOKED_AT)]
                term = _term_of_pair(spelling) if run[1] else self.term_of(spelling)
                if term:
                    yield Word(first, last, term)


@lru_cache(CACHED_WORDS)
def _term_of_pair(spelling: str) -> str:
    return normalised(spelling)


def _pairs(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """List where two neighbouring characters stand, or the character that stands alone."""
    characters = [found.span() for found in CHARACTER.finditer(text, start, end)]
    pairs = [(one[0], other[1]) for one, other in pairwise(characters)]
    return pairs or characters


def analyser_for(language: str) -> Analyser:
    """Return the analyser of a language.

    Args:
        language: "english", which is good enough for every language and needs no package, or one
            that snowballstemmer knows, such as "german".

    Raises:
        ConfigurationError: There is no such language, or the extra ``stems`` is not installed.
    """
    return _analyser(checked_text("language", language, ConfigurationError))


@cache
def _analyser(language: str) -> Analyser:
    if language == DEFAULT_LANGUAGE:
        return _made(language, f"{language}-{VERSION}", english_stem)
    known = snowball_languages()
    if not known:
        raise ConfigurationError(
            f"language={shown(language)} needs the extra `stems` (in a clone of mongomem: pip "
            f'install ".[stems]"); without it there is only "{DEFAULT_LANGUAGE}"'
        )
    if language not in known:
        raise ConfigurationError(
            f"There is no language {shown(language)}, but {', '.join(sorted(known))}. "
            f'"{DEFAULT_LANGUAGE}" does for every other one'
        )
    name = f"{language}-{VERSION}-snowball-{snowball_version()}"
    return _made(language, name, snowball_stemmer(language))


def _made(language: str, name: str, stem: Stemmer) -> Analyser:
    stop_words = frozenset(
        normalised(word, language) for word in STOP_WORDS.get(language, "").split()
    )

    @lru_cache(CACHED_WORDS)
    def term_of(given: str) -> str | None:
        if IN_BIGRAM_SCRIPT.search(given):
            return None
        word = normalised(given, language)[:LOOKED_AT]
        if word in stop_words:
            return ""
        return word if _DIGIT.search(word) else stem(word) or word

    return Analyser(language, name, term_of)
