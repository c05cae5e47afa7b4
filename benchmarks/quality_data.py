"""Public conversations with labelled evidence, read from files that are not in the repository.

LoCoMo (https://github.com/snap-research/LoCoMo, ``data/locomo10.json``, CC BY-NC 4.0): ten
dialogues of many sessions, questions, and the turns that answer each. A turn is who speaks, what
they say, and the caption of a picture that they share. MADial-Bench
(https://github.com/hejunqing/MADial-Bench, ``data/en``, MIT): facts about two users, and dialogues
that one or several facts belong to. REALTALK (https://github.com/danny911kr/REALTALK, ``data``, no
licence is told): ten chats of real people over 21 days, with questions as LoCoMo has them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

LOCOMO_SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"

SESSION = re.compile(r"session_\d+")
TURN = re.compile(r"D(?P<session>\d+):\d+")


@dataclass(frozen=True, slots=True)
class Memory:
    """A text that may be found: its key, the session it is of, and what evidence names it by."""

    key: str
    text: str
    session: str
    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for in one namespace, and what answers it.

    Attributes:
        namespace: Where.
        text: The query.
        evidence: The sources that answer it.
        category: What kind of question the data set calls it.
    """

    namespace: str
    text: str
    evidence: frozenset[str]
    category: int

    def sessions(self) -> frozenset[str]:
        return frozenset(source.split(":")[0] for source in self.evidence)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Memories by namespace, and the questions about them."""

    name: str
    memories: dict[str, list[Memory]]
    questions: list[Question]


def read_locomo(path: Path) -> list[DataSet]:
    """Read LoCoMo three times: its turns as memories, the same `in_context`, and its observations
    as memories.

    Raises:
        SystemExit: The file is another one.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != LOCOMO_SHA256:
        raise SystemExit(f"{path} is not data/locomo10.json of snap-research/LoCoMo")
    samples = json.loads(content)
    questions = [one for sample in samples for one in _questions(sample["sample_id"], sample)]
    turns = {sample["sample_id"]: list(_turns(sample["conversation"])) for sample in samples}
    facts = {sample["sample_id"]: list(_facts(sample)) for sample in samples}
    told = {name: in_context(own) for name, own in turns.items()}
    return [
        DataSet("LoCoMo turns", turns, _answerable(questions, turns)),
        DataSet("LoCoMo turns in context", told, _answerable(questions, turns)),
        DataSet("LoCoMo facts", facts, _answerable(questions, facts)),
    ]


def read_realtalk(folder: Path) -> list[DataSet]:
    """Read REALTALK twice: its turns as memories, and the same `in_context`."""
    chats = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("Chat_*.json"))}
    questions = [one for name, chat in chats.items() for one in _questions(name, chat)]
    turns = {name: list(_turns(chat)) for name, chat in chats.items()}
    told = {name: in_context(own) for name, own in turns.items()}
    return [
        DataSet("REALTALK turns", turns, _answerable(questions, turns)),
        DataSet("REALTALK turns in context", told, _answerable(questions, turns)),
    ]


def _answerable(questions: list[Question], memories: dict[str, list[Memory]]) -> list[Question]:
    """Leave out the questions of whose evidence no memory tells."""
    told = {
        namespace: frozenset().union(*(one.sources for one in own))
        for namespace, own in memories.items()
    }
    return [one for one in questions if one.evidence & told[one.namespace]]


def _questions(namespace: str, sample: dict[str, Any]) -> Iterator[Question]:
    for one in sample["qa"]:
        evidence = frozenset(match[0] for match in TURN.finditer(" ".join(one["evidence"])))
        if evidence:
            yield Question(namespace, one["question"], evidence, one["category"])


def _turns(conversation: dict[str, Any]) -> Iterator[Memory]:
    for name, turns in conversation.items():
        for turn in turns if SESSION.fullmatch(name) else ():
            source = turn["dia_id"]
            shared = f" [shared {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            said = turn["text"] if "text" in turn else turn["clean_text"]
            text = f"{turn['speaker']}: {said}{shared}"
            yield Memory(source, text, source.split(":")[0], frozenset({source}))


def in_context(turns: Sequence[Memory]) -> list[Memory]:
    """Let the texts of turns say what was said before them in the session too. Their own words
    stand there twice, so that they count more.
    """
    told = [*turns[:1]]
    for before, turn in pairwise(turns):
        said = f" {before.text}" if before.session == turn.session else ""
        told.append(replace(turn, text=f"{turn.text} {turn.text}{said}"))
    return told


def _facts(sample: dict[str, Any]) -> Iterator[Memory]:
    for observed in sample["observation"].values():
        for speaker, facts in observed.items():
            for number, (text, named) in enumerate(facts):
                found = [match[0] for match in TURN.finditer(str(named))]
                if found:
                    key = f"{speaker} {found[0]} {number}"
                    yield Memory(key, text, found[0].split(":")[0], frozenset(found))


def read_madial(folder: Path) -> DataSet:
    """Read the English half: the dialogue up to the turn that needs a memory is the query."""
    memories = {}
    for line in _lines(folder / "MADial-Bench-en-memory.json"):
        ((key, fact),) = line.items()
        memories[key] = Memory(key, fact["event"], key, frozenset({key}))
    questions = [
        Question(
            "madial",
            _said(line["dialogue"][: line["test-turn"][0]]),
            frozenset(map(str, line["relevant-id"])),
            1,
        )
        for line in _lines(folder / "MADial-Bench-en-dialogue.json")
    ]
    return DataSet("MADial-Bench", {"madial": [*memories.values()]}, questions)


def _said(turns: Sequence[str]) -> str:
    return " ".join(turn.strip() for turn in turns if not turn.startswith(("<BOD>", "<EOD>")))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        if line.strip():
            yield json.loads(line)
