"""The picture of the page of what runs: `python -m tests.docs.live_page docs/monitoring.png`.

What is on it is the session that the tests of the page look at, without Spark.
"""

from __future__ import annotations

import sys

from tests.sqlwin.display.browser import chromium, opened
from tests.sqlwin.ui.test_page import busy_session, page_of


def main(path: str) -> None:
    """Open the page, unfold a statement, and take the picture."""
    size = {"width": 1060, "height": 900}
    with (
        chromium() as browser,
        page_of(busy_session("cherries")) as url,
        opened(browser, url, viewport=size, color_scheme="light") as tab,
    ):
        tab.locator("[data-statement]", has_text="COUNT(*)").locator("summary").click()
        tab.wait_for_timeout(1200)
        tab.screenshot(path=path, full_page=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
