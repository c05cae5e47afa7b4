"""What a model is called: unlike things by unlike names, the same thing by one, and what has no
name asks for one.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langgraph.store.base.embed import EmbeddingsLambda
from pydantic import BaseModel, PrivateAttr, SecretStr

from mongomem.embeddings import resolve_embedder
from mongomem.embeddings.identity import identity_of
from mongomem.errors import ConfigurationError
from support.bag_of_words import bag_of_words
from support.waits import HANG_SECONDS

KEY = "sk-abcdefghijklmnop123456"


def name_of(embed: Any) -> str:
    return identity_of(embed, None).name


class Silent(Embeddings):
    """Embeddings whose vectors nobody asks for."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


class AzureEmbeddings(BaseModel, Silent):
    """With the settings of LangChain's Azure class, and a client that is made at once."""

    model: str = "text-embedding-ada-002"
    deployment: str | None = "text-embedding-ada-002"
    dimensions: int | None = None
    azure_endpoint: str | None = None
    openai_api_base: str | None = None
    openai_api_key: SecretStr | None = None
    openai_api_version: str | None = None
    azure_ad_token: str | None = None
    chunk_size: int = 2_048
    max_retries: int = 2
    request_timeout: float | None = None
    model_kwargs: dict[str, Any] = {}
    default_headers: dict[str, str] | None = None
    normalize: bool = False
    client: Any = None

    def model_post_init(self, context: Any) -> None:
        self.client = object()


class Hidden(BaseModel, Silent):
    """Wraps others where no field tells it."""

    _inner: Any = PrivateAttr()
    _client: Any = PrivateAttr(default_factory=object)

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner


class Wrapper(Silent):
    """A plain class that holds what it is given."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class CacheBackedEmbeddings(Wrapper):
    """With the attributes of LangChain's class."""


class Slotted(Silent):
    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size


class Model(str, Enum):
    SMALL = "small"
    LARGE = "large"


class Callable_:  # noqa: N801
    """A callable object, and the holder of a bound method."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def __call__(self, texts: list[str]) -> Any: ...

    def embed(self, texts: list[str]) -> Any: ...

    @classmethod
    def of_class(cls, texts: list[str]) -> Any: ...

    @staticmethod
    def of_nobody(texts: list[str]) -> Any: ...


def embed(texts: list[str], model: str = "small", retries: int = 3, **more: Any) -> Any: ...


def other(texts: list[str]) -> Any: ...


def decorated_with(prefix: str, times: int) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        @wraps(function)
        def called(texts: list[str]) -> Any:
            return [function([prefix + text for text in texts]) for _ in range(times)]

        return called

    return decorate


def closure(model: Any = None, client: Any = None, dims: Any = None) -> Any:
    def embed(texts: list[str]) -> Any:
        return model, client, dims

    return embed


def nested(inner: Any) -> Any:
    def embed(texts: list[str]) -> Any:
        return inner(texts)

    return embed


def azure(deployment: str = "d1", **more: Any) -> AzureEmbeddings:
    endpoint = {"azure_endpoint": "https://x.openai.azure.com"}
    return AzureEmbeddings(deployment=deployment, openai_api_key=KEY, **(endpoint | more))


def cached(inner: Embeddings) -> Embeddings:
    return CacheBackedEmbeddings(
        underlying_embeddings=inner,
        document_embedding_store=object(),
        query_embedding_store=None,
        batch_size=None,
    )


@pytest.fixture(autouse=True)
def _no_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


# --- unlike things
# ---------------------------------------------------------------------------------

UNLIKE: dict[str, list[Any]] = {
    "deployments": [
        azure("d1"),
        azure("d2"),
        azure("d1", azure_endpoint="https://y.openai.azure.com"),
    ],
    "settings": [
        azure(),
        azure(dimensions=256),
        azure(normalize=True),
        azure(model_kwargs={"pooling": "cls"}),
    ],
    "base URLs": [
        azure(openai_api_base=url) for url in ("http://one/v1", "http://two/v1", "http://one:81/v1")
    ],
    "sizes": [DeterministicFakeEmbedding(size=size) for size in (3, 4)],
    "caches": [cached(azure("d1")), cached(azure("d2"))],
    "caches of caches": [cached(cached(azure("d1"))), cached(cached(azure("d2")))],
    "wrappers": [Wrapper(inner=azure(one)) for one in ("d1", "d2")]
    + [Wrapper(inner=DeterministicFakeEmbedding(size=3))],
    "hidden": [Hidden(azure("d1")), Hidden(azure("d2"))],
    "lists": [
        Wrapper(all=[azure("d1"), azure("d2")]),
        Wrapper(all=[azure("d1")]),
        Wrapper(all=[azure("d2")]),
    ],
    "methods of a wrapped one": [Wrapper(call=azure(one).embed_documents) for one in ("d1", "d2")],
    "slots": [Slotted(3), Slotted(4)],
    "partials": [
        embed,
        partial(embed, model="large"),
        partial(embed, None, "huge"),
        partial(embed, task="query"),
        other,
    ],
    "partials of partials": [
        partial(partial(embed, model="a"), task=task) for task in ("query", "document")
    ],
    "closures": [
        closure("a"),
        closure("b"),
        closure("a", dims=3),
        closure(Model.SMALL),
        closure(Model.LARGE),
    ],
    "closures over clients": [closure("a", object()), closure("b", object())],
    "closures over functions": [
        nested(embed),
        nested(other),
        nested(bag_of_words(3)),
        nested(bag_of_words(4)),
    ],
    "closures over partials": [nested(partial(embed, model=model)) for model in "ab"],
    "closures over embeddings": [
        nested(azure("d1").embed_documents),
        nested(azure("d2").embed_documents),
    ],
    "closures over tuples": [closure(dims=(1, 2)), closure(dims=(1, 3))],
    "callable objects": [
        Callable_(),
        Callable_(model="a"),
        Callable_(_model="b"),
        Callable_(name="a"),
        Callable_(size=3),
    ],
    "callable objects with clients": [
        Callable_(model="a", client=object()),
        Callable_(model="b", client=object()),
    ],
    "bound methods": [
        Callable_(size=3).embed,
        Callable_(size=4).embed,
        Callable_.of_class,
        Callable_.of_nobody,
    ],
    "decorated functions": [
        decorated_with("query: ", 1)(other),
        decorated_with("passage: ", 1)(other),
    ],
    "methods of embeddings": [azure("d1").embed_documents, azure("d2").embed_documents],
    "models of clients": [partial(embed, client=object(), model=model) for model in "ab"],
    "servers of clients": [
        closure("a", openai.OpenAI(api_key=KEY, base_url=url))
        for url in ("http://1/v", "http://2/v")
    ],
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_unlike_things_have_unlike_names(kind: str) -> None:
    names = [name_of(each) for each in UNLIKE[kind]]
    assert len(set(names)) == len(names), names
    assert len({resolve_embedder(each, dims=3).fingerprint for each in UNLIKE[kind]}) == len(names)


def test_a_server_of_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(base_url: str) -> str:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
        return resolve_embedder("openai:small", dims=3).fingerprint

    assert fingerprint("") == fingerprint("https://api.openai.com/v1/") == "openai:small"
    assert fingerprint("https://eu.api.openai.com/v1") == "openai:small"
    assert (
        fingerprint("http://user:secret@Host:8000/v1/?token=abc")
        == "openai:small at http://host:8000/v1"
    )
    assert fingerprint("http://host:8001/v1") == "openai:small at http://host:8001/v1"
    for nonsense in ("http://host:port/v1", "host/v1", "http://[::1"):
        assert fingerprint(nonsense).startswith("openai:small at ")


def test_the_base_url_is_read_when_it_is_needed_and_then_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = resolve_embedder("openai:small", dims=3)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(
        "OPENAI_BASE_URL", "http://127.0.0.1:9/v1"
    )  # as python-dotenv may, after the import
    assert embedder.fingerprint == "openai:small at http://127.0.0.1:9/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:10/v1")
    assert embedder.fingerprint == "openai:small at http://127.0.0.1:9/v1"
    client = embedder.clients.blocking()  # type: ignore[attr-defined]
    assert str(client.base_url) == "http://127.0.0.1:9/v1/"


def test_a_client_that_read_the_environment_is_named_by_its_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one/v1")
    here = azure(azure_endpoint=None)
    here.client = openai.OpenAI(api_key=KEY).embeddings
    assert name_of(here) == name_of(azure(azure_endpoint=None, openai_api_base="http://one/v1"))
    monkeypatch.delenv("OPENAI_BASE_URL")
    here.client = openai.OpenAI(api_key=KEY).embeddings
    assert name_of(here) == name_of(azure(azure_endpoint=None))


# --- the same thing
# --------------------------------------------------------------------------------


SAME: dict[str, list[Any]] = {
    "keys and how it is asked": [
        azure(),
        azure(
            azure_ad_token="other",
            chunk_size=10,
            max_retries=9,
            request_timeout=3.0,
            default_headers={"x": KEY},
        ),
        azure(openai_api_version="2024-02-01", model_kwargs={"api_key": KEY, "timeout": 3}),
        azure(openai_api_base="https://api.openai.com/v1"),
    ],
    "a cache": [azure(), cached(azure()), cached(cached(azure()))],
    "what wraps nothing": [
        other,
        partial(other),
        partial(other, api_key=KEY, timeout=3),
        EmbeddingsLambda(other),
    ],
    "a cached function": [
        other,
        lru_cache(other),
        decorated_with("", 3)(other),
        decorated_with("", 4)(other),
    ],
    "what a partial says again": [
        embed,
        partial(embed, model="small"),
        partial(embed, model="small", client=None),
    ],
    "clients": [
        closure("a", object()),
        closure("a", object()),
        closure("a", openai.OpenAI(api_key=KEY)),
    ],
    "what changes": [
        Callable_(size=3),
        Callable_(
            size=3, calls=[], cache={}, _lock=object(), hits=9, api_key=KEY, max_retries=3, note=""
        ),
    ],
    "a key by its looks": [closure("a"), closure("a", client=KEY)],
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_thing_has_one_name(kind: str) -> None:
    assert len({name_of(each) for each in SAME[kind]}) == 1, [name_of(each) for each in SAME[kind]]


SCRIPT = """
import importlib, importlib.util, runpy, sys
sys.path[:0] = [{folder!r}, {package!r}]
from mongomem.embeddings.identity import identity_of

def names(module):
    everything = (module.embed, module.make(7), module.Calls(model="m"), module.Calls().__call__)
    return [identity_of(each, None).name for each in everything]

def loaded(name):
    spec = importlib.util.spec_from_file_location(name, {file!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

class Ran:
    def __init__(self, names):
        self.__dict__.update(names)

found = [names(importlib.import_module(name)) for name in ("embedding", "inner.embedding")]
found.append(names(loaded("another")))
for name in ("__main__", "<run_path>"):
    found.append(names(Ran(runpy.run_path({file!r}, run_name=name))))
found.append(names(Ran(runpy.run_module("inner.embedding", run_name="__main__", alter_sys=True))))
print(sorted(map(str, found))[0] if len(set(map(str, found))) == 1 else found)
"""

EMBEDDING = """
def embed(texts):
    ...

def make(dims):
    def embed(texts):
        return dims
    return embed

class Calls:
    def __init__(self, **held):
        self.__dict__.update(held)

    def __call__(self, texts):
        ...
"""


def test_a_file_is_one_however_it_was_come_by_and_in_every_process(tmp_path: Path) -> None:
    package = tmp_path / "inner"
    package.mkdir()
    (package / "__init__.py").touch()
    file = package / "embedding.py"
    file.write_text(EMBEDDING)
    program = SCRIPT.format(folder=str(tmp_path), package=str(package), file=str(file))
    outputs = set()
    for seed in ("1", "2"):
        environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        ended = subprocess.run(
            command,
            env=environment,
            timeout=HANG_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        outputs.add(ended.stdout.strip())
    expected = ["embed", "make.<locals>.embed(dims=7)", "Calls(model=m)", "Calls.__call__"]
    assert outputs == {str([f"function:embedding.{name}" for name in expected])}


def test_a_module_run_as_a_script_has_the_name_that_it_has_imported(tmp_path: Path) -> None:
    file = tmp_path / "embedding.py"
    script = (
        "from mongomem.embeddings.identity import identity_of\nif __name__ == '__main__':\n  "
        " "
        " print("
    )
    file.write_text(f"{EMBEDDING}\n{script}identity_of(embed, None).name)\n")
    environment = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, str(file)]
    ended = subprocess.run(
        command, env=environment, timeout=HANG_SECONDS, capture_output=True, text=True, check=False
    )
    assert (ended.stdout.strip(), ended.stderr) == ("function:embedding.embed", "")


def test_packages_are_named_by_their_folder(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(EMBEDDING)
    spec = importlib.util.spec_from_file_location("some.name", tmp_path / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert name_of(module.embed) == f"function:{tmp_path.name}.embed"


# --- what cannot be named
# --------------------------------------------------------------------------


class Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(KEY)

    def __repr__(self) -> str:
        raise LookupError(KEY)

    def __call__(self, texts: list[str]) -> Any: ...


class HostileClass:
    @property
    def __class__(self) -> Any:
        raise LookupError(KEY)

    def __call__(self, texts: list[str]) -> Any: ...


def endless() -> Any:
    held: dict[str, Any] = {}
    held["inner"] = Callable_(again=Callable_())
    held["inner"].again.again = held["inner"]
    return held["inner"]


NAMELESS: dict[str, Callable[[], Any]] = {
    "a lambda": lambda: lambda texts: texts,
    "a lambda of a closure": lambda: nested(lambda texts: texts),
    "a partial of a lambda": lambda: partial(lambda texts, model: texts, model="a"),
    "a closure over an object": lambda: closure(client=object()),
    "a closure over a list": lambda: closure(dims=[1]),
    "a closure over an array": lambda: closure(dims=__import__("numpy").ones(3)),
    "a callable object with state": lambda: Callable_(weights=object()),
    "a bound method of one with state": lambda: Callable_(weights={}, other=[1]).embed,
    "a partial over an object": lambda: partial(other, client=object()),
    "embeddings that tell no model": lambda: Wrapper(client=object()),
    "embeddings with too many settings": lambda: Wrapper(
        **{f"setting{n}": n for n in range(1_000)}
    ),
    "one that holds itself": endless,
    "one that cannot be looked at": Hostile,
    "one without a class": HostileClass,
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_what_cannot_be_named_asks_for_model(kind: str) -> None:
    embed = NAMELESS[kind]()
    with pytest.raises(
        ConfigurationError, match=r'index needs "model"|embed cannot be used'
    ) as raised:
        resolve_embedder(embed, dims=3)
    assert KEY not in str(raised.value)
    if not kind.startswith("one "):
        assert '"model": "my-model-v1"' in str(raised.value)
        assert resolve_embedder(embed, dims=3, model="mine").fingerprint == "mine"


def test_the_message_says_what_it_stumbled_over() -> None:
    with pytest.raises(
        ConfigurationError, match=r"closure.<locals>.embed holds client, which tells no model"
    ):
        resolve_embedder(closure(client=object()), dims=3)


# --- names in general
# ------------------------------------------------------------------------------


@pytest.fixture(params=[kind for kinds in (UNLIKE, SAME) for kind in kinds])
def things(request: pytest.FixtureRequest) -> list[Any]:
    return {**UNLIKE, **SAME}[request.param]


def test_no_name_holds_a_key_or_an_address(things: list[Any]) -> None:
    for each in things:
        name = name_of(each)
        assert KEY not in name
        assert " object at 0x" not in name
        assert len(name) <= 500


def test_long_settings_are_named_shortly_and_apart() -> None:
    long = [closure("x" * 9_999 + end) for end in "ab"] + [closure(dims=10**9_999)]
    assert len({name_of(each) for each in long}) == 3
    assert all(len(name_of(each)) <= 500 for each in long)


def test_settings_cannot_be_mistaken_for_others() -> None:
    assert name_of(closure("a", dims="b, model=c")) != name_of(closure("c", dims="b, model=a"))
    assert (
        name_of(closure("a\udc80"))
        == 'function:test_identity.closure.<locals>.embed(model="a\\udc80")'
    )


def test_what_the_user_says_is_the_name() -> None:
    for embed_option in (other, azure(), "openai:small", "local", lambda texts: texts):
        assert resolve_embedder(embed_option, dims=256, model="said").fingerprint == "said"


def test_former_names_are_known() -> None:
    assert identity_of(azure("d1"), None).former == (
        "langchain:AzureEmbeddings(text-embedding-ada-002)",
    )
    assert identity_of(cached(azure()), None).former == ("langchain:CacheBackedEmbeddings",)
    names = (__name__, "__main__")
    assert identity_of(partial(other), None).former == tuple(
        f"function:{name}.other" for name in names
    )
    assert identity_of(lambda texts: texts, "said").is_called(
        f"function:{__name__}.test_former_names_are_known.<locals>.<lambda>", None
    )
