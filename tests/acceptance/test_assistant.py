"""The assistant, whose model calls tools that write its memories: by rules, and by a model behind
HTTP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pymongo.errors import ConnectionFailure

import assistant
from assistant import Assistant, Context, OpenAIModel, build_graph, rules, tool_call
from mongomem import InvalidInputError, MongoMemory, User
from support.openai_server import Body, OpenAIServer
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
DEEP = '{"a":' * 100 + "1" + "}" * 100
INDEX: Any = {"embed": "local", "dims": 256, "fields": ["text"]}


@pytest.fixture
def memory(mongo_uri: str, database_name: str) -> Iterator[MongoMemory]:
    with MongoMemory.from_conn_string(mongo_uri, db_name=database_name, index=INDEX) as opened:
        yield opened


def talk(
    memory: MongoMemory, user: str, model: assistant.Model = rules, thread: str | None = None
) -> Callable[[str], list[str]]:
    """Return what answers a user in a thread."""
    graph = build_graph(model).compile(checkpointer=memory.saver, store=memory.store)
    speaker = Assistant(graph, memory.user(user), thread)
    return lambda text: list(speaker.say(text))


def texts(memory: MongoMemory, user: str) -> set[str]:
    return {item.value["text"] for item in memory.user(user).recall()}


def test_by_rules_it_remembers_across_threads(memory: MongoMemory) -> None:
    say = talk(memory, "ada")
    told = "My name is Ada and I live in Lisbon. I have a dog called Brunel."
    assert say(told)[-1] == "I will remember that."
    assert memory.user("ada").profile() == {"name": "Ada", "home": "Lisbon"}
    assert texts(memory, "ada") == {"I have a dog called Brunel."}
    say("I have a dog called Brunel.")  # again: the same fact is one memory
    assert texts(memory, "ada") == {"I have a dog called Brunel."}
    say = talk(memory, "ada")
    assert 'You told me: "I have a dog called Brunel."' in say("Do I have a pet?")[-1]
    say("I moved to Porto.")
    assert memory.user("ada").profile() == {"name": "Ada", "home": "Porto"}
    assert say("Forget that dog")[-1] == "That is forgotten."
    assert texts(memory, "ada") == set()


def test_users_and_their_threads_are_their_own(memory: MongoMemory) -> None:
    talk(memory, "ada", thread="1")("I like quinces.")
    say = talk(memory, "grace")
    assert say("Do I like quinces?")[-1].startswith("You told me nothing of it.")
    assert memory.user("grace").profile() == {}
    with pytest.raises(InvalidInputError, match="thread 1 is not grace's"):
        talk(memory, "grace", thread="1")


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name, arguments)])


def test_wrong_arguments_are_told_to_the_model(memory: MongoMemory) -> None:
    seen: list[str] = []

    def model(messages: Sequence[AnyMessage]) -> AIMessage:
        last = messages[-1]
        if not isinstance(last, ToolMessage):
            wrong = calls("update_profile", changes=json.loads(DEEP)), calls("remember", words="x")
            return AIMessage("", tool_calls=[*wrong[0].tool_calls, *wrong[1].tool_calls])
        seen.extend(message.text for message in messages if isinstance(message, ToolMessage))
        return AIMessage("I see.")

    assert talk(memory, "ada", model)("Hello")[-1] == "I see."
    assert "nested deeper" in seen[0]
    assert "text: Field required" in seen[1]
    assert memory.user("ada").profile() == {}


def one_call(name: str, **arguments: Any) -> assistant.Model:
    """Return a model that calls a tool, then says what the tool answered."""

    def model(messages: Sequence[AnyMessage]) -> AIMessage:
        last = messages[-1]
        return AIMessage(last.text) if last.type == "tool" else calls(name, **arguments)

    return model


def test_whatever_a_tool_raises_is_its_answer(
    memory: MongoMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = talk(memory, "ada", one_call("remember", text="a\ud800"), thread="1")
    assert say("Hello")[-1].startswith("That failed: UnicodeEncodeError: ")
    say = talk(memory, "ada", one_call("update_profile", changes={"a": "\ud800"}), thread="2")
    assert say("Hello")[-1].startswith("That failed: UnstorableValueError: ")

    def explodes(*_: Any, **__: Any) -> None:
        raise RuntimeError("no\nwonder")

    with monkeypatch.context() as patched:
        patched.setattr(User, "forget", explodes)
        say = talk(memory, "ada", one_call("forget", key="k"), thread="3")
        assert say("Hello")[-1] == "That failed: RuntimeError: no wonder"
    for thread in ("1", "2", "3"):
        say = talk(memory, "ada", thread=thread)
        assert say("Hello")[-1] == "Tell me about yourself, or ask me."


def test_what_other_programs_stored_is_shown(memory: MongoMemory) -> None:
    ada = memory.user("ada")
    ada.update_profile({"born": datetime(1990, 1, 2, tzinfo=timezone.utc)})
    memory.store.put((*ada.namespace, "memories"), "k", {"note": "tea"})
    changed = talk(memory, "ada", one_call("update_profile", changes={"name": "Ada"}))("Hello")[-1]
    assert changed == 'The profile is now {"born": "1990-01-02 00:00:00+00:00", "name": "Ada"}'
    assert talk(memory, "ada", one_call("recall", query="tea"))("Hello")[-1] == "k: {'note': 'tea'}"
    assert assistant.greeting(ada).endswith("\n  {'note': 'tea'}")


def test_a_model_that_only_calls_tools_is_stopped(memory: MongoMemory) -> None:
    say = talk(memory, "ada", lambda _: calls("recall", query="more"))
    for _ in range(2):  # and the next turn begins as any
        assert say("Hello")[-1] == "I called many tools, and have no answer."


def test_a_turn_that_was_cut_short_is_finished_first(
    memory: MongoMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(User, "remember", _fails)
        say = talk(memory, "ada", thread="1")
        with pytest.raises(ConnectionFailure):
            say("I like tea.")
    assert texts(memory, "ada") == set()
    assert talk(memory, "ada", thread="1")("Do I like tea?")[:1] == ["I will remember that."]
    assert texts(memory, "ada") == {"I like tea."}


def _fails(*_: Any, **__: Any) -> str:
    raise ConnectionFailure("as when the database is gone")


def answer_with_tools(messages: list[Body]) -> Body:
    """Stand in for a model: remember and look up in one answer, then tell what came back."""
    last = messages[-1]
    if last["role"] == "tool":
        told = [message["content"] for message in messages if message["role"] == "tool"]
        return {"content": f"Tools said: {' | '.join(told)}"}
    if last["content"] == "broken":
        return {"tool_calls": [_call("recall", "{no JSON")]}
    return {
        "tool_calls": [
            _call("remember", json.dumps({"text": f"They said: {last['content']}"})),
            _call("update_profile", json.dumps({"changes": {"language": "Portuguese"}})),
        ]
    }


def _call(name: str, arguments: str) -> Body:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{name}", "type": "function", "function": function}


def test_a_model_behind_http_calls_the_tools(
    memory: MongoMemory, openai_server: OpenAIServer
) -> None:
    openai_server.reply = answer_with_tools
    with closing(OpenAIModel()) as model:
        say = talk(memory, "ada", model)
        shown, broken = say("Bom dia"), say("broken")
    assert [line.split()[0] for line in shown[:2]] == ["[remember", "[update_profile"]
    assert shown[2].startswith("Tools said: Remembered under ")
    assert texts(memory, "ada") == {"They said: Bom dia"}
    assert memory.user("ada").profile() == {"language": "Portuguese"}
    first, second = (request.body for request in openai_server.requests[:2])
    offered = {each["function"]["name"]: each["function"] for each in first["tools"]}
    assert set(offered) == {"remember", "recall", "forget", "update_profile"}
    assert set(offered["remember"]["parameters"]["properties"]) == {"text"}  # no runtime, no user
    assert [message["role"] for message in second["messages"][1:]] == [
        *("user", "assistant", "tool", "tool"),
    ]
    assert '"language": "Portuguese"' in second["messages"][0]["content"]
    assert "{no JSON" in broken[-1]


NO_ARGUMENTS = (
    *("[1]", "5", "null", "NaN", '{"query": NaN}', r'{"query": "\ud800"}'),
    "[" * 100_000,
)


def test_a_model_behind_http_may_say_anything(
    memory: MongoMemory, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Body] = [{"tool_calls": [_call("recall", each)]} for each in NO_ARGUMENTS]
    halves = _call("a\ud800", "{}"), _call("recall", '{"query": "\ud800"}')
    answers += [{"tool_calls": [each]} for each in halves]
    answers += [{"content": "It is \ud800."}]
    openai_server.reply = lambda messages: (
        {"content": "I see."} if messages[-1]["role"] == "tool" else answers.pop(0)
    )
    with closing(OpenAIModel()) as model:
        say = talk(memory, "ada", model)
        for arguments in NO_ARGUMENTS:
            (answer,) = say("Hello")
            assert answer.startswith("(It called recall with no JSON object: "), arguments
            assert len(answer) < 400
        assert [say("Hello") for _ in halves] == [
            ["  [a? {}]", "I see."],
            ["  [recall {'query': '?'}]", "I see."],
        ]
        assert say("Hello") == ["It is ?."]
        with monkeypatch.context() as patched:
            patched.setattr(openai_server, "_chat", lambda _: {"choices": [], "object": "x"})
            assert say("Hello") == ["(no answer)"]


def test_create_agent_takes_the_same_tools(memory: MongoMemory) -> None:
    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            assert tools == assistant.TOOLS
            return self

    script = iter([calls("remember", text="Ada likes tea."), AIMessage("Noted.")])
    agent = create_agent(
        Scripted(messages=script),
        assistant.TOOLS,
        context_schema=Context,
        checkpointer=memory.saver,
        store=memory.store,
    )
    ada = memory.user("ada")
    given: Any = {"messages": [("user", "I like tea.")]}
    state = agent.invoke(given, ada.config(), context=Context(ada))
    assert state["messages"][-1].text == "Noted."
    assert texts(memory, "ada") == {"Ada likes tea."}


def test_the_command_line(mongo_uri: str, database_name: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if "OPENAI_" not in name}
    ours = {"MONGODB_URI": mongo_uri, "MONGOMEM_DB": database_name, "PYTHONPATH": str(ROOT)}

    def run(said: bytes, *arguments: str) -> tuple[int, str, str]:
        ran = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "assistant.py"), *arguments],
            input=said,
            capture_output=True,
            env={**inherited, **ours},
            timeout=HANG_SECONDS,
        )
        return ran.returncode, ran.stdout.decode(), ran.stderr.decode()

    code, printed, errors = run(b"My name is Ada.\n\xff\xfe\n\n", "--user", "ada")
    assert (code, errors) == (0, "")
    assert "Hello ada, we have not met before." in printed
    assert "  [update_profile {'changes': {'name': 'Ada'}}]\nI will remember that.\n" in printed
    _, printed, _ = run(b"", "--user", "ada")
    assert 'Welcome back, ada. Profile: {"name": "Ada"}' in printed
    code, _, errors = run(b"", "--user", "a/b")
    assert code == 2
    assert errors.splitlines()[-1].endswith("letters, digits, blanks or one of _.@-")
