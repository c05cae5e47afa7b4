r"""Texts as they read: JSON without its escapes.

What is embedded of a value that is no text is JSON (LangGraph's ``get_text_at_path``), and so is
all of an item where no field is named. There a line break stands as ``\n``, and the word behind it
would begin with an n.
"""

from __future__ import annotations

import json
import re

_ESCAPE = re.compile(r'\\(?:u([0-9a-f]{4})|([bfnrt"\\/]))', re.IGNORECASE)

_OPEN_AND_CLOSE = {"{": "}", "[": "]"}


def readable(text: str) -> str:
    """Return a text whose words are to be found: JSON of an object or a list with what its escapes
    stand for, any other text as it is.
    """
    if "\\" not in text or not _is_json(text):
        return text
    return _ESCAPE.sub(_meant, text)


def _is_json(text: str) -> bool:
    if text[-1] != _OPEN_AND_CLOSE.get(text[0]):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _meant(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; a space for one that ends a word."""
    code, sign = escape.groups()
    if code:
        return chr(int(code, 16))
    return sign if sign in '"\\/' else " "
