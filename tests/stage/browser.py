# SPDX-License-Identifier: Apache-2.0
"""A real Chromium for tests of the page, started once and quiet on the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.stage.island import skip_or_fail

PATIENCE_MS = 90_000  # a busy machine is no defect of the page

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium, else Playwright's. Skips where there is none, and says how to
    get one."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, (*_NAMES, own))), None)
        if found is None:
            skip_or_fail(
                "Tests of the page need Chromium; install it (Debian, Ubuntu: apt install "
                "chromium), or have Playwright fetch one: python -m playwright install chromium"
            )
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS, headless=True)
        yield browser
        browser.close()


def visitor(browser: Browser, url: str, **options: Any) -> BrowserContext:
    """A context of its own for one reader of `url`, who waits as long as a test does.

    `options`: of Playwright's `new_context`.
    """
    context = browser.new_context(base_url=url, **options)
    context.set_default_timeout(PATIENCE_MS)
    return context
