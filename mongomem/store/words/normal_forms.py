"""One spelling for what readers take for the same word: case, compatibility forms, points, digits.

Words are normalised one by one, so that the offsets of a word refer to the text as it was given.
Accents stay: they tell words apart in most languages that have them.
"""

from __future__ import annotations

import re
from unicodedata import decimal, normalize

from mongomem.store.words.scripts import MARKS, character_class

_OPTIONAL = character_class(
    "0591-05BD 05BF 05C1 05C2 05C4 05C5 05C7 "  # Hebrew points
    "0610-061A 064B-065F 0670 06D6-06DC 06DF-06E8 06EA-06ED 0640 "  # Arabic points and the tatweel
    "180B-180F 20D0-20F0 FE00-FE0F E0100-E01EF"  # variants of a glyph, frames around a character
)
"""What most writers leave out, without a change of meaning."""

_DROPPED = re.compile(rf"[^\w{MARKS}]|[_{_OPTIONAL}]")
"""What is no part of a spelling: also brackets and spaces that NFKC makes, such as of "⑴"."""

_DIGIT = re.compile(r"[^\D0-9]")

_CAPITALS = {"turkish": str.maketrans({"I": "ı", "İ": "i"})}
"""By language the capitals whose small letter is another one than elsewhere."""


def normalised(word: str, language: str = "") -> str:
    """Return the spelling that a word is compared by; empty where nothing of it is a letter, a
    digit or a mark.

    Capitals become small, compatibility forms become the plain ones (NFKC), digits of any script
    become ASCII. Points of Arabic and Hebrew and joiners are dropped.
    """
    if word.isascii() and not (language in _CAPITALS and "I" in word):
        return word.lower()
    small = normalize("NFKC", word).translate(_CAPITALS.get(language, {})).casefold()
    # "İ".casefold() is an i with a second dot.
    plain = _DROPPED.sub("", normalize("NFKC", small.replace("i̇", "i")))
    return _DIGIT.sub(lambda digit: str(decimal(digit[0])), plain)
