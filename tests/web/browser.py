"""One Chromium for all tests of the dashboard, and a tab that notices whatever goes wrong in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

SHOTS = Path(os.environ.get("PROREUS_SCREENSHOTS", "build/screenshots"))
"""Screenshots of each page are build output."""
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Tab:
    """A page of the browser, and what went wrong in it."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Requests to anybody but the server."""
    dialogs: list[str] = field(default_factory=list)
    accept: bool = True

    @classmethod
    def opened(cls, browser: Browser, base: str, **options: Any) -> Tab:
        """A tab that has nothing from before; `base` may end in a token."""
        context = browser.new_context(
            **{"viewport": {"width": 1400, "height": 1000}, "locale": "en-US", **options}
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        tab = cls(page, base)
        own = urlsplit(base).netloc
        page.on("console", tab._hear)
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                tab.strangers.append(request.url)
                if request.url.startswith("http") and urlsplit(request.url).netloc != own
                else None
            ),
        )

        def answer(dialog: Any) -> None:
            tab.dialogs.append(dialog.message)
            if tab.accept:
                dialog.accept()
            else:
                dialog.dismiss()

        page.on("dialog", answer)
        page.goto(base)
        return tab

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def go(self, route: str) -> None:
        """To another page of the dashboard."""
        self.page.evaluate("route => { location.hash = route }", route)

    def quiet(self) -> None:
        """Nothing was complained of, and nobody else was asked."""
        complaints, self.complaints = self.complaints, []
        assert (complaints, self.strangers) == ([], [])

    def shot(self, name: str) -> None:
        """A picture of the whole page, for whoever looks."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def faults(self) -> list[str]:
        """Serious faults that axe finds in the page as it stands."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{fault['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
            for fault in found
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]

    def sideways(self) -> int:
        """By how much the page is wider than its window."""
        wide: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wide

    def wait(self, script: str) -> None:
        """Until it is so; not by the page's own means, which would have to evaluate a text."""
        until = time.monotonic() + PATIENCE_MS / 1e3
        while not self.page.evaluate(script):
            assert time.monotonic() < until, script
            self.page.wait_for_timeout(50)


Open = Callable[..., Tab]
