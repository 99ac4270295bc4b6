"""Which columns of a stream are the keys of its windows."""

from __future__ import annotations

import pytest

from sqlwin.execution.streams.results import keys_of
from sqlwin.parser.parser import parse_query

WINDOW = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) AS w"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (
            f"SELECT k, window_end, SUM(v) AS n {WINDOW} GROUP BY window_start, window_end, k",
            ("k",),
        ),
        (
            f"SELECT w.k AS key, SUM(v) {WINDOW} GROUP BY w.k, w.window_start, w.window_end",
            ("key",),
        ),
        (
            f"SELECT upper(k) AS u, 1 AS one, COUNT(*) {WINDOW} GROUP BY upper(k), window_end",
            ("u",),
        ),
        (f"SELECT k, a, COUNT(*) {WINDOW} GROUP BY 1, a, window_end", ("k", "a")),
        (f"SELECT k % 2 AS half, COUNT(*) {WINDOW} GROUP BY k % 2, window_end", ("half",)),
        (f"SELECT window_end, COUNT(*) {WINDOW} GROUP BY window_start, window_end", ()),
        (f"SELECT k, a, COUNT(*) {WINDOW} GROUP BY CUBE (k, a), window_end", ("k", "a")),
        (f"SELECT * {WINDOW}", None),
        ("SELECT k FROM t UNION ALL SELECT k FROM t GROUP BY k", None),
    ],
)
def test_the_keys_are_the_columns_that_are_grouped_by(
    query: str, keys: tuple[str, ...] | None
) -> None:
    tree = parse_query(query)
    assert keys_of(tree) == keys  # type: ignore[arg-type]  # a query
