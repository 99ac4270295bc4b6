"""Chromium, if the machine has one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine (CHROMIUM=path names one)")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, page: Path, **options: Any) -> Iterator[Any]:
    """A page in the browser; no error may come from its scripts, and no request leave the file."""
    context = browser.new_context(**{"viewport": {"width": 1180, "height": 900}, **options})
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text))
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(page.as_uri())
    yield tab
    context.close()
    assert problems == []
    assert requests == [page.as_uri()]
