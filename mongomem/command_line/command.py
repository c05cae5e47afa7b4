"""What all commands have in common: their options, their end, and what is printed there.

    @command()
    def threads(run: Run, limit: Annotated[int, typer.Option(...)] = 20) -> None:
        memory = run.open()
        run.answer = ThreadsAnswer(list_threads(memory, limit))

A command is a function whose first parameter is a `Run`. It has the options of its other
parameters, those of every group of options among them (`mongomem.command_line.database`), and
beside them those of every command: what names the database, and ``--json``.

It opens what it needs by `Run.open`, and says what it found or did by setting `Run.answer`. That is
printed when it ends, however it ends, so a command that takes long sets an answer that grows
before it begins. It raises, and catches nothing: errors of the library, of the driver and Ctrl-C
become one line and the exit code (`mongomem.command_line.refusals`); what it refuses itself is a
`Refusal` (wrong usage, exit code 2) or a `Failure` (exit code 1). What it wants to be confirmed it
asks by `Run.confirm`.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from mongomem.arguments import shown, without_secrets
from mongomem.command_line.database import (
    DatabaseOptions,
    IndexOptions,
    check_presence,
    open_memory,
)
from mongomem.command_line.printout import Answer, print_answer, print_error, print_json
from mongomem.command_line.refusals import DONE, Refusal, code_of, is_foreseen, line_of
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.memories import index_form
from mongomem.memory import MongoMemory

CommandFunction: TypeAlias = Callable[..., None]

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
"""The option of a command that destroys something."""

MOST_NUMBER = 2**31 - 1


def count_option(help: str, least: int = 1) -> Any:
    """Return an option that takes a number from `least` on, which the server can count to."""
    return typer.Option(metavar="NUMBER", min=least, callback=_countable, help=help)


def _countable(value: int | None) -> int | None:
    if value is not None and value > MOST_NUMBER:
        raise typer.BadParameter(f"{shown(value)} is more than {MOST_NUMBER}")
    return value


@dataclass(slots=True)
class Run:
    """A command while it runs.

    Attributes:
        database: What names the database.
        as_json: Whether one JSON object is printed.
        answer: What was found or done so far.
    """

    database: DatabaseOptions
    as_json: bool
    stack: ExitStack
    answer: Answer | None = field(default=None)

    def open(
        self, *, may_be_new: bool = False, may_be_empty: bool = False, **options: Any
    ) -> MongoMemory:
        """Open the memory that the options name. It is closed when the command ends.

        Args:
            may_be_new: Whether the command may fill it: else the folder of a local server that is
                not there is refused, and a database that has no collections of mongomem, since its
                name is likely to be wrong.
            may_be_empty: Whether a database without collections of mongomem is accepted.
            **options: Further options of `MongoMemory`, as ``index``.
        """
        memory = open_memory(self.database, self.stack, may_be_new=may_be_new, **options)
        if not (may_be_new or may_be_empty):
            check_presence(memory)
        return memory

    def open_indexed(self, index: IndexOptions, **how: Any) -> MongoMemory:
        """Open the memory with the index that options name; see `open` and `reopen_indexed`."""
        return self.reopen_indexed(self.open(**how, **index.options), index, **how)

    def reopen_indexed(
        self,
        memory: MongoMemory,
        index: IndexOptions,
        otherwise: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> MongoMemory:
        """Open a memory anew with what the options do not say of its index. That is as the store
        has it: with other fields the application could not use what is embedded here.

        Args:
            memory: What was opened with what the options say.
            index: The options.
            otherwise: Settings that count where the store has none.
            **how: The arguments of `open`.
        """
        if index.config is None:
            return memory
        settings = Inspector(memory).index() or otherwise
        return self.open(**how, index={**index_form(settings), **index.config})

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on the terminal whether to go on.

        Raises:
            Refusal: The answer is no, or there is nobody to ask.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise Refusal(f"{question} Say --yes to do it; nothing was done")
        if not typer.confirm(question, err=True):
            raise Refusal("nothing was done")


def command(advice: str = "repeat the command") -> Callable[[CommandFunction], CommandFunction]:
    """Make a command of a function.

    Args:
        advice: What a line says is to be done after an interruption or a lost connection.
    """

    def made(function: CommandFunction) -> CommandFunction:
        groups = _groups(function)

        @wraps(function)
        def ran(*, as_json: bool = False, **given: Any) -> None:
            taken = {name: group(**_taken(group, given)) for name, group in groups.items()}
            database = DatabaseOptions(**_taken(DatabaseOptions, given))
            raise typer.Exit(_run(function, database, as_json, advice, {**given, **taken}))

        named: Any = ran
        named.__signature__ = _signature(function, groups)
        named.__annotations__ = {
            one.name: one.annotation for one in named.__signature__.parameters.values()
        }
        return ran

    return made


def _run(
    function: CommandFunction,
    database: DatabaseOptions,
    as_json: bool,
    advice: str,
    given: dict[str, Any],
) -> int:
    """Run a command, print what it says, and return its exit code."""
    # What a serializer does not revive is named by the answers.
    logging.getLogger("langgraph.checkpoint.serde").setLevel(logging.ERROR)
    code, line = DONE, None
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.showwarning = _tell_warning
        run = Run(database, as_json, stack)
        try:
            function(run, **given)
        except (Exception, KeyboardInterrupt) as error:
            if not is_foreseen(error):
                raise
            code, line = code_of(error), line_of(error, advice)
        code = code or (DONE if run.answer is None else run.answer.exit_code)
        if as_json:
            print_json(run.answer, exit_code=code, error=line)
        else:
            print_answer(run.answer)
    if line is not None:
        print_error(line)
    return code


def _tell_warning(message: Warning | str, *_where: object, **_more: object) -> None:
    """Print a warning, such as one of an option that the driver does not know, as one line."""
    print_error(without_secrets(" ".join(str(message).split())))


def _groups(function: CommandFunction) -> dict[str, Any]:
    """Return the groups of options among the parameters, by their names."""
    hints = get_type_hints(function)
    return {name: hint for name, hint in hints.items() if is_dataclass(hint) and hint is not Run}


def _taken(group: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a group out of all that were given."""
    return {one.name: given.pop(one.name) for one in fields(group)}


def _signature(function: CommandFunction, groups: dict[str, Any]) -> inspect.Signature:
    """Return the signature that Typer reads: every option by itself."""
    hints = get_type_hints(function, include_extras=True)
    _, *own = inspect.signature(function).parameters.values()
    parameters = [
        one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for one in own
        if one.name not in groups
    ]
    for group in (*groups.values(), DatabaseOptions):
        parameters += _parameters(group)
    parameters.append(
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    )
    return inspect.Signature(parameters)


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name],
        )
        for one in fields(group)
    ]
