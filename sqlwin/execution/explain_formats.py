"""Output formats of EXPLAIN."""

from __future__ import annotations

import json
from typing import Any

from planner.explain.diagrams import dot, mermaid
from planner.explain.document import Document, to_json
from runtime.errors import AnalysisError
from sqlwin.display.plan_page import plan_frame, plan_page

MODES = ("text", "json", "mermaid", "dot", "html")


class Explanation(str):
    """EXPLAIN's text, which notebooks display as a picture.

    Attributes:
        document: Explanation as JSON, see docs/explain.md.
    """

    document: dict[str, Any]

    def __new__(cls, document: Document, mode: str) -> Explanation:
        """Render a document in one of `MODES`."""
        made = super().__new__(cls, render(document, mode))
        made.document = to_json(document)
        return made

    def _repr_html_(self) -> str:
        return plan_frame(self.document)


def render(document: Document, mode: str) -> str:
    """Return a document in one of `MODES`.

    Raises:
        AnalysisError: The document has no plan to draw.
    """
    if mode == "text":
        return document.text
    if mode == "json":
        return json.dumps(to_json(document), indent=2, ensure_ascii=False) + "\n"
    if mode == "html":
        return plan_page(to_json(document))
    if not any(query.trees for query in document.queries):
        raise AnalysisError(
            f"cannot draw the plan as {mode}",
            hint="plans of Spark's own statements are available as text only: use --format text",
        )
    return mermaid(document) if mode == "mermaid" else dot(document)
