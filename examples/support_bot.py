"""A support bot whose refunds wait for a person, however long, and whatever ends meanwhile.

    python examples/support_bot.py ask "Order 1001 came broken, I want my money back." --user ada
    python examples/support_bot.py pending
    python examples/support_bot.py approve TICKET
    python examples/support_bot.py reject TICKET --reason "The order is two years old."
    python examples/support_bot.py resume TICKET

Each command is a process of its own, on the server of `MONGODB_URI` or on one of this machine
(extra `server`). A ticket is a thread. Its graph stops in `interrupt`, the checkpointer stores
where, and another process goes on from there. No customer is paid twice:

* Two people decide at once: a decision is stored under the id of the interrupt, so that the first
  one is stored and the second is told of it. Only who stored it resumes the graph.
* The process ends while it resumes the graph: `pending` shows the ticket, `resume` goes on by the
  stored decision. A node that had not ended runs again.
* The node that pays runs again: the payment has an idempotency key, the number of the order.

The rules below read a message where there is no OPENAI_API_KEY. The model proposes; what an order
costs and whose it is, the code decides.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, StateSnapshot, interrupt
from openai import OpenAI, OpenAIError
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError, PyMongoError

from mongomem import MongoMemory, local_uri
from mongomem.errors import MongomemError

LONGEST_TEXT = 2_000
MAJORITY = WriteConcern("majority")  # a decision that a failover takes back is none
Document = dict[str, Any]


@dataclass(frozen=True)
class Order:
    """An order of the shop, whose own database this stands in for."""

    number: str
    customer: str
    article: str
    cents: int

    def __str__(self) -> str:
        return f"order {self.number} ({self.article}, {self.cents / 100:.2f} EUR)"


ORDERS = {
    order.number: order
    for order in (
        Order("1001", "ada", "moka pot", 3_990),
        Order("1002", "ada", "coffee grinder", 8_450),
        Order("1003", "grace", "wall clock", 12_000),
    )
}


# What a message asks for: by rules, or by a model.


@dataclass(frozen=True)
class Request:
    """What a customer wants: a refund of the order of this number, else an answer."""

    refund_of: str | None
    answer: str = ""


def read_by_rules(text: str) -> Request:
    """Find the number of an order, and words that ask for money."""
    number = re.search(r"\b\d{4}\b", text)
    if not re.search(r"\brefund|\bmoney back\b|\breturn\b", text, re.IGNORECASE):
        return Request(None, "I see to refunds. Say what you want refunded, and its order number.")
    if number is None:
        return Request(None, "What is the number of the order that you want refunded?")
    return Request(number.group())


PROMPT = (
    "You answer the customers of a shop. Answer with a JSON object and nothing else: "
    '{"refund_of": the number of the order that this customer wants refunded, or null, '
    '"answer": what you say to the customer where it is null}'
)


def read_by_model(text: str) -> Request:
    """Ask a model behind the OpenAI API; where it does not answer as it was told, the rules."""
    with OpenAI(timeout=60) as client:
        asked: Any = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
        model = os.environ.get("OPENAI_MODEL") or "gpt-4o-mini"
        completion = client.chat.completions.create(model=model, messages=asked)
    content = completion.choices[0].message.content if completion.choices else ""
    try:
        answer = json.loads(content or "")
        if answer["refund_of"] is None:
            return Request(None, str(answer["answer"]))
        return Request(str(answer["refund_of"]))
    except (ValueError, KeyError, TypeError):
        return read_by_rules(text)


# What must happen once, however often it is tried.


class Payments:
    """The payment provider, which this collection stands in for. Real ones take such a key too."""

    def __init__(self, collection: Collection[Document]) -> None:
        self._payments = collection

    def pay(self, order: Order, *, idempotency_key: str, ticket: str) -> bool:
        """Pay unless something was paid under this key; tell whether it was paid for this ticket.

        Whoever repeats a payment, since it does not know whether it was made, changes nothing.
        """
        payment = {"_id": idempotency_key, "ticket": ticket, "cents": order.cents}
        try:
            self._payments.insert_one(payment)
        except DuplicateKeyError:
            return self._payments.find_one({"_id": idempotency_key, "ticket": ticket}) is not None
        return True


class Decisions:
    """What was decided, by the id of the interrupt that asked. A decision is never changed."""

    def __init__(self, collection: Collection[Document]) -> None:
        self._decisions = collection

    def record(self, interrupt_id: str, decision: Document) -> bool:
        """Store a decision if it is the first; tell whether it is. One insert: the server decides
        who is first.
        """
        try:
            self._decisions.insert_one({"_id": interrupt_id, **decision})
        except DuplicateKeyError:
            return False
        return True

    def of(self, interrupt_id: str) -> Document | None:
        """Return what was decided, without its id."""
        return self._decisions.find_one({"_id": interrupt_id}, {"_id": False})


# The graph.


@dataclass(frozen=True)
class Customer:
    """Who writes: the context of a run."""

    name: str


class Ticket(MessagesState, total=False):
    """The state of a ticket."""

    order: str
    decision: Document


def said(text: str) -> Document:
    """Return the change of the state that adds an answer."""
    return {"messages": [("ai", text)]}


def build_graph(
    read: Callable[[str], Request], payments: Payments
) -> StateGraph[Ticket, Customer, Ticket, Ticket]:
    """Build the graph: read the message, wait for a decision, then pay or decline."""

    def propose(
        state: Ticket, runtime: Runtime[Customer]
    ) -> Command[Literal["approval", "__end__"]]:
        request = read(state["messages"][-1].text)
        if request.refund_of is None:
            return Command(update=said(request.answer), goto="__end__")
        order = ORDERS.get(request.refund_of)
        if order is None or order.customer != runtime.context.name:
            return Command(update=said("You have no order of this number."), goto="__end__")
        waiting = said(f"A colleague decides on a refund of {order}.")
        return Command(update={**waiting, "order": order.number}, goto="approval")

    def approval(state: Ticket) -> Command[Literal["pay", "decline"]]:
        # The node runs twice: up to here, and once more from its start when there is a decision.
        # So nothing that happens once may stand before `interrupt`.
        decision = interrupt({"refund": str(ORDERS[state["order"]])})
        goto: Literal["pay", "decline"] = "pay" if decision["approved"] else "decline"
        return Command(update={"decision": decision}, goto=goto)

    def pay(state: Ticket, config: RunnableConfig) -> Document:
        order, ticket = ORDERS[state["order"]], config["configurable"]["thread_id"]
        if payments.pay(order, idempotency_key=order.number, ticket=ticket):
            return said(f"We have refunded {order}.")
        return said(f"We had refunded {order} before.")

    def decline(state: Ticket) -> Document:
        reason = state["decision"]["reason"]
        return said(f"We cannot refund {ORDERS[state['order']]}. {reason}".rstrip())

    builder = StateGraph(Ticket, context_schema=Customer)
    for node in (propose, approval, pay, decline):
        builder.add_node(node)
    builder.add_edge(START, "propose")
    return builder


# The commands.


class RefusedError(Exception):
    """A command cannot be done; says why."""


class Desk:
    """Tickets, and what customers and colleagues do with them."""

    def __init__(
        self,
        memory: MongoMemory,
        graph: CompiledStateGraph[Ticket, Customer, Ticket, Ticket],
        decisions: Decisions,
    ) -> None:
        self._memory, self._graph, self._decisions = memory, graph, decisions

    def ask(self, user: str, text: str) -> str:
        """Open a ticket with a message of a customer."""
        ticket = uuid4().hex[:12]
        # Open until it is closed: a process that ends in between leaves it where `pending` looks.
        answer = self._run(ticket, user, {"messages": [("user", text)]})
        return " ".join([answer, *self._asked_before(ticket, user)])

    def _asked_before(self, ticket: str, user: str) -> Iterator[str]:
        """Tell which other tickets of the customer wait for a decision on the same order."""
        asked = self._state(ticket)
        if not asked.interrupts:
            return
        for other in self._open_tickets(user_id=user):
            state = self._state(other)
            if other != ticket and state.interrupts and _order(state) == _order(asked):
                yield f"Ticket {other} waits for the same."

    def pending(self) -> str:
        """List the tickets that wait for a decision, and those that stopped half-way."""
        lines = [line for ticket in self._open_tickets() if (line := self._status(ticket))]
        return "\n".join(lines) or "Nothing waits."

    def decide(self, ticket: str, decision: Document) -> str:
        """Decide on what a ticket waits for, if nobody did, and go on with its graph."""
        state = self._state(ticket)
        if not state.interrupts:
            raise RefusedError(f"ticket {ticket} waits for no decision: {_outcome(state)}")
        waiting = state.interrupts[0]
        if not self._decisions.record(waiting.id, decision):
            before = self._decisions.of(waiting.id) or {}
            raise RefusedError(f"ticket {ticket} is {_told(before)} already")
        return self._run(ticket, _customer(state), Command(resume={waiting.id: decision}))

    def resume(self, ticket: str) -> str:
        """Go on with a ticket whose process ended. Harmless where it has not."""
        state = self._state(ticket)
        if not state.next:
            raise RefusedError(f"ticket {ticket} is done: {_outcome(state)}")
        if not state.interrupts:
            return self._run(ticket, _customer(state), None)
        waiting = state.interrupts[0]
        decision = self._decisions.of(waiting.id)
        if decision is None:
            raise RefusedError(f"ticket {ticket} waits for a decision: approve or reject it")
        return self._run(ticket, _customer(state), Command(resume={waiting.id: decision}))

    def _run(self, ticket: str, user: str, given: Any) -> str:
        """Run the graph until it ends or waits; return what it said last."""
        config = self._memory.user(user).config(ticket)
        config["metadata"] = {"status": "open"}
        # "sync": a node begins when the checkpoint before it is stored.
        state = self._graph.invoke(given, config, context=Customer(user), durability="sync")
        if "__interrupt__" not in state:
            self._memory.saver.update_thread(ticket, {"status": "closed"})
        return f"ticket {ticket}: {state['messages'][-1].text}"

    def _open_tickets(self, **whose: str) -> Iterator[str]:
        """Find open tickets, page by page: the status of a thread is in its metadata."""
        wanted = {"status": "open", **whose}
        page = self._memory.saver.list_threads(filter=wanted)
        while page:
            yield from (thread.thread_id for thread in page)
            page = self._memory.saver.list_threads(filter=wanted, before=page[-1])

    def _status(self, ticket: str) -> str | None:
        """Tell what a ticket waits for, as its newest checkpoint has it; None where it is done."""
        state = self._state(ticket)
        if not state.next:
            return None
        if not state.interrupts:
            return f"{ticket}  {_customer(state)}: stopped half-way, resume it"
        waiting = state.interrupts[0]
        decision = self._decisions.of(waiting.id)
        status = "waits for approval" if decision is None else f"{_told(decision)}, resume it"
        return f"{ticket}  {_customer(state)}: refund of {waiting.value['refund']}: {status}"

    def _state(self, ticket: str) -> StateSnapshot:
        state = self._graph.get_state({"configurable": {"thread_id": ticket}})
        if not state.created_at:
            raise RefusedError(f"there is no ticket {short(ticket)} (see: pending)")
        return state


def _customer(state: StateSnapshot) -> str:
    return str(dict(state.metadata or {})["user_id"])


def _order(state: StateSnapshot) -> str:
    return str(state.values["order"])


def _outcome(state: StateSnapshot) -> str:
    """Tell how far a ticket is: who decided, else what was said last."""
    if decision := state.values.get("decision"):
        return _told(decision)
    return short(state.values["messages"][-1].text)


def _told(decision: Document) -> str:
    verb = "approved" if decision["approved"] else "rejected"
    return f"{verb} by {decision['by']}"


def short(text: str, length: int = 300) -> str:
    """Fit a text into one line."""
    line = " ".join(text[: 2 * length].split())
    return line if len(line) <= length else line[: length - 3] + "..."


def run(options: argparse.Namespace) -> str:
    """Do what the command line says; return what to print."""
    read = read_by_model if os.environ.get("OPENAI_API_KEY") else read_by_rules
    # One client for both memories and for the collections of the application itself.
    with MongoClient[Document](local_uri()) as client:
        database = client[options.db]
        payments = Payments(database.get_collection("payments", write_concern=MAJORITY))
        decisions = Decisions(database.get_collection("decisions", write_concern=MAJORITY))
        memory = MongoMemory(client, options.db)
        graph = build_graph(read, payments).compile(checkpointer=memory.saver)
        return do(Desk(memory, graph, decisions), options)


def do(desk: Desk, options: argparse.Namespace) -> str:
    """Do one command."""
    if options.command == "ask":
        return desk.ask(options.user, options.text)
    if options.command == "pending":
        return desk.pending()
    if options.command == "resume":
        return desk.resume(options.ticket)
    decision = {
        "approved": options.command == "approve",
        "by": options.by,
        "reason": options.reason or "",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return desk.decide(options.ticket, decision)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="A support bot whose refunds wait for a person.")
    parser.add_argument("--db", default=os.environ.get("MONGOMEM_DB") or "support_bot")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ask = commands.add_parser("ask", help="open a ticket with a message of a customer")
    ask.add_argument("text", type=_text, help='e.g. "I want my money back for order 1001"')
    ask.add_argument("--user", type=_name, default="ada", help="the customer (%(default)s)")
    commands.add_parser("pending", help="list what waits for a decision")
    for verb in ("approve", "reject"):
        decide = commands.add_parser(verb, help=f"{verb} the refund of a ticket, and go on")
        decide.add_argument("ticket")
        decide.add_argument("--by", type=_name, default=_login(), help="who decides (%(default)s)")
        decide.add_argument("--reason", type=_text, help="told to the customer")
    resume = commands.add_parser("resume", help="go on with a ticket whose process ended")
    resume.add_argument("ticket")
    return parser.parse_args(arguments)


def _name(text: str) -> str:
    if not re.fullmatch(r"[\w.@ -]{1,40}", text):
        raise argparse.ArgumentTypeError("a name is 1 to 40 letters, digits, blanks or one of _.@-")
    return text


def _text(text: str) -> str:
    if not text.strip() or len(text) > LONGEST_TEXT:
        raise argparse.ArgumentTypeError(f"a text has 1 to {LONGEST_TEXT} characters")
    return text.encode(errors="replace").decode()


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "somebody"


def main(arguments: list[str] | None = None) -> None:
    """Run one command. Ends the process with one line where it cannot be done."""
    try:
        print(run(parse(arguments)), flush=True)
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RefusedError as refused:
        sys.exit(f"support_bot: {refused}")
    except (PyMongoError, MongomemError, OpenAIError) as trouble:
        sys.exit(f"support_bot: {type(trouble).__name__}: {short(str(trouble))}")


if __name__ == "__main__":
    main()
