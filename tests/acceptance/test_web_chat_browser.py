"""The web chat in a browser: Chromium, driven by Selenium, on a process that serves the page."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from support.browsers import windowless
from support.openai_server import Body, OpenAIServer
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>&amp;"\'` \u202e'


class Model:
    """What answers in these tests: an echo, which a test can stop half-way."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def __call__(self, messages: list[Body]) -> Iterator[str]:
        text = messages[-1]["content"]
        yield "You said: "
        if text.startswith("Slowly"):
            assert self.may_go_on.wait(HANG_SECONDS)
            self.may_go_on.clear()
        yield text


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[OpenAIServer]:
    with OpenAIServer(model) as running:
        yield running


@pytest.fixture(scope="module")
def url(server: OpenAIServer, mongo_uri: str, shared_database: str) -> Iterator[str]:
    """The address of a web chat, a process of its own."""
    ours = {
        "MONGODB_URI": mongo_uri,
        "MONGOMEM_DB": shared_database,
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": server.base_url,
    }
    command = [sys.executable, str(ROOT / "examples" / "web_chat.py"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ours}
    ) as running:
        assert running.stdout is not None
        yield running.stdout.readline().split()[0]
        running.terminate()


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with windowless() as running:
        yield running


class Page:
    """The page, as a user sees it."""

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome, self._url = chrome, url

    def open(self) -> None:
        self.chrome.delete_all_cookies()
        self.chrome.get(self._url)
        self.wait(lambda: self.one("#name").is_displayed())

    def log_in(self, name: str) -> None:
        self.open()
        self.type("#name", name, Keys.ENTER)
        self.wait(lambda: self.text("#me") == name)
        self.wait(lambda: self.focused() == "text")

    def wait(self, holds: Callable[[], Any]) -> Any:
        """Look until something holds. What is looked at may be drawn anew meanwhile."""
        again = [StaleElementReferenceException, IndexError]
        return WebDriverWait(self.chrome, HANG_SECONDS, 0.05, again).until(lambda _: holds())

    def all(self, css: str) -> list[WebElement]:
        return self.chrome.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.all(css)[0]

    def text(self, css: str) -> str:
        return str(self.one(css).get_property("textContent"))

    def texts(self, css: str) -> list[str]:
        return [str(each.get_property("textContent")) for each in self.all(css)]

    def shows(self, css: str, texts: list[str]) -> None:
        """Wait until the elements have these texts."""
        self.wait(lambda: self.texts(css) == texts)

    def focused(self) -> str:
        return str(self.chrome.switch_to.active_element.get_property("id"))

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.chrome.switch_to.active_element.send_keys(*keys)

    def type(self, css: str, *keys: str) -> None:
        self.one(css).send_keys(*keys)

    def click(self, css: str, number: int = 0) -> None:
        self.wait(lambda: self.all(css)[number].click() is None)

    def send(self, text: str) -> None:
        """Send a message, and wait for the whole answer."""
        count = len(self.all(".message"))
        self.type("#text", text, Keys.ENTER)
        self.wait(lambda: len(self.all(".message:not(.writing)")) == count + 2)
        self.wait(lambda: self.one("#send").is_enabled())
        assert self.texts(".message")[count:] == [text, f"You said: {text}"]

    @contextmanager
    def another_window(self) -> Iterator[None]:
        """Be in a second window, at the same address; close it, and be back in the first."""
        first, address = self.chrome.current_window_handle, self.chrome.current_url
        self.chrome.switch_to.new_window("tab")
        self.chrome.get(address)
        yield
        self.chrome.close()
        self.chrome.switch_to.window(first)

    def value(self) -> str:
        """Return what is written in the box."""
        return str(self.one("#text").get_property("value"))

    def confirm(self) -> None:
        self.wait(lambda: self.one("#yes").is_displayed())
        self.click("#yes")
        self.wait(lambda: not self.all("dialog[open]"))


@pytest.fixture
def page(chrome: Chrome, url: str) -> Page:
    return Page(chrome, url)


MESSAGES, TITLES, MEMORIES = ".message", "#threads .open span:first-child", "#memory-list .text"


def test_an_answer_streams_and_is_there_after_a_reload(page: Page, model: Model) -> None:
    page.log_in("streaming")
    page.shows("#threads li", ["No thread yet."])
    page.type("#text", "Slowly.", Keys.ENTER)
    page.shows(".message.writing", ["You said: "])
    page.shows(TITLES, ["Slowly."])
    assert not page.one("#send").is_enabled()
    page.chrome.refresh()  # while it is written: the answer goes on without its browser
    page.shows(MESSAGES, ["Slowly."])
    model.may_go_on.set()
    page.shows(MESSAGES, ["Slowly.", "You said: Slowly."])
    page.chrome.refresh()
    page.shows(MESSAGES, ["Slowly.", "You said: Slowly."])
    page.shows("#title", ["Slowly."])
    page.shows("#threads [aria-current] .open span:first-child", ["Slowly."])


def test_threads_are_switched_and_deleted(page: Page, model: Model) -> None:
    page.log_in("threads")
    page.send("The first.")
    page.send("More of the first.")
    page.click("#new")
    page.shows(MESSAGES, [])
    page.send("The second.")
    page.shows(TITLES, ["The second.", "The first."])
    page.click("#threads .open", 1)
    first = ["The first.", "You said: The first."]
    first += ["More of the first.", "You said: More of the first."]
    page.shows(MESSAGES, first)
    page.chrome.back()
    page.shows(MESSAGES, ["The second.", "You said: The second."])

    page.type("#text", "Slowly now.", Keys.ENTER)  # an answer that is written, and left
    page.shows(".message.writing", ["You said: "])
    page.click("#threads .open", 1)
    page.shows(MESSAGES, first)
    model.may_go_on.set()
    page.wait(lambda: "You said: Slowly now." in page.text("#threads .under"))
    assert page.texts(MESSAGES) == first

    page.click("#threads .delete", 1)
    page.confirm()
    page.shows(TITLES, ["The second."])
    page.shows("#title", ["New chat"])
    page.chrome.refresh()
    page.shows(TITLES, ["The second."])


def test_memories_are_seen_found_and_deleted(page: Page) -> None:
    page.log_in("memories")
    page.shows("#memory-list li", ["Nothing yet."])
    page.send("I have a dog called Brunel. I live in Lisbon.")
    page.shows(MEMORIES, ["I live in Lisbon", "I have a dog called Brunel"])
    page.type("#search", "pets")
    page.shows(MEMORIES, ["I have a dog called Brunel", "I live in Lisbon"])
    page.click("#memory-list .delete")
    page.confirm()
    page.shows(MEMORIES, ["I live in Lisbon"])
    page.chrome.refresh()
    page.shows(MEMORIES, ["I live in Lisbon"])


def test_everything_is_done_by_the_keyboard(page: Page) -> None:
    page.log_in("keyboard")
    page.press("I like tea.", Keys.SHIFT, Keys.ENTER)
    page.press(Keys.NULL, "Strong.", Keys.ENTER)
    page.shows(MESSAGES, ["I like tea.\nStrong.", "You said: I like tea.\nStrong."])
    page.shows(MEMORIES, ["I like tea"])
    page.wait(lambda: page.one("#send").is_enabled())
    for _ in range(10):
        page.press(Keys.TAB)
        label = page.chrome.switch_to.active_element.get_attribute("aria-label")
        if label == "Delete the memory: I like tea":
            break
    page.press(Keys.ENTER)
    page.wait(lambda: page.one("#confirm").is_displayed())
    page.press(Keys.ESCAPE)  # no
    page.wait(lambda: not page.all("dialog[open]"))
    assert page.texts(MEMORIES) == ["I like tea"]
    page.press(Keys.ENTER)
    page.wait(lambda: page.one("#confirm").is_displayed())
    page.press(Keys.TAB, Keys.ENTER)
    page.shows("#memory-list li", ["Nothing yet."])


def test_users_do_not_see_each_other(page: Page) -> None:
    page.log_in("ada@example.com")
    page.send("I like quinces.")
    page.shows(MEMORIES, ["I like quinces"])
    thread = page.chrome.current_url
    page.click("#logout")
    page.wait(lambda: page.one("#login").is_displayed())
    assert "quinces" not in page.chrome.page_source
    page.chrome.back()
    page.wait(lambda: page.one("#login").is_displayed())
    assert "quinces" not in page.chrome.page_source
    page.log_in("grace")
    page.shows("#threads li", ["No thread yet."])
    page.shows("#memory-list li", ["Nothing yet."])
    page.chrome.get(thread)
    page.shows("#status.bad", ["There is no such thread."])
    assert "quinces" not in page.chrome.page_source
    page.log_in("ada@example.com")
    page.shows(TITLES, ["I like quinces."])


def test_hostile_text_is_shown_as_text(page: Page) -> None:
    page.log_in("hostile")
    page.chrome.get_log("browser")  # of the tests before
    said = f"Remember {HOSTILE}"
    page.send(said)
    page.shows(MEMORIES, [HOSTILE])
    page.chrome.refresh()
    page.shows(MESSAGES, [said, f"You said: {said}"])
    page.shows(MEMORIES, [HOSTILE])
    page.click("#threads .delete")
    page.wait(lambda: page.one("#confirm").is_displayed())
    assert page.text("#question").startswith("Delete the thread “Remember <img src=x onerror=")
    assert page.all("#app img, #app script, dialog img, dialog script") == []
    assert page.chrome.title.startswith("Remember <img")
    assert [entry for entry in page.chrome.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_what_is_too_long_stays_in_the_box(page: Page) -> None:
    page.log_in("too long")
    text = "a" * 4001
    page.chrome.execute_script("arguments[0].value = arguments[1]", page.one("#text"), text)
    page.type("#text", Keys.ENTER)
    page.shows("#status.bad", ["text: String should have at most 4000 characters"])
    assert page.texts(MESSAGES) == []
    assert page.one(".welcome").is_displayed()
    assert page.value() == text
    page.type("#text", Keys.BACKSPACE, Keys.ENTER)
    page.shows(MESSAGES, [text[1:], f"You said: {text[1:]}"])


def test_what_another_window_does_is_seen(page: Page) -> None:
    page.log_in("windows")
    page.send("The first.")
    page.type("#search", "first")
    page.type("#text", "Not sent yet")
    with page.another_window():
        page.shows(MESSAGES, ["The first.", "You said: The first."])
        page.send("I like tea.")
    both = ["The first.", "You said: The first.", "I like tea.", "You said: I like tea."]
    page.shows(MESSAGES, both)
    page.shows(MEMORIES, ["I like tea"])
    page.wait(lambda: "You said: I like tea." in page.text("#threads .under"))
    assert page.value() == "Not sent yet"


GONE = "This thread was deleted elsewhere. What you send now begins a new one."


def delete_thread(page: Page) -> None:
    page.click("#threads .delete")
    page.confirm()
    page.shows("#threads li", ["No thread yet."])


def test_a_thread_that_another_window_deletes_is_left(page: Page) -> None:
    page.log_in("deleted")
    page.send("The first.")
    page.type("#text", "More.")
    with page.another_window():
        page.shows(TITLES, ["The first."])
        delete_thread(page)
    page.shows("#status.bad", [GONE])  # at the return to this window
    page.shows("#title", ["New chat"])
    page.press(Keys.ENTER)
    page.shows(MESSAGES, ["More.", "You said: More."])
    page.shows(TITLES, ["More."])

    script = "return fetch(`/api/threads/${location.hash.slice(1)}`, { method: 'DELETE' })"
    twice = "window.dispatchEvent(new Event('focus')); window.dispatchEvent(new Event('focus'))"
    page.chrome.execute_script(script)
    page.chrome.execute_script(twice)  # both events of one return
    page.shows("#threads li", ["No thread yet."])
    page.shows("#status.bad", [GONE])
    page.send("More.")

    page.chrome.execute_script(script)  # another window, and this one has the focus all the time
    page.type("#text", "Still there?", Keys.ENTER)
    page.shows("#status.bad", [GONE])
    page.shows("#threads li", ["No thread yet."])
    assert (page.texts(MESSAGES), page.value()) == ([], "Still there?")
    page.press(Keys.ENTER)
    page.shows(MESSAGES, ["Still there?", "You said: Still there?"])


def test_a_long_name_leaves_room_for_the_button(page: Page) -> None:
    page.log_in("a" * 40)
    height = page.one("#logout").size["height"]
    assert height == page.one("#show-memories").size["height"] - 4  # of one line, with less padding


def test_trouble_is_told(page: Page, server: OpenAIServer) -> None:
    page.log_in("trouble")
    server.fail(400)
    page.type("#text", "Hello", Keys.ENTER)
    page.shows("#status.bad", ["That failed: BadRequestError. Try again."])
    assert page.value() == "Hello"
    page.press(Keys.ENTER)
    page.wait(lambda: page.texts(MESSAGES)[-1] == "You said: Hello")
    page.shows("#status:not(.bad)", ["Enter sends, Shift+Enter starts a new line."])
    page.chrome.delete_all_cookies()  # as when the session is over
    page.click("#threads .open")
    page.wait(lambda: page.one("#login").is_displayed())
    page.type("#name", "<b>", Keys.ENTER)
    page.wait(lambda: page.text("#login-status").startswith("A name has letters"))
