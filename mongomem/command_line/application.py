"""The commands and their exit codes: 0 all is there, 1 something failed or differs, 2 wrong usage,
130 ended by Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from mongomem.command_line.migrate import migrate
from mongomem.command_line.printout import print_error, print_result

USAGE, INTERRUPTED = 2, 130

application = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
application.command()(migrate)


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
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print_result(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    try:
        code = application([*arguments], prog_name="mongomem", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # Typer's own errors have a class of their own since 0.20; before, they are those of click.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        said = " ".join(str(format_message()).split())
        print_error(f"{said.rstrip('.')}: mongomem {_command(arguments)}--help tells more")
        return USAGE
    return code if isinstance(code, int) else 0


def _command(arguments: Sequence[str]) -> str:
    known = [one.name or "migrate" for one in application.registered_commands]
    return f"{arguments[0]} " if arguments and arguments[0] in known else ""
