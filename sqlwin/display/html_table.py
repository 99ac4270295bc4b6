"""HTML tables of results for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import pyarrow as pa

from runtime.spec.figures import count_text
from sqlwin.display.notation import display_texts, is_number

MAX_ROWS = 50

_STYLE = (
    "border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;margin:4px 0",
    "padding:3px 14px 3px 0;border-bottom:1px solid rgba(128,128,128,.35);vertical-align:top;",
)


def html_table(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch], count: str | None = None
) -> str:
    """Return the first rows as HTML for light and dark notebooks, with numbers aligned right.

    Args:
        columns: Names of the columns.
        batches: Rows of the result. One more than `MAX_ROWS` shows that there are more.
        count: Text below the table. None: the number of rows.
    """
    cells: list[list[str | None]] = [[] for _ in columns]
    numeric = [False] * len(columns)
    n_rows = 0
    for batch in batches:
        shown_rows = batch.slice(0, MAX_ROWS + 1 - n_rows)
        n_rows += shown_rows.num_rows
        for i, array in enumerate(shown_rows.columns):
            cells[i] += display_texts(array).to_pylist()
            numeric[i] = is_number(array.type)
        if n_rows > MAX_ROWS:
            break
    head = "".join(_cell("th", name, number) for name, number in zip(columns, numeric, strict=True))
    rows = [
        "".join(_cell("td", text, number) for text, number in zip(row, numeric, strict=True))
        for row in list(zip(*cells, strict=True))[:MAX_ROWS]
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    if count is None:
        count = f"the first {MAX_ROWS} rows" if n_rows > MAX_ROWS else count_text(n_rows, "rows")
    return (
        f'<table style="{_STYLE[0]}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f'<div style="opacity:.65;font-size:12px">{html.escape(count)}</div>'
    )


def _cell(tag: str, text: str | None, is_numeric: bool) -> str:
    side = "right" if is_numeric else "left"
    inside = '<span style="opacity:.5">NULL</span>' if text is None else html.escape(text)
    return f'<{tag} style="{_STYLE[1]}text-align:{side}">{inside}</{tag}>'
