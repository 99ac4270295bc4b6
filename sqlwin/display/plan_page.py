"""EXPLAIN as a page: one HTML file with everything in it, that needs no network.

The page's own parts are in the folder `page`; the document goes into it as JSON, and a script draws
it. Where scripts do not run, the text of EXPLAIN is shown.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def plan_page(document: dict[str, Any]) -> str:
    """The page for a document of EXPLAIN (see docs/explain.md)."""
    parts = files("sqlwin.display") / "page"

    def part(name: str) -> str:
        return (parts / name).read_text("utf-8")

    contents = {
        "/*style*/": part("style.css"),
        "/*script*/": part("shared.js") + part("timeline.js") + part("plan.js"),
        "<!--text-->": html.escape("\n".join(query["text"] for query in document["queries"])),
        # "</script>" or "<!--" inside of the data would end the element
        "/*document*/": json.dumps(document, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return filled(part("page.html"), contents)


def filled(template: str, contents: Mapping[str, str]) -> str:
    """A template with contents in place of its marks; what looks like one within them stays."""
    marks = re.compile("|".join(map(re.escape, contents)))
    return marks.sub(lambda mark: contents[mark.group()], template)


def plan_frame(document: dict[str, Any], height: int = 720) -> str:
    """The page inside of a frame, for notebooks, whose own style stays as it is.

    Args:
        document: of EXPLAIN.
        height: of the frame, in pixels.
    """
    page = html.escape(plan_page(document), quote=True)
    return (
        f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" '
        'sandbox="allow-scripts" title="plan"></iframe>'
    )
