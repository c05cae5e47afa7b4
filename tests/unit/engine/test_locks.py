"""A child that is forked while another thread holds a lock does not wait for that thread."""

from __future__ import annotations

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mongomem
from mongomem.engine import locks
from mongomem.engine.locks import Guarded, Lock
from support.waits import HANG_SECONDS

# In a process of its own, since only there is it known which threads there are.
FORKING = """
import os, signal, sys, threading, warnings
sys.path[:0] = [sys.argv[1]]
import mongomock, numpy
from bson.timestamp import Timestamp
from mongomem import LocalServer, MongoMemory
from mongomem.local_server import server as local
from mongomem.engine import loops
from mongomem.checkpoint.serde.cache import BoundedCache
from mongomem.engine.clients import introductions
from mongomem.embeddings import resolve_embedder
from mongomem.embeddings import custom as functions
from mongomem.embeddings.openai import _OpenAIClients
from mongomem.engine.locks import _guarded
from mongomem.store.vectors.quantization import quantize
from mongomem.store.vectors.index_cache import IndexCache
from mongomem.store.vectors.memory_index import Change, MemoryIndex
from mongomem.store.vectors.fusion import Ranking

warnings.simplefilter("ignore")  # of Python and PyMongo: this is what is tested
os.environ["OPENAI_API_KEY"] = "none"

class Client:
    append_metadata = None

async def embed(texts):
    return [[1.0] for _ in texts]

cache, indexes = BoundedCache(10_000, len), IndexCache(10**9)
cache.put("a", b"1")
query = numpy.array([1.0, 0.0], dtype=numpy.float32)
change = Change("a", Timestamp(1, 1), quantize(query[None], "cosine"))

def empty():
    return MemoryIndex(2, "cosine")

indexes.get("ada", empty).upsert([change])
lone = indexes.get("bob", empty)
lone.upsert([change])
memory, client = MongoMemory(mongomock.MongoClient()), Client()
opening = MongoMemory.from_conn_string("mongodb://127.0.0.1:1", open_timeout=None)
openai, server = _OpenAIClients(), LocalServer()
embedder = resolve_embedder(embed, dims=1)

def opened():
    with opening as one:
        return type(one).__name__

def ranked(cached):
    before = len(cached.index)
    cached.upsert([change])
    return before, [item for _, item in cached.search(Ranking(query), 1)]

def used():
    memory.store.put(("a",), "k", {"n": 1})
    memory.saver.get_tuple({"configurable": {"thread_id": "1"}})
    return memory.store.get(("a",), "k").value["n"]

USES = {
    "bounded": lambda: (cache.get("a"), cache.put("b", b"2"), cache.get("b")),
    "indexes": lambda: ranked(indexes.get("ada", empty)),
    "index": lambda: ranked(lone),
    "opening": opened,
    "background": lambda: embedder.embed_query("a").tolist(),
    "openai": lambda: type(openai.blocking()).__name__,
    "server": lambda: (server.pids, server.is_running()),
    "shared": lambda: local._shared_lock.__enter__(),
    "loops": lambda: type(loops.loops_of_clients.of(client)).__name__,
    "memory": used,
}

def use(kind):
    signal.alarm(600)  # ends it where it hangs
    for name, call in USES.items():
        print(kind, name, call(), flush=True)
    os._exit(0)

are_held = threading.Event()

def hold():
    for reference, _ in [*_guarded.values()]:
        guarded = reference()
        if guarded is not None:
            guarded._lock.acquire()
    are_held.set()
    threading.Event().wait()

if sys.argv[2] == "held":
    threading.Thread(target=hold, daemon=True).start()
    are_held.wait()
child = os.fork()
if child == 0:
    use("child")
print("exit", os.waitpid(child, 0)[1])
if sys.argv[2] == "open":
    use("parent")
"""

FRESH = {
    "bounded": "(None, None, b'2')",
    "indexes": "(0, ['a'])",
    "index": "(0, ['a'])",
    "opening": "MongoMemory",
    "background": "[1.0]",
    "openai": "OpenAI",
    "server": "((), False)",
    "shared": "None",
    "loops": "ClientLoop",
    "memory": "1",
}
"""What each gives where everything was held: what may have been half changed is gone, and
everything works."""

KEPT = FRESH | {"bounded": "(b'1', None, b'2')", "indexes": "(1, ['a'])", "index": "(1, ['a'])"}
"""What each gives where nothing was held: what the parent knew is still known."""


def forked(state: str) -> tuple[list[str], str]:
    command = [sys.executable, "-c", FORKING, str(Path(mongomem.__file__).parents[1]), state]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(("state", "expected"), [("held", FRESH), ("open", KEPT)])
def test_a_forked_child_uses_everything_that_has_a_lock(
    state: str, expected: dict[str, str]
) -> None:
    said, errors = forked(state)
    of_child = [f"child {name} {answer}" for name, answer in expected.items()]
    assert (said[: len(of_child)], errors) == (of_child, "")
    assert said[len(of_child)] == "exit 0"
    if state == "open":
        assert said[len(of_child) + 1 :] == [
            f"parent {name} {answer}" for name, answer in expected.items()
        ]


def test_what_is_guarded_is_forgotten_with_its_owner() -> None:
    gc.collect()
    before = len(locks._guarded)
    one, lock = Guarded(), Lock()
    one._guard()
    assert len(locks._guarded) == before + 2
    del one, lock
    assert len(locks._guarded) == before


def test_a_lock_may_be_taken_again_by_the_thread_that_holds_it_and_by_no_other() -> None:
    lock = Lock()
    with ThreadPoolExecutor(1) as other:
        with lock, lock:
            assert other.submit(lock._lock.acquire, blocking=False).result() is False
        assert other.submit(lock._lock.acquire, blocking=False).result() is True
