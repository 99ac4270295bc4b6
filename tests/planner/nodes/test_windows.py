"""Which columns of a query are those of a window."""

from __future__ import annotations

import pytest

from planner.nodes.logical import AttachedWindow, TableScan, WindowColumns, WindowTableFunction
from planner.nodes.windows import identifies_window, query_properties
from runtime.spec.table import Column
from runtime.spec.windows import CalendarCumulate, CalendarTumble, Cumulate, Hop, Tumble, Window
from sqlwin.parser.parser import parse_query

COLUMNS = ("k", "window_start", "window_end", "window_time")


def windowed(size_us: int) -> WindowTableFunction:
    schema = tuple(Column(name, "timestamp_ntz", True) for name in COLUMNS)
    scan = TableScan(schema[:1], "t", parse_query("SELECT * FROM t"))
    names = WindowColumns(*COLUMNS[1:])
    return WindowTableFunction(schema, scan, Tumble(size_us), "ts", "timestamp_ntz", names)


RELATIONS = {"a": windowed(60), "b": windowed(60), "wide": windowed(120)}


def found(sql: str) -> tuple[str | None, str | None, str | None] | None:
    attached = query_properties(parse_query(sql), RELATIONS)
    return None if attached is None else (attached.start, attached.end, attached.time)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM a UNION ALL SELECT * FROM b", COLUMNS[1:]),
        ("SELECT k, window_end AS e FROM a UNION ALL SELECT k, window_end FROM b", (None, "e", None)),
        ("(SELECT * FROM a) UNION ALL SELECT * FROM (SELECT * FROM b)", COLUMNS[1:]),
        (
            "SELECT window_end AS e, window_start AS s FROM a "
            "UNION ALL SELECT window_end, window_end FROM b",
            (None, "e", None),
        ),
        (
            "SELECT window_end AS e FROM a UNION ALL SELECT window_end FROM b "
            "UNION ALL SELECT window_end FROM a",
            (None, "e", None),
        ),
    ],
)  # fmt: skip
def test_sides_of_a_union_with_the_same_windows_keep_them(
    sql: str, columns: tuple[str | None, ...]
) -> None:
    assert found(sql) == columns


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window_end FROM a UNION ALL SELECT window_end FROM wide",
        "SELECT window_end FROM a UNION ALL SELECT window_start FROM b",
        "SELECT window_end FROM a UNION ALL SELECT k FROM b",
        "SELECT * FROM a UNION ALL SELECT * FROM b AS b(k, window_end, window_start, window_time)",
        "SELECT a.*, 1 FROM a UNION ALL SELECT b.*, 2 FROM b",
        "SELECT window_end FROM a UNION SELECT window_end FROM b",
    ],
)
def test_other_unions_have_none(sql: str) -> None:
    assert found(sql) is None


@pytest.mark.parametrize(
    ("window", "is_identified"),
    [
        (Tumble(60), True),
        (Hop(20, 60), True),
        (CalendarTumble(1), True),
        (Cumulate(20, 60), False),
        (CalendarCumulate(12, 1), False),
    ],
)
def test_the_start_tells_all_windows_apart_but_those_that_grow(
    window: Window, is_identified: bool
) -> None:
    attached = AttachedWindow(window, *COLUMNS[1:])
    assert identifies_window(attached, ["k", "WINDOW_START"]) == is_identified
    assert identifies_window(attached, ["window_end"])
