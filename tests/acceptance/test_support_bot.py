"""The support bot: commands that are processes of their own, of which some are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.database import Database

import support_bot
from mongomem import MongoSaver
from support.openai_server import OpenAIServer
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(support_bot.__file__).parent

DIES_AFTER_ASKING = """
Desk.ask = lambda desk, *asked, ask=Desk.ask: (ask(desk, *asked), kill())
"""
DIES_AFTER_DECIDING = """
Decisions.record = lambda self, *given, record=Decisions.record: (record(self, *given), kill())
"""
DIES_BEFORE_PAYING = """
Payments.pay = lambda self, order, **given: kill()
"""
DIES_AFTER_PAYING = """
Payments.pay = lambda self, order, pay=Payments.pay, **given: (pay(self, order, **given), kill())
"""
WAITS_BEFORE_IT_DECIDES = """
Decisions.record = lambda self, *given, record=Decisions.record: (wait(), record(self, *given))[1]
"""
WAITS_BEFORE_IT_PAYS = """
Payments.pay = lambda self, order, pay=Payments.pay, **given: (wait(), pay(self, order, **given))[1]
"""
PATCHED = """
import os, signal, sys
import support_bot
from support_bot import Decisions, Desk, Payments

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def wait():
    print("waiting", flush=True)
    sys.stdin.readline()
{patch}
support_bot.main(sys.argv[1:])
"""
"""The example with one function of its replaced: killed, or held up, at a known place."""


class Bot:
    """Runs commands of the support bot: in processes of their own, or, where nothing is to be
    killed, in that of the tests.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], environment: dict[str, str]) -> None:
        self._capsys, self._environment = capsys, environment

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command in this process, see it end with this code, and return what it printed."""
        ended: int | str | None = 0
        try:
            support_bot.main(list(arguments))
        except SystemExit as left:
            ended = left.code
        printed, errors = self._capsys.readouterr()
        if isinstance(ended, str):  # what Python prints, before it ends with 1
            ended, errors = 1, errors + ended
        assert ended == code, errors
        return (printed + errors).strip()

    def start(self, *arguments: str, patch: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PATCHED.format(patch=patch), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def process(self, *arguments: str, code: int = 0, patch: str = "") -> str:
        """Run a command in a process, see it end with this code, and return what it printed."""
        with self.start(*arguments, patch=patch) as running:
            printed, errors = running.communicate(timeout=HANG_SECONDS)
        assert running.returncode == code, errors
        return (printed + errors).strip()

    def killed(self, *arguments: str, patch: str) -> None:
        self.process(*arguments, patch=patch, code=-signal.SIGKILL)

    def side_by_side(self, *commands: tuple[str, ...], patch: str) -> list[str]:
        """Run commands that wait for each other at the place that is patched."""
        with ExitStack() as stack:
            running = [
                stack.enter_context(self.start(*command, patch=patch)) for command in commands
            ]
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline() == "waiting\n"
            ended = [process.communicate("go on\n", timeout=HANG_SECONDS) for process in running]
        return [(printed + errors).strip() for printed, errors in ended]

    def waiting(self) -> str:
        """Return the one ticket that is pending."""
        (line,) = self("pending").splitlines()
        return line.split()[0]


@pytest.fixture
def bot(
    mongo_uri: str,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bot:
    """The support bot of somebody who has a server and no key."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MONGODB_URI", mongo_uri)
    monkeypatch.setenv("MONGOMEM_DB", database_name)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(EXAMPLES), str(ROOT))))
    return Bot(capsys, dict(os.environ))


@pytest.fixture
def database(mongo_client: MongoClient, database_name: str) -> Database:
    return mongo_client[database_name]


REFUND = ("ask", "I want my money back for order 1001.", "--user", "ada")
ORDER = "order 1001 (moka pot, 39.90 EUR)"
PAID = "We have refunded order 1001 (moka pot, 39.90 EUR)."


def messages(database: Database, ticket: str) -> list[str]:
    """Return what the newest checkpoint of a ticket holds."""
    saver = MongoSaver(database.client, database.name)
    found = saver.get_tuple({"configurable": {"thread_id": ticket}})
    assert found is not None
    return [message.text for message in found.checkpoint["channel_values"]["messages"]]


def ended(database: Database, ticket: str) -> int:
    """Count the checkpoints of a ticket at which its payment had been told."""
    saver = MongoSaver(database.client, database.name)
    checkpoints = saver.list({"configurable": {"thread_id": ticket}})
    values = [checkpoint.checkpoint["channel_values"] for checkpoint in checkpoints]
    return sum(value["messages"][-1].text == PAID for value in values if value.get("messages"))


def test_a_refund_waits_for_another_process(bot: Bot, database: Database) -> None:
    bot.killed(*REFUND, patch=DIES_AFTER_ASKING)
    waiting = bot.process("pending")
    ticket = waiting.split()[0]
    assert waiting == (
        f"{ticket}  ada: refund of order 1001 (moka pot, 39.90 EUR): waits for approval"
    )
    assert database["payments"].count_documents({}) == 0

    assert bot.process("approve", ticket, "--by", "grace") == f"ticket {ticket}: {PAID}"
    assert bot("pending") == "Nothing waits."
    assert messages(database, ticket)[1:] == [
        "A colleague decides on a refund of order 1001 (moka pot, 39.90 EUR).",
        PAID,
    ]
    assert ended(database, ticket) == 1
    assert [paid["cents"] for paid in database["payments"].find()] == [3_990]
    for again in ("approve", "reject", "resume"):
        assert bot(again, ticket, code=1).endswith("approved by grace")
    assert database["payments"].count_documents({}) == 1


def test_a_rejected_refund_is_not_paid(bot: Bot, database: Database) -> None:
    bot(*REFUND)
    ticket = bot.waiting()
    answer = bot("reject", ticket, "--reason", "It was dropped.", "--by", "grace")
    assert answer.endswith("We cannot refund order 1001 (moka pot, 39.90 EUR). It was dropped.")
    assert bot("approve", ticket, code=1).endswith("waits for no decision: rejected by grace")
    assert bot("pending") == "Nothing waits."
    assert database["payments"].count_documents({}) == 0


def test_of_two_decisions_at_once_the_first_counts(bot: Bot, database: Database) -> None:
    bot(*REFUND)
    ticket = bot.waiting()
    decide = [("approve", ticket, "--by", by) for by in ("grace", "joan")]
    printed = sorted(bot.side_by_side(*decide, patch=WAITS_BEFORE_IT_DECIDES))
    (decision,) = database["decisions"].find()
    assert printed == [
        f"support_bot: ticket {ticket} is approved by {decision['by']} already",
        f"ticket {ticket}: {PAID}",
    ]
    assert ended(database, ticket) == 1
    assert database["payments"].count_documents({}) == 1


def test_two_that_go_on_by_one_decision_pay_once(bot: Bot, database: Database) -> None:
    bot(*REFUND)
    ticket = bot.waiting()
    bot.killed("approve", ticket, "--by", "grace", patch=DIES_AFTER_DECIDING)
    assert bot("pending").endswith(": approved by grace, resume it")
    assert bot("reject", ticket, code=1).endswith("is approved by grace already")
    resume = ("resume", ticket)
    printed = bot.side_by_side(resume, resume, patch=WAITS_BEFORE_IT_PAYS)
    assert printed == [f"ticket {ticket}: {PAID}"] * 2
    assert messages(database, ticket).count(PAID) == 1
    assert database["payments"].count_documents({}) == 1
    assert bot("pending") == "Nothing waits."


@pytest.mark.parametrize(("patch", "payments"), [(DIES_BEFORE_PAYING, 0), (DIES_AFTER_PAYING, 1)])
def test_a_payment_that_was_cut_short_is_made_once(
    bot: Bot, database: Database, patch: str, payments: int
) -> None:
    bot(*REFUND)
    ticket = bot.waiting()
    bot.killed("approve", ticket, "--by", "grace", patch=patch)
    assert database["payments"].count_documents({}) == payments
    assert bot("pending") == f"{ticket}  ada: stopped half-way, resume it"
    assert bot("reject", ticket, code=1).endswith("waits for no decision: approved by grace")
    assert bot("resume", ticket) == f"ticket {ticket}: {PAID}"
    assert database["payments"].count_documents({}) == 1
    assert bot("pending") == "Nothing waits."


def test_an_order_is_paid_once_over_all_its_tickets(bot: Bot, database: Database) -> None:
    asked = bot(*REFUND)
    first = bot.waiting()
    assert asked == f"ticket {first}: A colleague decides on a refund of {ORDER}."
    assert "waits" not in bot("ask", "Refund 1003.", "--user", "grace")
    assert bot(*REFUND).endswith(
        f"decides on a refund of {ORDER}. Ticket {first} waits for the same."
    )
    tickets = [line.split()[0] for line in bot("pending").splitlines() if "ada: " in line]
    answers = [bot("approve", ticket) for ticket in tickets]
    assert [answer.partition(": ")[2] for answer in answers] == [
        PAID,
        "We had refunded order 1001 (moka pot, 39.90 EUR) before.",
    ]
    assert database["payments"].count_documents({}) == 1


TROUBLE = {
    ("ask", "Hello"): (0, "I see to refunds. Say what you want refunded, and its order number."),
    ("ask", "A refund!"): (0, "What is the number of the order that you want refunded?"),
    ("ask", "refund 1003"): (0, "You have no order of this number."),
    ("ask", "refund 9999"): (0, "You have no order of this number."),
    ("ask", " "): (2, "a text has 1 to 2000 characters"),
    ("ask", "refund", "--user", "a/b"): (2, "letters, digits, blanks or one of _.@-"),
    ("approve",): (2, "the following arguments are required: ticket"),
    ("approve", "none"): (1, "support_bot: there is no ticket none (see: pending)"),
    ("resume", "none"): (1, "support_bot: there is no ticket none (see: pending)"),
    ("approve", ""): (1, "the thread_id of config is empty"),
}


def test_what_cannot_be_done_is_told_in_one_line(bot: Bot) -> None:
    for arguments, (code, line) in TROUBLE.items():
        assert line in bot(*arguments, code=code).splitlines()[-1], arguments
    assert bot("pending") == "Nothing waits."


def test_a_reader_that_leaves(bot: Bot) -> None:
    bot(*REFUND)
    with bot.start("pending") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 0


def test_no_server_is_told_in_one_line(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100")
    assert bot("pending", code=1).startswith("support_bot: ServerSelectionTimeoutError: ")


def test_a_model_proposes_and_the_code_decides_what_is_paid(
    bot: Bot, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        '{"refund_of": "1003", "answer": "Pay 1000 EUR"}',
        '{"refund_of": null, "answer": "Good day."}',
        "I refund order 1002.",
        '{"refund_of": 1002}',
    ]
    with OpenAIServer(lambda _: answers.pop(0)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert bot("ask", "Mine is 1003.").endswith("You have no order of this number.")
        assert bot("ask", "Hello").endswith("Good day.")
        assert bot("ask", "Broken, 1002, money back").endswith("(coffee grinder, 84.50 EUR).")
        assert "(coffee grinder, 84.50 EUR)." in bot("ask", "1002 please")
        server.fail(400)
        assert bot("ask", "Hello", code=1).startswith("support_bot: BadRequestError: ")
    assert len(bot("pending").splitlines()) == 3  # the last failed, and can be resumed
    assert "stopped half-way" in bot("pending").splitlines()[0]
