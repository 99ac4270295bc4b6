"""An advice as a self-contained HTML page that needs no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files

import pyarrow as pa

from sqlwin.advise.advice import Advice, Replay
from sqlwin.advise.report import advice_result, advice_table, replay_text
from sqlwin.display.charts.svg import svg_charts
from sqlwin.display.html_table import html_table
from sqlwin.display.plan_page import fill_template

# Columns of ADVISE that the page draws, and their titles
_CHARTS = {
    "delay": "delay",
    "rows_dropped": "rows dropped",
    "windows_short": "windows short of rows",
    "wait_seconds": "seconds that results wait (median)",
    "peak_partials": "partials in state",
}


def advice_page(advice: Advice, replays: Sequence[Replay]) -> str:
    """Return the page: the table of delays, the lines of SQL, and a chart per figure."""
    figures, (heading, *lines) = advice_result(advice)
    drawn = figures.select(list(_CHARTS)).rename_columns(list(_CHARTS.values()))
    table = advice_table(advice)
    filled = [column.fill_null("") for column in table.columns]
    lines += map(replay_text, replays)
    contents = {
        "/*style*/": (files("sqlwin.display") / "page" / "style.css").read_text("utf-8"),
        "<!--heading-->": html.escape(heading),
        "<!--table-->": html_table(
            table.schema.names, [pa.RecordBatch.from_arrays(filled, table.schema.names)], count=""
        ),
        "<!--lines-->": html.escape("\n".join(lines)),
        "<!--charts-->": svg_charts(drawn.column_names, drawn.to_batches()),
    }
    return fill_template((files("sqlwin.advise") / "page.html").read_text("utf-8"), contents)
