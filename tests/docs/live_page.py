"""Take the screenshot of the monitoring page: `python -m tests.docs.live_page docs/monitoring.png`.

It shows the session of the page's tests, without Spark.
"""

from __future__ import annotations

import sys

from tests.sqlwin.display.browser import chromium, open_page
from tests.sqlwin.ui.test_page import busy_session, page_of


def main(path: str) -> None:
    """Open the page, unfold a statement, and take the screenshot."""
    size = {"width": 1060, "height": 900}
    with (
        chromium() as browser,
        page_of(busy_session("cherries")) as url,
        open_page(browser, url, viewport=size, color_scheme="light") as tab,
    ):
        tab.locator("[data-statement]", has_text="COUNT(*)").locator("summary").click()
        tab.wait_for_timeout(1200)
        tab.screenshot(path=path, full_page=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
