"""One gateway with a week of requests, one real headless Chromium, and pages that must not misbehave."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.seeding import Seeded, seed
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, running

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NAMES = (os.environ.get("CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
MISSING = "These tests need a real browser. Install it: sudo apt-get install chromium (or name one: CHROMIUM=/path)"
SHOTS = Path("build/screenshots")
EXPECTED = "Failed to load resource: the server responded with a status of"
"""Chromium says so of pages that are answered with 4xx, which tests ask for on purpose."""


@dataclass
class Served:
    gateway: Gateway
    seeded: Seeded
    portal: Any

    @property
    def url(self) -> str:
        return self.gateway.url

    def do(self, work: Any, *values: Any) -> Any:
        """In the server's own event loop."""
        return self.portal.call(work, *values)


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    with anyio.from_thread.start_blocking_portal() as portal:
        seeded = portal.call(seed, home, datetime.now(UTC))
        with portal.wrap_async_context_manager(running(home, FakeEngine())) as gateway:
            yield Served(gateway, seeded, portal)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(MISSING)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Eye:
    """A browser's window, and what went wrong in it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str = "/dashboard") -> int:
        answer = self.page.goto(self.url + path)
        assert answer is not None
        return answer.status

    def sign_in(self, key: str, path: str = "/dashboard") -> None:
        self.open(path)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()

    def shoot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


class Windows:
    """Opens windows, and says at the end what went wrong in any."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._contexts: list[BrowserContext] = []
        self._eyes: list[Eye] = []

    def open(self, **options: Any) -> Eye:
        """Each in a profile of its own: nobody is signed in."""
        context = self._browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        context.set_default_timeout(10_000)
        self._contexts.append(context)
        eye = Eye(context.new_page(), self._url)
        self._eyes.append(eye)
        eye.page.on("console", lambda said: self._heard(eye, said.type, said.text))
        eye.page.on("pageerror", lambda error: eye.problems.append(str(error)))
        eye.page.on("request", lambda sent: self._asked(eye, sent.url))
        return eye

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        assert [eye.problems for eye in self._eyes if eye.problems] == []

    def _heard(self, eye: Eye, kind: str, text: str) -> None:
        """Violations of the content security policy are told on the console too."""
        if kind in ("error", "warning") and not text.startswith(EXPECTED):
            eye.problems.append(text)

    def _asked(self, eye: Eye, url: str) -> None:
        if not url.startswith((self._url + "/", "data:,")):
            eye.problems.append(f"asked elsewhere: {url}")


@pytest.fixture
def windows(browser: Browser, served: Served) -> Iterator[Windows]:
    opened = Windows(browser, served.url)
    yield opened
    opened.close()


@pytest.fixture
def eye(windows: Windows) -> Eye:
    return windows.open()


@pytest.fixture(scope="package")
def operator(served: Served) -> str:
    return served.gateway.operator_key
