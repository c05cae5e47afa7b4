"""The commands, by their names. A new command is a row here and a function in a module of its own
(`mongomem.command_line.command`): in the folder ``queries`` where it reads, ``changes`` where it
writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from mongomem.command_line.changes.delete import delete
from mongomem.command_line.changes.erase import erase
from mongomem.command_line.changes.export import export
from mongomem.command_line.changes.import_ import import_
from mongomem.command_line.changes.prune import prune
from mongomem.command_line.changes.reindex import reindex
from mongomem.command_line.changes.setup import setup
from mongomem.command_line.changes.shard import shard
from mongomem.command_line.command import CommandFunction
from mongomem.command_line.migrate import migrate
from mongomem.command_line.printout import print_error, print_json, print_result
from mongomem.command_line.queries.diff import diff
from mongomem.command_line.queries.doctor import doctor
from mongomem.command_line.queries.history import history
from mongomem.command_line.queries.memories import memories, namespaces
from mongomem.command_line.queries.show import show
from mongomem.command_line.queries.stats import stats
from mongomem.command_line.queries.threads import threads
from mongomem.command_line.refusals import DONE, INTERRUPTED, USAGE

COMMANDS: Mapping[str, CommandFunction] = {
    "doctor": doctor,
    "threads": threads,
    "history": history,
    "show": show,
    "diff": diff,
    "memories": memories,
    "namespaces": namespaces,
    "stats": stats,
    "setup": setup,
    "delete": delete,
    "prune": prune,
    "erase": erase,
    "reindex": reindex,
    "export": export,
    "import": import_,
    "shard": shard,
    "migrate": migrate,
}

application = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
for _name, _function in COMMANDS.items():
    application.command(_name)(_function)


@application.callback(invoke_without_command=True)
def mongomem(
    context: typer.Context,
    version_: Annotated[
        bool, typer.Option("--version", help="Print the version of mongomem.")
    ] = False,
) -> None:
    """Both memories of a LangGraph application in MongoDB."""
    if version_:
        print_result(version("mongomem"))
        raise typer.Exit(DONE)
    if context.invoked_subcommand is None:
        print_result(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    try:
        code = application([*arguments], prog_name="mongomem", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        # Typer's own errors have a class of their own since 0.20; before, they are those of click.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        return _refused(arguments, str(format_message()))
    return code if isinstance(code, int) else DONE


def _refused(arguments: Sequence[str], said: str) -> int:
    """Print what is wrong about the arguments."""
    named = f"{arguments[0]} " if arguments and arguments[0] in COMMANDS else ""
    line = f"{' '.join(said.split()).rstrip('.')}: mongomem {named}--help tells more"
    if "--json" in arguments:
        print_json(None, exit_code=USAGE, error=line)
    print_error(line)
    return USAGE
