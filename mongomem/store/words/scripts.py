r"""Where a word starts and ends, and in which script it is: character classes and patterns.

Python's ``\w`` knows letters and digits. It does not know combining marks, such as the vowel signs
of Hindi, and it does not know which scripts are written without spaces. Both are tables here, in
the code points of Unicode 14. No pattern nests one repetition in another, so each is linear in the
text.
"""

from __future__ import annotations

import re


def character_class(ranges: str) -> str:
    """Return code points, such as ``"0041-005A 00AA"``, as the inside of a regular expression's
    class.
    """
    ends = (part.partition("-") for part in ranges.split())
    return "".join(rf"\U{first:0>8}-\U{last or first:0>8}" for first, _, last in ends)


MARKS = character_class(
    "0300-036F 0483-0489 0591-05BD 05BF 05C1-05C2 05C4-05C5 05C7 0610-061A 064B-065F 0670 "
    "06D6-06DC 06DF-06E8 06EA-06ED 0711-07F3 07FD 0816-082D 0859-085B 0898-08E1 08E3-0963 "
    "0981-09E3 09FE-0A75 0A81-0AE3 0AFA-0B63 0B82-0BD7 0C00-0C63 0C81-0C83 0CBC-0D4D 0D57-0D63 "
    "0D81-0DF3 0E31-0E3A 0E47-0E4E 0EB1-0ECD 0F18-0F19 0F35 0F37 0F39 0F3E-0F84 0F86-0FBC 0FC6 "
    "102B-103E 1056-109D 135D-135F 1712-1734 1752-17D3 17DD 180B-180D 180F-193B 1A17-1A1B "
    "1A55-1A7F 1AB0-1B44 1B6B-1B73 1B80-1BF3 1C24-1C37 1CD0-1CD2 1CD4-1DFF 20D0-20F0 2CEF-2CF1 "
    "2D7F-2DFF 302A-302F 3099-309A A66F-A672 A674-A67D A69E-A6F1 A802-A827 A82C A880-A8C5 "
    "A8E0-A8F1 A8FF-A92D A947-A953 A980-A9C0 A9E5-AA4D AA7B-AAC1 AAEB-AAEF AAF5-AAF6 ABE3-ABEA "
    "ABEC-ABED FB1E FE00-FE0F FE20-FE2F 101FD-1037A 10A01-10A3F 10AE5-10AE6 10D24-10EAC "
    "10F46-10F50 10F82-10F85 11000-11046 11070-110BA 110C2 11100-11134 11145-11173 11180-111C0 "
    "111C9-111CC 111CE-111CF 1122C-11237 1123E 112DF-11446 1145E-114C3 115AF-115C0 115DC-11640 "
    "116AB-116B7 1171D-1172B 1182C-1183A 11930-11943 119D1-119E0 119E4-11A3E 11A47-11A99 "
    "11C2F-11C3F 11C92-11EF6 16AF0-16AF4 16B30-16B36 16F4F-16F92 16FE4-16FF1 1BC9D-1BC9E "
    "1CF00-1CF46 1D165-1D169 1D16D-1D172 1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D242-1D244 "
    "1DA00-1DA36 1DA3B-1DA6C 1DA75 1DA84 1DA9B-1E136 1E2AE-1E2EF 1E8D0-1E94A E0100-E01EF "
)
"""Combining marks. A range may span letters or unassigned code points, never punctuation."""

_JOINERS = character_class("00AD 200C 200D")
"""Soft hyphen, zero-width non-joiner (Persian) and joiner (Hindi): inside a word, but no part of
its spelling."""

_ATTACHED = character_class(
    "0300-036F FE00-FE0F E0100-E01EF 200C 200D "  # any script: accents, variants, joiners
    "3099 309A FF9E FF9F "  # voiced sound marks of kana
    "1160-11FF D7B0-D7FF "  # vowels and finals of a decomposed Hangul syllable
    "0E31 0E34-0E3A 0E47-0E4E "  # Thai
    "0EB1 0EB4-0EBC 0EC8-0ECE "  # Lao
    "17B4-17D3 17DD "  # Khmer
    "102B-103E 1056-1059 105E-1060 1062-1064 1067-106D 1071-1074 1082-108D 108F 109A-109D "
)
"""What belongs to the character before it, in the scripts below."""

BIGRAM_SCRIPTS = {
    "Han": "3005-3007 3021-3029 303B 3400-4DBF 4E00-9FFF F900-FAFF 20000-323AF",
    "Hiragana": "3041-3096 309D-309F 30FC",
    "Katakana": "30A1-30FA 30FC-30FF 31F0-31FF FF66-FF9D",
    "Hangul": "1100-115F 3131-318E A960-A97C AC00-D7A3 FFA0-FFDC",
    "Thai": "0E01-0E30 0E32 0E33 0E40-0E46",
    "Lao": "0E81-0EB0 0EB2 0EB3 0EBD-0EC6 0EDC-0EDF",
    "Khmer": "1780-17B3 17D7 17DC",
    "Myanmar": "1000-102A 103F 1050-1055 105A-105D 1061 1065 1066 106E-1070 1075-1081 108E",
}
"""Scripts whose words are not told apart by spaces: their runs are searched by pairs of characters.

Digits of these scripts are no part of them. Hangul has spaces, but its particles are glued to the
noun, and names stand inside of compounds. Pairs find both. The first pair of each word alone would
be fewer terms, but would miss a name behind a surname and the second half of a compound.
"""

_RUNS = [f"[{character_class(ranges)}{_ATTACHED}]+" for ranges in BIGRAM_SCRIPTS.values()]
_IN_RUNS = "".join(character_class(ranges) for ranges in BIGRAM_SCRIPTS.values())

ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
"""A word of a text that is ASCII. An underscore separates words, and so does an apostrophe: the
parts of contractions are stop words, and French "l'homme" is found by "homme"."""

WORD = re.compile(rf"\w[\w{MARKS}{_JOINERS}]*")
"""The same of any text whose underscores were replaced."""

IN_BIGRAM_SCRIPT = re.compile(f"[{_IN_RUNS}]")

RUN = re.compile(f"({'|'.join(_RUNS)})|[^{_IN_RUNS}]+")
"""A part of a word in one script. It has group 1 where that script is one of `BIGRAM_SCRIPTS`."""

CHARACTER = re.compile(f".[{_ATTACHED}]*", re.DOTALL)
"""A character of such a run, with what belongs to it."""
