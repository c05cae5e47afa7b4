"""The database that a command works on: the options that name it, and what is opened of it.

    --memory MODULE:FACTORY  the application's own MongoMemory, with all of its options; or
    --uri URI                a server; else the environment variable MONGODB_URI; or
    --local, --data-dir      the local server of this user, started for the command if need be
    --db, --prefix           the database and the collections in it
    --encrypted              values are encrypted by the key in LANGGRAPH_AES_KEY
    --embed, --dims, --field how items are embedded, for the commands that search or embed

A group of options is a frozen dataclass whose fields are the options: a command that takes one as a
parameter has all of them (`mongomem.command_line.command`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.store.base import IndexConfig

from mongomem.checkpoint.serde.default import default_serializer
from mongomem.command_line.factories import look_here, made
from mongomem.command_line.refusals import Failure, Refusal, line_of
from mongomem.errors import ConfigurationError, MongomemError
from mongomem.inspection.inspector import Inspector
from mongomem.local_server.server import URI_VARIABLE, LocalServer, default_data_dir
from mongomem.memory import MongoMemory
from mongomem.schema.names import DEFAULT_PREFIX

KEY_VARIABLE = "LANGGRAPH_AES_KEY"
"""Where LangGraph's ``EncryptedSerializer.from_pycryptodome_aes`` finds its key."""

WHOLE_VALUE = "$"
"""The path of the whole value of an item."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """What names a database."""

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY", help="The application's own MongoMemory, with its options."
        ),
    ] = None
    uri: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help=f"The server. [default: the environment variable {URI_VARIABLE}]"
        ),
    ] = None
    local: Annotated[bool, typer.Option("--local", help="The local server, in place of a URI.")] = (
        False
    )
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The local server whose data are in this folder."),
    ] = None
    db: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The database. [default: that of the URI, or mongomem]"),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help=f"What collections begin with. [default: {DEFAULT_PREFIX}]"
        ),
    ] = None
    encrypted: Annotated[
        bool,
        typer.Option("--encrypted", help=f"Values are encrypted by the key in {KEY_VARIABLE}."),
    ] = False


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How the items of a store are embedded: as the application says it in ``index=``."""

    embed: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="What embeds, such as openai:MODEL or local."),
    ] = None
    dims: Annotated[int | None, typer.Option(metavar="NUMBER", help="The size of its vectors.")] = (
        None
    )
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="What is embedded. Can be repeated. [default: as the store has it, or $]",
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of a `MongoMemory` that say it; none where nothing is said.

        Raises:
            Refusal: It is told by half.
        """
        return {} if self.config is None else {"index": self.config}

    @property
    def config(self) -> IndexConfig | None:
        """The configuration; None where nothing is said.

        Raises:
            Refusal: It is told by half.
        """
        if (self.embed, self.dims, self.field) == (None, None, None):
            return None
        if self.embed is None or self.dims is None:
            raise Refusal(
                "--embed and --dims name an index together, such as --embed local --dims 256"
            )
        named: IndexConfig = {"embed": self.embed, "dims": self.dims}
        return {**named, "fields": self.field} if self.field else named


def open_memory(
    options: DatabaseOptions, stack: ExitStack, *, may_be_new: bool, **more: Any
) -> MongoMemory:
    """Open what the options name. It is closed with the stack.

    Args:
        options: They.
        stack: What closes it.
        may_be_new: Whether a local server may be made.
        **more: Further options of `MongoMemory`, where the application does not give its own.

    Raises:
        Refusal: It cannot be opened as it is named.
        MongomemError: No server answers, or it refuses.
    """
    if options.memory is not None:
        _check_alone(options, more)
        look_here()
        memory: MongoMemory = made("--memory", options.memory, MongoMemory, stack)
        return memory
    own: dict[str, Any] = {} if options.prefix is None else {"collection_prefix": options.prefix}
    if options.encrypted:
        own["serde"] = _encrypting()
    uri = _uri(options, stack, may_be_new=may_be_new)
    try:
        return stack.enter_context(
            MongoMemory.from_conn_string(uri, db_name=options.db, **own, **more)
        )
    except ConfigurationError as error:
        raise Refusal(line_of(error)) from error


def check_presence(memory: MongoMemory) -> None:
    """Refuse a database that has no collection of a memory: its name is likely to be wrong.

    Raises:
        Failure: It has none; names other prefixes that it has collections under.
    """
    found = Inspector(memory).presence()
    if found.own:
        return
    prefix = memory.saver._options.collections.prefix
    said = (
        f"the database {found.database!r} has no collections of mongomem that begin with {prefix!r}"
    )
    if found.other_prefixes:
        others = " or ".join(map(repr, found.other_prefixes))
        raise Failure(f"{said}, but with {others}: say --prefix")
    raise Failure(
        f"{said}, or this user may see none: --db names another database, --prefix other "
        "collections"
    )


SAID_BY: Mapping[str, str] = {
    "index": "--embed, --dims and --field",
    "thread_ttl": "--thread-ttl",
    "user_key": "--user-key",
    "user_namespace": "--namespace",
}
"""By the options of a `MongoMemory` those of commands that say them."""


def _check_alone(options: DatabaseOptions, more: Mapping[str, Any]) -> None:
    """Refuse what is said beside --memory."""
    if options != DatabaseOptions(memory=options.memory):
        raise Refusal(
            "--memory says all of the database: leave --uri, --local, --data-dir, --db, --prefix "
            "and --encrypted out"
        )
    if more:
        said = " and ".join(SAID_BY[name] for name in more)
        raise Refusal(f"--memory names a MongoMemory with options of its own: leave {said} out")


def _uri(options: DatabaseOptions, stack: ExitStack, *, may_be_new: bool) -> str:
    """Return the connection string; start the local server where that is meant."""
    if not (options.local or options.data_dir):
        uri = options.uri or os.environ.get(URI_VARIABLE)
        if not uri:
            raise Refusal(
                f"name the server by --uri URI, by the environment variable {URI_VARIABLE}, or by "
                "--local"
            )
        return uri
    if options.uri:
        raise Refusal(
            "--uri names a server, --local and --data-dir the local one: give one of them"
        )
    return _started(options.data_dir or default_data_dir(), stack, may_be_new=may_be_new)


def _started(folder: Path, stack: ExitStack, *, may_be_new: bool) -> str:
    if not (may_be_new or (folder / "node0").is_dir()):
        raise Refusal(
            f"there are no data of a local server in {str(folder)!r}: --data-dir names another "
            "folder"
        )
    try:
        return stack.enter_context(LocalServer(folder)).uri
    except MongomemError as error:
        raise Failure(str(error)) from error


def _encrypting() -> EncryptedSerializer:
    """Make the serializer that encrypts as LangGraph does by default, and revives data alone."""
    try:
        return EncryptedSerializer.from_pycryptodome_aes(default_serializer())
    except ImportError as error:
        raise Refusal(
            "--encrypted needs the package pycryptodome: pip install pycryptodome"
        ) from error
    except ValueError as error:
        raise Refusal(
            f"--encrypted needs a key of 16, 24 or 32 bytes in the environment variable "
            f"{KEY_VARIABLE}"
        ) from error
