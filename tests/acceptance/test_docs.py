"""The code in the documents is run, and prints what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> str:
    return "\n".join(
        code for kind, code in BLOCK.findall(document.read_text("utf-8")) if kind == language
    )


WITH_CODE = [document for document in DOCUMENTS if blocks(document, "python")]


@pytest.mark.parametrize("document", WITH_CODE, ids=lambda document: document.name)
def test_the_code_of_a_document_prints_what_it_says(
    document: Path, mongo_uri: str, database_name: str
) -> None:
    code = blocks(document, "python").replace('db_name="app"', f"db_name={database_name!r}")
    environment = {**os.environ, "MONGODB_URI": mongo_uri, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=HANG_SECONDS,
    )
    assert (ran.stdout, ran.stderr) == (blocks(document, "text").replace("\n\n", "\n"), "")


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda document: document.name
)
def test_what_a_document_links_to_exists(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []
