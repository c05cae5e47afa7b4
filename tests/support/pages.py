"""Pages of the documentation: their blocks of code, and the commands in these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code."""
    return BLOCK.findall(text)


def blocks(document: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code of a page."""
    return blocks_of(document.read_text("utf-8"))


def commands(console: str) -> Iterator[tuple[str, str]]:
    """Return each command of a console, and what it prints."""
    for one in console.split("$ ")[1:]:
        command, _, printed = one.partition("\n")
        yield command, printed


def write_files(text: str, directory: Path) -> None:
    """Write the files that a page shows: a block of Python names its file in the first line."""
    for language, code in blocks_of(text):
        if language == "python":
            (directory / code.splitlines()[0].removeprefix("# ")).write_text(code, "utf-8")
