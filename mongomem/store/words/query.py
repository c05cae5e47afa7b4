"""A query as words: the terms that are searched for, and the phrases in double quotes that must be
in a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mongomem.store.words.analysis import LOOKED_AT, Analyser, Word
from mongomem.store.words.bm25 import Hashes
from mongomem.store.words.scripts import CHARACTER, IN_BIGRAM_SCRIPT, MARKS
from mongomem.store.words.stored_terms import hash_of

_QUOTED = re.compile(r"([:=\[{] ?)?(?<!\d)[\"“”„]([^\"“”„]*)[\"“”„](?:(?= ?(:)))?")
"""A quotation, and what tells that it is said or part of some data. Behind a digit a quote is a
unit: 27" is a size."""

_SPACE = re.compile(r"\s+")
_MANY_MARKS = re.compile(rf"([{MARKS}]{{{LOOKED_AT}}})[{MARKS}]+")
_WORD = re.compile(r"\w")
_SPEECH = re.compile(r"[!?…;\n]|[.:](?!\w)|\A\W*\Z|,\s*\Z")
"""A full stop inside of a word is part of a name: "Node.js", "3.11"."""

SENTENCE_ENDS = "?!.…؟।。？！"

MOST_PHRASE_WORDS = 5
"""What is longer, or is punctuated as a sentence is, quotes what somebody said: a message or a
dialogue is often the query, and asks for no text that repeats it."""

MOST_PHRASE_CHARACTERS = MOST_PHRASE_WORDS * LOOKED_AT

SPACED = 0x0E00
"""Letters below this code point are of scripts that part words by spaces (Thai begins here)."""


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """Words that must stand in a text one after the other.

    Attributes:
        text: They, folded.
        hashes: Those of their terms that every item with the phrase has.
    """

    text: str
    hashes: Hashes

    def is_in(self, folded: str) -> bool:
        """Say whether a folded text has the phrase, where it begins and ends with a word of it."""
        start = folded.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            if not (_divides(folded, start) or _divides(folded, end)):
                return True
            start = folded.find(self.text, start + 1)
        return False


@dataclass(frozen=True, slots=True, eq=False)
class ParsedQuery:
    """A query, analysed.

    Attributes:
        words: Its words without stop words, in their order.
        hashes: Their distinct terms.
        phrases: What is in double quotes.
    """

    words: Sequence[Word]
    hashes: Hashes
    phrases: Sequence[Phrase]

    def places(self) -> list[int]:
        """Return the place of each word's term in `hashes`."""
        place = {number: index for index, number in enumerate(self.hashes.tolist())}
        return [place[hash_of(word.term)] for word in self.words]

    def holds_phrases(self, texts: Iterable[str]) -> bool:
        """Say whether each phrase stands in one of some texts."""
        folded = [fold(text) for text in texts]
        return all(any(phrase.is_in(text) for text in folded) for phrase in self.phrases)

    def phrase_hashes(self) -> Hashes:
        """Return the distinct terms of all phrases."""
        hashes = [phrase.hashes for phrase in self.phrases]
        return np.unique(np.concatenate(hashes)) if hashes else _distinct(())


def parse_query(text: str, analyser: Analyser) -> ParsedQuery:
    """Analyse a query. A quote that none closes, one of nothing, one in a sentence, speech, and the
    names and values of JSON are no phrases.
    """
    words = analyser.words(text)
    phrases = [_phrase(quoted, analyser) for quoted in _asked_for(text)]
    return ParsedQuery(words, _distinct(word.term for word in words), phrases)


def fold(text: str) -> str:
    """Fold what a phrase does not tell apart: case, the width of characters, runs of space, and the
    two apostrophes.
    """
    bounded = _MANY_MARKS.sub(r"\1", text)
    plain = unicodedata.normalize("NFKC", bounded).casefold().replace("’", "'")
    return _SPACE.sub(" ", plain).strip()


def _asked_for(text: str) -> list[str]:
    """List the quotations that must stand in what is found. A sentence quotes titles and names, and
    whoever told of them may have spelled them otherwise, or have called them "it".
    """
    if _is_sentence(_QUOTED.sub(" ", text)):
        return []
    return [
        quoted
        for before, quoted, after in _QUOTED.findall(text)
        if not before and not after and _asks(quoted)
    ]


def _is_sentence(unquoted: str) -> bool:
    """Say whether what stands beside quotations has words and ends as a sentence."""
    said = unquoted.rstrip(f"{SENTENCE_ENDS})' \n")
    ends = any(mark in SENTENCE_ENDS for mark in unquoted[len(said) :])
    return ends and _WORD.search(said) is not None


def _asks(quoted: str) -> bool:
    """Say whether a quotation asks for what must stand in a text, and is no speech."""
    if len(quoted) > MOST_PHRASE_CHARACTERS or _SPEECH.search(quoted):
        return False
    return len(quoted.split()) <= MOST_PHRASE_WORDS


def _phrase(quoted: str, analyser: Analyser) -> Phrase:
    text = fold(quoted)
    words = [word for word in analyser.words(quoted) if not _is_half(quoted[word.start : word.end])]
    return Phrase(text, _distinct(word.term for word in words))


def _divides(text: str, place: int) -> bool:
    """Say whether a word goes on at a place of a text. Only words of spaced scripts do: Chinese
    puts no space around "GPT".
    """
    return 0 < place < len(text) and _is_spaced(text[place - 1]) and _is_spaced(text[place])


def _is_half(spelling: str) -> bool:
    """Say whether this is one character of a script whose words are pairs. A text that has it
    beside another one has the pair as a term, and not this.
    """
    is_in_pairs = IN_BIGRAM_SCRIPT.search(spelling) is not None
    return is_in_pairs and len(CHARACTER.findall(spelling)) == 1


def _is_spaced(character: str) -> bool:
    return ord(character) < SPACED and (character.isalnum() or character == "_")


def _distinct(terms: Iterable[str]) -> Hashes:
    return np.array([*dict.fromkeys(map(hash_of, terms))], dtype=np.uint32)
