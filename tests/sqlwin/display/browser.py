"""Chromium for tests. If CHROMIUM names it, as in .ci/run, its absence fails tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# WCAG contrast of an element's text on the first background behind it
CONTRAST = """(element) => {
    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
    const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    let behind = element;
    let color = rgb(getComputedStyle(behind).backgroundColor);
    while (color.length === 4 && color[3] === 0) {
        behind = behind.parentElement;
        color = rgb(getComputedStyle(behind).backgroundColor);
    }
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(color)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """Provide Playwright's browser. Skip the test if there is no browser and CHROMIUM is not set."""
    named = os.environ.get("CHROMIUM")
    result = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if named is None:
        pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from playwright import sync_api as api

    if result is None:
        pytest.skip("there is no Chromium on this machine (CHROMIUM=path names one)")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=result, args=arguments)
        yield browser
        browser.close()


@contextmanager
def open_page(browser: Any, page: Path | str, **options: Any) -> Iterator[Any]:
    """Open a page in the browser. Its scripts must not raise errors.

    Requests may go only to the file, or to the server if an address is passed.
    """
    context = browser.new_context(**{"viewport": {"width": 1180, "height": 900}, **options})
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text))
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    address = page if isinstance(page, str) else page.as_uri()
    tab.goto(address)
    yield tab
    context.close()
    assert problems == []
    if isinstance(page, Path):
        assert requests == [address]
    else:
        server = address.partition("?")[0]
        assert [item for item in requests if not item.startswith(server)] == []
