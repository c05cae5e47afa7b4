"""An import that is cut short at any command, or by the end of its file, goes on when it is called
again.
"""

from __future__ import annotations

import contextlib
import io

import pytest
from pymongo import MongoClient

from mongomem import InvalidInputError, MongoMemory
from mongomem.backup.imports import Import
from mongomem.backup.selection import Selection
from mongomem.engine.runners import Runners
from mongomem.testing import FailingRunner
from support.backups import exported, imported, items_of, threads_of
from support.migrations import assert_same_threads, config_of

PERFORMED = (False, True)
"""How much of the command that ends the import reaches the server: nothing, or all of it."""

MOST_COMMANDS = 200


@pytest.mark.parametrize("performed", PERFORMED)
def test_an_import_goes_on_behind_every_command(
    source: MongoMemory, mongo_client: MongoClient, target: str, performed: bool
) -> None:
    chosen = Selection(["asking"], namespaces=[("ada",)])
    source.saver.update_thread("asking", {"title": "Questions"})
    data, _ = exported(source, chosen)
    new = MongoMemory(mongo_client, target)
    new.setup()
    wanted = [one for one in threads_of(source) if one.thread_id in chosen.threads]
    for at in range(MOST_COMMANDS):
        for thread_id in chosen.threads:
            new.saver.delete_thread(thread_id)
        new.store.delete_namespace(("ada",))
        broken = MongoMemory(mongo_client, target, auto_setup=False)
        runner = FailingRunner(mongo_client[target], at, performed, KeyboardInterrupt())
        runners = Runners(runner, None)  # type: ignore[arg-type]  # nothing is awaited here
        broken.saver._runners = broken.store._runners = runners
        with contextlib.suppress(KeyboardInterrupt):
            Import(broken, io.BytesIO(data)).make()
        if runner.count <= at:
            break
        for one in MongoMemory(mongo_client, target).saver.list(None):
            assert one == source.saver.get_tuple(one.config)
        again = MongoMemory(mongo_client, target)
        imported(again, data)
        assert threads_of(again) == wanted
        assert len(items_of(again)) == 2
        for thread_id in chosen.threads:
            config = config_of(thread_id)
            assert [*again.saver.list(config)] == [*source.saver.list(config)]
    else:
        raise AssertionError("the import never got through")
    assert at > 10


def test_a_file_that_is_cut_off_anywhere(
    source: MongoMemory, mongo_client: MongoClient, target: str
) -> None:
    data, _ = exported(source)
    lines = data.splitlines(keepends=True)
    new = MongoMemory(mongo_client, target)
    whole = {one.thread_id: one for one in threads_of(source)}
    for count in range(1, len(lines)):
        for cut in (0, len(lines[count]) // 2):
            part = b"".join(lines[:count]) + lines[count][:cut]
            with pytest.raises(InvalidInputError, match="cut off"):
                imported(new, part)
        for one in threads_of(new):
            assert one == whole[one.thread_id]
        ends = sum(line.startswith(b'{"thread_end"') for line in lines[:count])
        items = sum(line.startswith(b'{"item"') for line in lines[:count])
        assert (len(threads_of(new)), len(items_of(new))) == (ends, items)
    imported(new, data)
    assert_same_threads(source.saver, new.saver)
    assert threads_of(new) == threads_of(source)
