"""The console in Debian's chromium, in front of the real program. One program for all of them.

Whatever a test does: no request to another host, no error in the console, no violation of the policy, no exception.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from support.program import Program, program

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
REFUSED = "Failed to load resource"
"""What chromium says of an answer that is an error, and of none."""


def _chromium() -> str:
    found = os.environ.get("WATERCLOCK_CHROMIUM") or shutil.which("chromium")
    if found is None:
        why = "there is no chromium (apt-get install chromium)"
        if os.environ.get("WATERCLOCK_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(f"the console was not tried: {why}")
    return found


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """It has a loop running in this thread, so it ends with each module: nothing async could run after it."""
    _chromium()
    expect.set_options(timeout=20_000)  # of two busy cores
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox", "--disable-gpu"])
    yield started
    started.close()


@pytest.fixture(scope="session")
def waterclock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    _chromium()
    with program(tmp_path_factory.mktemp("console") / "data") as running:
        yield running


class Guard:
    """What must not happen in a page."""

    def __init__(self, home: str) -> None:
        self._home = urlsplit(home).netloc
        self.seen: list[str] = []
        self.forgiven: tuple[str, ...] = ()
        """Beginnings of messages that a test brings about itself."""

    def watch(self, context: BrowserContext) -> None:
        context.add_init_script(
            "addEventListener('securitypolicyviolation', e =>"
            " console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )
        context.on("request", lambda request: self._requested(request.url))
        context.on("console", self._said)
        context.on("weberror", lambda error: self.seen.append(f"exception: {error.error}"))

    def _requested(self, url: str) -> None:
        place = urlsplit(url)
        if place.scheme in ("http", "https", "ws", "wss") and place.netloc != self._home:
            self.seen.append(f"request to {url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(self.forgiven):
            self.seen.append(f"console: {message.text}")


@pytest.fixture
def guard(waterclock: Program) -> Iterator[Guard]:
    guard = Guard(waterclock.connection["http"])
    yield guard
    assert guard.seen == []


Opened = Callable[..., Page]


@pytest.fixture
def opened(chromium: Browser, waterclock: Program, guard: Guard) -> Iterator[Opened]:
    """A page of a browser that is signed in: `opened("/ui/runs")`; options are those of a browser's context."""
    contexts: list[BrowserContext] = []

    def open_page(path: str = "/", *, token: str | None = None, **options: object) -> Page:
        context = chromium.new_context(base_url=waterclock.connection["http"], **options)  # type: ignore[arg-type]
        context.set_default_timeout(20_000)
        contexts.append(context)
        guard.watch(context)
        sign_in(context, token or waterclock.connection["token"])
        page = context.new_page()
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()


def sign_in(context: BrowserContext, token: str) -> None:
    answer = context.request.post("/v1/session", data={"token": token})
    assert answer.status == 204, answer.text()
