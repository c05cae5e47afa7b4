"""Who answers in the chatbot: a model behind the OpenAI API, or a few honest rules where there is
no key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AnyMessage
from langgraph.store.base import SearchItem
from openai import OpenAI

SURE, LIKELY = 0.15, 0.08
"""Scores of the local embedder from which the rules quote a memory, and from which they guess it.
Half of a score is meaning, half of it words that both have."""

LONGEST_FACT = 300
MOST_FACTS = 10
LAST_MESSAGES, LONGEST_MESSAGE = 20, 4_000  # what a model gets to read of a thread


@dataclass(frozen=True)
class Fact:
    """Something learned about the user. A later fact with the same key takes its place."""

    key: str
    kind: str
    text: str


@dataclass(frozen=True)
class Reply:
    """An answer, and what is worth keeping of the message it answers."""

    text: str
    learned: list[Fact] = field(default_factory=list)


class Responder(Protocol):
    """Answers the last message of a thread, given the memories that fit it best."""

    introduction: str

    def respond(self, messages: Sequence[AnyMessage], memories: Sequence[SearchItem]) -> Reply: ...


KINDS = {
    "name": r"\bmy name is\b|\bcall me\b",
    "home": r"\bI(?: now)? live\b|\bI(?: have|.ve)? moved to\b",
    "work": r"\bI work\b|\bmy job\b",
    "allergy": r"\ballerg(?:ic|y)\b",
    "dislike": (
        r"\bI (?:hate|dislike)\b|\bI (?:do not|don.t|can.t|cannot|never) (?:\w+ "
        r")?(?:like|eat|drink|stand)\b"
    ),
    "like": r"\bI (?:\w+ )?(?:like|love|enjoy|prefer|collect|play|speak)\b|\bmy favou?rite\b",
    "pet": r"\b(?:have|my) (?:\w+ ){0,3}(?:dog|cat|parrot|rabbit|horse|hamster|tortoise|pet)s?\b",
    "note": r"^(?:please )?remember(?: that)?[:,]? +\S",
}
"""What the rules take for a statement about the user: the first pattern that is found names its
kind."""

ONE_OF_A_KIND = ("name", "home", "work")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n|,? and (?=I )")
REQUEST = re.compile(r"^(?:please )?remember(?: that)?[:,]? +", re.IGNORECASE)
QUESTION = re.compile(
    r"\?$|^(?:what|which|who|where|when|why|how|do|did|am|is|are|can|should|will)\b", re.IGNORECASE
)
ABOUT_THIS_THREAD = re.compile(r"\bdid I (?:just )?(?:say|ask|tell|write)\b", re.IGNORECASE)
ABOUT_ME = re.compile(r"\bknow me\b|\b(?:know|remember) about me\b", re.IGNORECASE)


def learn(text: str) -> list[Fact]:
    """Return the sentences of a message that tell something about the user."""
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text)]
    facts = [_fact(sentence) for sentence in sentences if 0 < len(sentence) <= LONGEST_FACT]
    return [fact for fact in facts if fact is not None][:MOST_FACTS]


def _fact(sentence: str) -> Fact | None:
    if QUESTION.search(sentence):
        return None
    for kind, pattern in KINDS.items():
        if re.search(pattern, sentence, re.IGNORECASE):
            return fact_of(kind, REQUEST.sub("", sentence))
    return None


def fact_of(kind: str, text: str) -> Fact:
    """Give a fact its key: the kind alone where a user has one of it, else the same for the same
    words.
    """
    return Fact(
        kind if kind in ONE_OF_A_KIND else f"{kind}-{uuid5(NAMESPACE_OID, text.casefold())}",
        kind,
        text,
    )


class RuleBasedResponder:
    """Understands no language: finds statements about the user by patterns, and answers with what
    it recalls.
    """

    introduction = (
        "I follow a few rules and understand no language: I keep what you say about yourself, find "
        "it again\nby its meaning, and quote it. With OPENAI_API_KEY in the environment a language "
        "model answers instead."
    )

    def respond(self, messages: Sequence[AnyMessage], memories: Sequence[SearchItem]) -> Reply:
        text = messages[-1].text
        learned = learn(text)
        if learned:
            return Reply(f"I will remember: {_quoted([fact.text for fact in learned])}", learned)
        if ABOUT_THIS_THREAD.search(text):
            said = [message.text for message in messages[:-1] if message.type == "human"]
            return Reply(
                f"In this thread you said: {_quoted(said[-3:])}"
                if said
                else "Nothing yet: this thread is new."
            )
        if ABOUT_ME.search(text) and memories:
            return Reply(f"For one: {_quoted(_texts(memories))} (/memories shows everything.)")
        if QUESTION.search(text.strip()):
            return Reply(_recall(memories))
        return Reply(
            "That stays in this thread. Say what you like, where you live, or: remember that ..."
        )


def _recall(memories: Sequence[SearchItem]) -> str:
    sure = [memory for memory in memories if (memory.score or 0) >= SURE]
    if sure:
        best = sure[0].score or 0
        return (
            "You told me: "
            f"{_quoted(_texts([memory for memory in sure if (memory.score or 0) >= best / 2]))}"
        )
    if memories and (memories[0].score or 0) >= LIKELY:
        return f"I am not sure. The nearest thing you told me: {_quoted(_texts(memories[:1]))}"
    return "You have told me nothing about that."


def _texts(memories: Sequence[SearchItem]) -> list[str]:
    # all of one that another program stored without a text
    return [str(memory.value.get("text", memory.value)) for memory in memories]


def _quoted(texts: Sequence[str]) -> str:
    return " ".join(
        f'"{text if len(text) <= LONGEST_FACT else text[:LONGEST_FACT] + "..."}"' for text in texts
    )


class ModelResponder:
    """A chat model behind the OpenAI API, or one that speaks its protocol (OPENAI_BASE_URL)."""

    PROMPT = (
        "You are a chatbot that remembers its users across conversations. What you remember about "
        "this user:\n{memories}\n"
        'Answer with a JSON object and nothing else: {{"reply": "your answer", "memories": ["each '
        "lasting fact about the user that this message tells and that you do not remember yet, in "
        'one short sentence"]}}'
    )

    def __init__(self) -> None:
        self._client = OpenAI(timeout=60)
        self._model = os.environ.get("OPENAI_MODEL") or "gpt-4o-mini"
        self.introduction = f"{self._model} at {self._client.base_url.host} answers."

    def respond(self, messages: Sequence[AnyMessage], memories: Sequence[SearchItem]) -> Reply:
        recalled = "\n".join(f"- {text}" for text in _texts(memories)) or "nothing yet"
        conversation: list[Any] = [
            {"role": "system", "content": self.PROMPT.format(memories=recalled)}
        ]
        for message in messages[-LAST_MESSAGES:]:
            role = "user" if message.type == "human" else "assistant"
            conversation.append({"role": role, "content": message.text[:LONGEST_MESSAGE]})
        answer = self._client.chat.completions.create(model=self._model, messages=conversation)
        content = answer.choices[0].message.content if answer.choices else ""
        return _read_reply(content or "", messages[-1].text)


def _read_reply(content: str, message: str) -> Reply:
    """Read the JSON object that was asked for; of a model that answers in prose, by the rules."""
    try:
        answer = json.loads(content[content.index("{") : content.rindex("}") + 1])
        told = [str(text)[:LONGEST_FACT] for text in list(answer["memories"]) if text]
        return Reply(str(answer["reply"]), [fact_of("fact", text) for text in told[:MOST_FACTS]])
    except (ValueError, KeyError, TypeError):
        return Reply(content or "(The model answered nothing.)", learn(message))


def make_responder() -> Responder:
    """Choose the model where there is a key, else the rules."""
    return ModelResponder() if os.environ.get("OPENAI_API_KEY") else RuleBasedResponder()
