"""Which columns of a query are window columns."""

from __future__ import annotations

import pytest

from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    AttachedWindow,
    Filter,
    TableScan,
    WindowColumns,
    WindowTableFunction,
)
from planner.nodes.window_columns import (
    identifies_window,
    notes_on_windows,
    query_properties,
    rename_windows,
    window_properties,
)
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.parser.parser import parse_query

COLUMNS = ("k", "window_start", "window_end", "window_time")


def windowed_by(window: Window, suffix: str = "") -> WindowTableFunction:
    schema = tuple(Column(name + suffix, "timestamp_ntz", True) for name in COLUMNS)
    scan = TableScan(schema[:1], "t", parse_query("SELECT * FROM t"))
    names = WindowColumns(*(c.name for c in schema[1:]))
    return WindowTableFunction(schema, scan, window, "ts", "timestamp_ntz", names)


def window_table(size_us: int) -> WindowTableFunction:
    return windowed_by(Tumble(size_us))


RELATIONS = {"a": window_table(60), "b": window_table(60), "wide": window_table(120)}


def attached_windows(sql: str) -> tuple[str | None, str | None, str | None] | None:
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
    assert attached_windows(sql) == columns


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
    assert attached_windows(sql) is None


@pytest.mark.parametrize(("second", "role"), [("window_end", "end"), ("k", None)])
def test_window_columns_of_a_union_are_window_columns_of_all_sides(
    second: str, role: str | None
) -> None:
    left, right = windowed_by(Tumble(60)), windowed_by(Tumble(60), "0")
    of_left, of_right = window_properties(left), window_properties(right)
    assert of_left is not None and of_right is not None
    schema, ends = left.schema + right.schema, (("window_end", "window_end0"),)
    joined = WindowJoin(schema, left, right, "Inner", of_left, of_right, ends, (), None)
    sql = f"SELECT window_end, window_end0 FROM j UNION ALL SELECT window_end, {second} FROM a"
    attached = query_properties(parse_query(sql), {"j": joined, **RELATIONS})
    assert attached is not None
    assert attached.role_of("window_end") == "end"
    assert attached.role_of("window_end0") == role


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
def test_the_start_identifies_windows_except_cumulate(window: Window, is_identified: bool) -> None:
    attached = AttachedWindow(window, *COLUMNS[1:])
    assert identifies_window(attached, ["k", "WINDOW_START"]) == is_identified
    assert identifies_window(attached, ["window_end"])


# -- joins ----------------------------------------------------------------------------------------


def join_windows(join_type: str) -> AttachedWindow | None:
    """Return the windows of a join of `a` and `b`, whose columns end in 0."""
    left, right = window_table(60), windowed_by(Tumble(60), "0")
    windows = [window_properties(side) for side in (left, right)]
    assert windows[0] is not None and windows[1] is not None
    return window_properties(
        WindowJoin(
            (*left.schema, *right.schema),
            left,
            right,
            join_type,
            windows[0],
            windows[1],
            (("window_end", "window_end0"),),
            (),
            None,
        )
    )


@pytest.mark.parametrize(
    ("join_type", "of_left", "of_right"),
    [
        ("Inner", True, True),
        ("LeftOuter", True, False),
        ("RightOuter", False, True),
        ("LeftSemi", True, False),
        ("LeftAnti", True, False),
    ],
)
def test_a_join_has_the_windows_of_the_sides_that_have_a_row_in_each_of_its_rows(
    join_type: str, of_left: bool, of_right: bool
) -> None:
    result = join_windows(join_type)
    assert result is not None
    for names, is_known in ((COLUMNS[1:], of_left), ([f"{n}0" for n in COLUMNS[1:]], of_right)):
        roles = ["start", "end", "time"] if is_known else [None] * 3
        assert [result.role_of(name) for name in names] == roles
        assert identifies_window(result, names[1:2]) == is_known


def test_a_full_join_has_no_windows() -> None:
    assert join_windows("FullOuter") is None


def test_the_windows_of_one_side_of_a_join_are_enough_wherever_they_go() -> None:
    result = join_windows("Inner")
    assert result is not None
    right = rename_windows(result, [("window_start0", "s"), ("window_end0", "e"), ("k", "k")])
    assert right is not None
    assert (right.start, right.end, right.time, right.others) == ("s", "e", None, ())
    assert identifies_window(right, ["e"])


# -- notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "lengths"),
    [
        (Hop(10 * 60_000_000, 5 * 60_000_000), "the slide (10 min) of HOP is longer than its size (5 min)"),
        (CalendarHop(3, 1), "the slide (3 months) of HOP is longer than its size (1 month)"),
    ],
)  # fmt: skip
def test_gaps_between_windows_are_noted_once(window: Window, lengths: str) -> None:
    node = windowed_by(window)
    (note,) = notes_on_windows(Filter(node.schema, node, ()))
    assert note.startswith(lengths)


@pytest.mark.parametrize("window", [Hop(5, 5), Hop(5, 12), CalendarHop(1, 3), Tumble(5)])
def test_windows_without_gaps_need_no_note(window: Window) -> None:
    assert notes_on_windows(windowed_by(window)) == ()
