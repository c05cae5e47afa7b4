from __future__ import annotations
import re
from dataclasses import dataclass
from typing import NamedTuple
from mongomem.errors import ConfigurationError

DEFAULT_LANGUAGE = "english"
W = re.compile(r"\w+")
STOP = set(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with i me my we our you your he him his she her its them what which who whom whose when where why how am were been being have has had having do does did doing would should could can ought about against between through during before after above below from up down out off over under again further once here all any both each few more most other some nor only own same so than too very s t just don now d ll m re ve y""".split()
)
V = set("aeiouy")


def light(w):
    for s in ("ing", "edly", "ed", "ies", "es", "ly", "s", "'s", "e", "y"):
        if w.endswith(s) and len(w) - len(s) >= 3 and any(c in V for c in w[: -len(s)]):
            w = w[: -len(s)]
            if len(w) > 3 and w[-1] == w[-2] and w[-1] not in "lsz":
                w = w[:-1]
            if s in ("ing", "edly", "ed", "es", "s", "ly"):
                if w[-1] in "ey" and len(w) > 3:
                    w = w[:-1]
            break
    return w[:6]


class Word(NamedTuple):
    start: int
    end: int
    term: str


@dataclass(frozen=True)
class Analyser:
    language: str

    @property
    def name(self) -> str:
        return f"{self.language}-1"

    def words(self, text: str) -> list[Word]:
        return [
            Word(m.start(), m.end(), light(m.group().lower()))
            for m in W.finditer(text)
            if m.group().lower() not in STOP
        ]


def analyser_for(language: str) -> Analyser:
    if language != "english":
        raise ConfigurationError(f"language must be one of, not {language}")
    return Analyser(language)
