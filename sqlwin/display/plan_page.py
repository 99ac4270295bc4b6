"""EXPLAIN as a self-contained HTML page that needs no network.

The folder `page` has the parts of the page. The document is embedded as JSON and drawn by a script.
Without scripts the page shows EXPLAIN's text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def plan_page(document: dict[str, Any]) -> str:
    """Return the page for a document of EXPLAIN (see docs/explain.md)."""
    parts = files("sqlwin.display") / "page"

    def part(name: str) -> str:
        return (parts / name).read_text("utf-8")

    contents = {
        "/*style*/": part("style.css"),
        "/*script*/": part("shared.js") + part("timeline.js") + part("plan.js"),
        "<!--text-->": html.escape("\n".join(query["text"] for query in document["queries"])),
        # "</script>" or "<!--" in the data would end the element
        "/*document*/": json.dumps(document, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return fill_template(part("page.html"), contents)


def fill_template(template: str, contents: Mapping[str, str]) -> str:
    """Replace the marks of a template, but not marks within the contents."""
    marks = re.compile("|".join(map(re.escape, contents)))
    return marks.sub(lambda mark: contents[mark.group()], template)


def plan_frame(document: dict[str, Any], height: int = 720) -> str:
    """Return the page in a frame, so that its styles do not affect the notebook.

    Args:
        document: Document of EXPLAIN.
        height: Height of the frame, in pixels.
    """
    page = html.escape(plan_page(document), quote=True)
    return (
        f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" '
        'sandbox="allow-scripts" title="plan"></iframe>'
    )
