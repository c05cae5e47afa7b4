"""The browser of this machine, for what is drawn."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def windowless() -> Iterator[Chrome]:
    """Run Chromium without a window."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    assert browser, "these tests need a browser (Debian: apt install chromium)"
    assert driver, "these tests need its driver (Debian: apt install chromium-driver)"
    options = ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,800")
    running = Chrome(options=options, service=Service(driver))
    try:
        yield running
    finally:
        running.quit()
