"""A real browser for pages: Debian's Chromium, without a window and without a network."""

import shutil
from contextlib import contextmanager

import pytest

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(
    PROGRAM is None, reason="no browser: apt-get install --no-install-recommends chromium"
)


@contextmanager
def browser():
    """Start the browser; give it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def visits(chromium):
    """Give a function that opens a page of a server; nothing may go wrong on it."""
    wrong, contexts = [], []

    def go(server, path="/", **context):
        contexts.append(chromium.new_context(**context))
        page = contexts[-1].new_page()
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{server.address}/?token={server.token}")
        page.wait_for_url(f"{server.address}/")
        if path != "/":
            page.goto(server.address + path)
        return page

    yield go
    for each in contexts:
        each.close()
    assert wrong == []


class Visit:
    """A page opened in a browser, and everything it did that it should not do."""

    def __init__(self, chromium, path, **context):
        self.wrong = []
        self.page = chromium.new_context(**context).new_page()
        self.page.on("console", lambda said: self.wrong.append(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("popup", lambda popup: self.wrong.append(f"popup: {popup.url}"))
        self.page.on("request", self._asked)
        self.address = path.resolve().as_uri()
        self.page.goto(self.address)

    def _dismiss(self, dialog):
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request):
        if request.url.partition("#")[0] != self.address and not request.url.startswith("data:"):
            self.wrong.append(f"request: {request.url}")


def narrowest_text(visit):
    """Tell how many pixels the narrowest column of words has, of all tables that are shown."""
    return visit.page.evaluate(
        "Math.min(...[...document.querySelectorAll('td:not(.number)')].map(c => c.clientWidth))"
    )


def smallest_word(visit):
    """Tell how many pixels the smallest letters in charts are high, as they are drawn."""
    return visit.page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg.chart text')].map("
        "t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().d))"
    )
