"""What the console script ``mongomem`` calls."""

from __future__ import annotations

import sys

MISSING = 'mongomem: the command line needs the extra "cli": in a clone, pip install ".[cli]"\n'


def main() -> None:
    """Run the command line, and end with its exit code."""
    try:
        from mongomem.command_line.application import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write(MISSING)
        sys.exit(2)
    except KeyboardInterrupt:  # what is imported takes about a second
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
