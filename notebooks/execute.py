"""Run the notebooks from a clean state, each in a kernel of its own, and keep what they show.

    python notebooks/execute.py                     all of them
    python notebooks/execute.py 01-threads.ipynb    some of them

Outputs that say the same as those that are stored stay as they are, so that a difference in the
repository is one in what a reader sees. What differs in every run (ids, times, sizes, pictures)
does not count, see `VARYING`.
"""

from __future__ import annotations

import copy
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

CELL_SECONDS = 300
"""How long a cell may take."""

PICTURES = ("image/png",)
"""Kinds of output that are compared by their presence alone."""

VARYING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"…[0-9a-f]{6}\b", "<id>"),
    (r"\b[0-9a-f]{32}\b", "<id>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?", "<time>"),
    (r"\b\d[\d,.]*\s?(bytes|[KMG]B)", "<size>"),
    (r"\b\d[\d,.]*\s?(ms|s)\b", "<duration>"),
    (r"\b0x[0-9a-f]+\b", "<address>"),
)
"""Patterns of what differs in every run, and what stands for it."""


def executed(path: Path) -> NotebookNode:
    """Run a notebook in a new kernel that has no key of a model, and return it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            config=_transport(folder),
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute(env=_environment(folder))
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def _transport(folder: str) -> Config:
    """Let the kernel answer on sockets in a folder of its own, where a system has such, and not on
    ports.
    """
    sockets = {"transport": "ipc", "ip": f"{folder}/kernel"}
    return Config({} if sys.platform == "win32" else {"KernelManager": sockets})


def _environment(profile: str) -> dict[str, str]:
    """Build what a kernel knows: neither keys nor servers of its user, nor their IPython
    profile.
    """
    unwanted = ("OPENAI_", "MONGO", "LANGSMITH_", "LANGCHAIN_", "MPLBACKEND")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "IPYTHONDIR": profile, "PYTHONUTF8": "1", "TZ": "UTC"}


def told(cell: NotebookNode) -> list[Any]:
    """Return what the outputs of a cell say, without what differs in every run."""
    outputs = copy.deepcopy(cell.get("outputs", []))
    for output in outputs:
        for kind in PICTURES:
            if kind in output.get("data", {}):
                output["data"][kind] = "<picture>"
    return [_constant(output) for output in outputs]


def _constant(value: Any) -> Any:
    """Replace what varies in every text of an output."""
    if isinstance(value, str):
        for pattern, constant in VARYING:
            value = re.sub(pattern, constant, value)
        return value
    if isinstance(value, dict):
        return {name: _constant(inner) for name, inner in value.items()}
    return [_constant(inner) for inner in value] if isinstance(value, list) else value


def refresh(path: Path) -> bool:
    """Run a notebook and store its outputs; return whether they say something else than before."""
    stored, ran = nbformat.read(path, as_version=4), executed(path)
    has_changed = False
    for before, after in zip(stored.cells, ran.cells, strict=True):
        if told(before) == told(after) and "outputs" in before:
            after.outputs = before.outputs
        elif "outputs" in after:
            has_changed = True
    nbformat.write(ran, path)
    return has_changed


def main(names: list[str]) -> None:
    """Refresh some notebooks, or all."""
    import matplotlib.font_manager  # noqa: F401  it builds its cache here, and not in a notebook

    for path in [FOLDER / name for name in names] or NOTEBOOKS:
        print(f"{path.name}: {'new outputs' if refresh(path) else 'as it was'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
