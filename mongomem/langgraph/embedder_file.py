"""Embedders that ``store.index.embed`` names by a file, as LangGraph's servers read it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from mongomem.arguments import shown
from mongomem.embeddings import EmbedOption
from mongomem.engine.locks import Lock
from mongomem.errors import ConfigurationError

IN_A_FILE = ".py:"
"""What tells a file from the name of a model (``langgraph_api.graph.resolve_embeddings``)."""

_RUNNING = Lock()
"""Held while a file is run: a factory that is entered meanwhile would find half a module. The file
itself may enter one."""


def named_embedder(embed: str) -> EmbedOption:
    """Return what a name stands for: the value that a file has under it, else the name itself.

    Args:
        embed: "./FILE.py:NAME", from the directory of the server on, or the name of a model.

    Raises:
        ConfigurationError: There is no such file, it cannot be run, or has no such value.
    """
    if IN_A_FILE not in embed:
        return embed
    path, _, name = embed.rpartition(":")
    with _RUNNING:
        module = _module_of(path, embed)
    if not hasattr(module, name):
        raise ConfigurationError(f"No embedder for embed={shown(embed)}: the file has no {name!r}")
    found: EmbedOption = getattr(module, name)
    return found


def _module_of(path: str, embed: str) -> ModuleType:
    """Run a file, unless a server that loads it too has done so."""
    name = path.replace("/", "__").replace(".py", "").replace(" ", "_")
    loaded = sys.modules.get(name)
    if loaded is not None and _is_of(loaded, path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"No embedder for embed={shown(embed)}: it names no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # whatever the file does
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise ConfigurationError(
            f"No embedder for embed={shown(embed)}: its file raised {type(error).__name__}: "
            f"{shown(str(error))}"
        ) from error
    return module


def _is_of(module: ModuleType, path: str) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).absolute() == Path(path).absolute()
