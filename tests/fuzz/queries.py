"""Random window queries over random rows, with their results by definition.

The results come from the rules of windows and SQL, row by row in plain Python: no slices, no Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.windows.tumble import Tumble
from tests.fuzz.as_of import draw_as_of
from tests.fuzz.choices import Choices
from tests.fuzz.expressions import Aggregate, draw_aggregate, draw_condition
from tests.fuzz.fills import draw_fill
from tests.fuzz.joins import draw_join, draw_pairs
from tests.fuzz.values import (
    MS_US,
    ZONES,
    Row,
    Tables,
    draw_base,
    draw_rows,
    rank_order,
    same,
)
from tests.fuzz.windows import DrawnWindow, draw_window, group, in_windows, interval

_BOUNDS = ["window_start", "window_end"]
_SHAPES = (
    "group", "group", "as_of", "fill", "fill", "sets", "rank", "top", "first", "cascade", "rows", "join",
    "join", "pairs", "pairs",
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Tables of random queries.

    Attributes:
        tables: Rows of `t` and `u`, times in microseconds.
        window: Window of the first query. The rows lie around its bounds.
        zone: Time zone of the session.
        is_extreme: Whether the times are next to the limits of TIMESTAMP.
    """

    tables: Tables
    window: DrawnWindow
    zone: str
    is_extreme: bool


@dataclass(frozen=True)
class RandomQuery:
    """A query and the rows that it must give.

    Attributes:
        sql: Query over the tables `t` and `u`.
        expected: Rows by column name, times in microseconds.
        is_stream: Whether a stream can run the query.
        time: Time column of its windows.
        has_operator: Whether windows drop late rows. A join or a list of rows has others.
        is_storable: Whether a materialized table can store it: one aggregation of windows.
    """

    sql: str
    expected: list[Row] = field(repr=False)
    is_stream: bool = True
    time: str = "ts"
    has_operator: bool = True
    is_storable: bool = False


def draw_input(draw: Choices) -> Input:
    """Draw tables and a zone."""
    window = draw_window(draw)
    zone = draw.one_of(ZONES)
    base_us = draw_base(draw, zone, window.is_calendar)
    tables = {
        name: draw_rows(draw, base_us, window.length_us, first_id)
        for name, first_id in (("t", 0), ("u", 100))
    }
    return Input(tables, window, zone, abs(base_us) > 2**62)


def draw_query(draw: Choices, given: Input, window: DrawnWindow | None = None) -> RandomQuery:
    """Draw a query over tables.

    Args:
        draw: Choices.
        given: Tables.
        window: Window. None means the window of the tables.
    """
    return _Query(draw, given, window or given.window).draw()


def draw_storable_query(draw: Choices, given: Input) -> RandomQuery:
    """Draw a query that a materialized table can store: an aggregation of windows of fixed size."""
    window = given.window
    while window.kind == "SESSION":
        window = draw_window(draw)
    return _Query(draw, given, window).draw("group")


class _Query:
    """One draw of a query."""

    def __init__(self, draw: Choices, given: Input, window: DrawnWindow) -> None:
        self._draw = draw
        self._given = given
        self._window = window
        self._time = "ts" if given.is_extreme else draw.one_of(["ts", "ts", "tz"])

    def draw(self, shape: str | None = None) -> RandomQuery:
        """Draw a query of a shape. None means any shape."""
        draw, window = self._draw, self._window
        shape = shape or draw.one_of(_SHAPES)
        if shape == "join":
            copies = {name: self._copies(name, []) for name in ("t", "u")}
            sql, expected = draw_join(draw, window, self._time, copies)
            return self._query(sql, expected, is_stream=window.kind != "SESSION")
        if shape == "as_of":
            tables, copies_of_u = self._given.tables, self._copies("u", [])
            sql, expected = draw_as_of(draw, tables, window, self._time, copies_of_u)
            return self._query(sql, expected, is_stream=False)
        partition: list[str] = []
        if window.kind == "SESSION":
            partition = draw.sample(["k", "g"], draw.pick(3))
            if shape in ("rows", "cascade", "pairs", "top", "first"):
                shape = "group"  # Spark computes the rows
        is_paired = shape == "pairs"
        if is_paired:
            copies = {name: self._copies(name, []) for name in ("t", "u")}
            source, rows = draw_pairs(draw, window, self._time, copies)
            shape = draw.one_of(["group", "sets", "top", "rank"])
        else:
            source, rows = window.call("t", self._time, partition), self._copies("t", partition)
        if shape == "rows" or (shape == "cascade" and self._time == "tz"):
            return self._rows(source, rows)
        if draw.chance(40) and window.kind != "SESSION":
            condition, test = draw_condition(draw)
            source += f" WHERE {condition}"
            rows = [row for row in rows if test(row) is True]
        if shape == "top":
            return self._top(source, rows)
        if shape == "first":
            return self._first(source, rows)
        others = [name for name in ("k", "g", "d", "p", "v") if name not in partition]
        keys = [*partition, *draw.sample(others, draw.one_of([0, 1, 1, 2]))]
        calls = [draw_aggregate(draw) for _ in range(draw.one_of([1, 2, 3]))]
        if shape == "fill" and window.kind != "SESSION":
            return self._fill(source, rows, keys, calls)
        if shape == "sets" and keys:
            return self._sets(source, rows, keys, calls)
        select, grouped = self._grouped(source, rows, keys, calls)
        if shape == "rank":
            return self._rank(select, grouped, keys, len(calls))
        if shape == "cascade":
            return self._cascade(select, grouped)
        query = self._query(select, grouped)
        return replace(query, is_storable=not is_paired and window.kind != "SESSION")

    def _query(self, sql: str, expected: list[Row], *, is_stream: bool = True) -> RandomQuery:
        return RandomQuery(sql, expected, is_stream, self._time)

    def _copies(self, table: str, partition: list[str]) -> list[Row]:
        """Return the rows of a table in their windows."""
        given = self._given
        rows = given.tables[table]
        return in_windows(rows, self._window.window, self._time, given.zone, partition)

    def _rows(self, source: str, rows: list[Row]) -> RandomQuery:
        """Rows with their windows, without groups."""
        condition, test = draw_condition(self._draw)
        names = ["id", "k", "v", "d", *_BOUNDS]
        expected = [{name: row[name] for name in names} for row in rows if test(row) is True]
        sql = f"SELECT {', '.join(names)} FROM {source} WHERE {condition}"
        return RandomQuery(sql, expected, True, self._time, has_operator=False)

    def _grouped(
        self, source: str, rows: list[Row], keys: list[str], calls: list[Aggregate]
    ) -> tuple[str, list[Row]]:
        """Groups by window and keys, some with HAVING."""
        grouped = group(rows, [*keys, *_BOUNDS], calls)
        items = [*keys, *_BOUNDS, *(f"{sql} AS a{i}" for i, (sql, _) in enumerate(calls))]
        having = ""
        if self._draw.chance(25):
            least = self._draw.one_of([1, 2])
            having = f" HAVING COUNT(*) > {least}"
            counted = group(rows, [*keys, *_BOUNDS], [("", len)])
            grouped = [row for row, n in zip(grouped, counted, strict=True) if n["a0"] > least]
        by = ", ".join([*keys, *_BOUNDS])
        return f"SELECT {', '.join(items)} FROM {source} GROUP BY {by}{having}", grouped

    def _fill(
        self, source: str, rows: list[Row], keys: list[str], calls: list[Aggregate]
    ) -> RandomQuery:
        """Groups by window and keys, with FILL."""
        calls = [*calls, ("COUNT(*)", len)]
        select, grouped = self._grouped(source, rows, keys, calls)
        zone = self._given.zone if self._time == "tz" else None
        names = [f"a{i}" for i in range(len(calls))]
        fill = draw_fill(self._draw, self._window, zone, grouped, keys, names)
        if fill is None:
            return self._query(select, grouped)
        return replace(
            self._query(select + fill.clause, fill.rows, is_stream=fill.is_stream),
            has_operator=False,
        )

    def _sets(
        self, source: str, rows: list[Row], keys: list[str], calls: list[Aggregate]
    ) -> RandomQuery:
        """GROUPING SETS, ROLLUP or CUBE next to the window."""
        every = [keys[:n] for n in range(len(keys) + 1)]
        kind = self._draw.one_of(["ROLLUP", "CUBE", "SETS"])
        if kind == "CUBE":
            sets = [[k for i, k in enumerate(keys) if n >> i & 1] for n in range(2 ** len(keys))]
        else:
            sets = every if kind == "ROLLUP" else self._draw.sample(every, len(every))
        clause = f"{kind} ({', '.join(keys)})"
        if kind == "SETS":
            clause = "GROUPING SETS (" + ", ".join(f"({', '.join(s)})" for s in sets) + ")"
        expected = []
        for chosen in sets:
            for row in group(rows, [*chosen, *_BOUNDS], calls):
                full = dict.fromkeys(keys) | row
                full["is_total"] = int(keys[0] not in chosen)
                expected.append(full)
        items = [*keys, *_BOUNDS, f"GROUPING({keys[0]}) AS is_total"]
        items += [f"{sql} AS a{i}" for i, (sql, _) in enumerate(calls)]
        sql = f"SELECT {', '.join(items)} FROM {source} GROUP BY window_start, window_end, {clause}"
        return self._query(sql, expected)

    def _rank(self, select: str, grouped: list[Row], keys: list[str], n_calls: int) -> RandomQuery:
        """ROW_NUMBER with a total order, or RANK with ties, over the groups of a window."""
        draw = self._draw
        function = draw.one_of(["ROW_NUMBER", "RANK", "DENSE_RANK"])
        by = [(f"a{draw.pick(n_calls)}", draw.chance(50))]
        if function == "ROW_NUMBER":
            by += [(key, draw.chance(50)) for key in keys]
        own = [*_BOUNDS, *(keys[:1] if draw.chance(30) else [])]
        return self._ranked(f"({select}) AS g", grouped, function, own, by)

    def _top(self, source: str, rows: list[Row]) -> RandomQuery:
        """The first rows of each window by an order with and without ties."""
        draw = self._draw
        function = draw.one_of(["ROW_NUMBER", "RANK", "DENSE_RANK"])
        by = [(draw.one_of(["v", "g", "k", "d", "p", "ts"]), draw.chance(50))]
        if function == "ROW_NUMBER":
            by.append(("id", draw.chance(50)))
            if "JOIN" in source:
                # pairs of the same row of the left side
                by += [(name, draw.chance(50)) for name in ("v", "d", "p")]
        own = [*_BOUNDS, *draw.sample(["k", "g"], draw.pick(3))]
        names = ["id", "k", "g", "v", "d", *_BOUNDS]
        inner = f"(SELECT {', '.join(dict.fromkeys([*names, 'p', 'ts']))} FROM {source}) AS g"
        ranked = self._ranked(inner, rows, function, own, by)
        names.append("rn")
        expected = [{name: row[name] for name in names} for row in ranked.expected]
        sql = ranked.sql.replace("SELECT *", f"SELECT {', '.join(names)}", 1)
        return self._query(sql, expected)

    def _ranked(
        self, source: str, rows: list[Row], function: str, own: list[str],
        by: list[tuple[str, bool]],
    ) -> RandomQuery:  # fmt: skip
        most = self._draw.one_of([1, 2, 3])
        ordering = ", ".join(name + " DESC" * descending for name, descending in by)
        sql = (
            f"SELECT * FROM (SELECT *, {function}() OVER (PARTITION BY {', '.join(own)} ORDER BY "
            f"{ordering}) AS rn FROM {source}) WHERE rn <= {most}"
        )
        expected = []
        for members in _partitions(rows, own):
            rank = dense = 0
            before: Any = ()
            for number, row in enumerate(rank_order(members, by), 1):
                values = [same(row[name]) for name, _ in by]
                if values != before:
                    rank, dense, before = number, dense + 1, values
                place = {"ROW_NUMBER": number, "RANK": rank, "DENSE_RANK": dense}[function]
                if place <= most:
                    expected.append({**row, "rn": place})
        return self._query(sql, expected)

    def _first(self, source: str, rows: list[Row]) -> RandomQuery:
        """Deduplicate by time. Rows of equal times are equal in the columns of the result."""
        draw = self._draw
        is_last = draw.chance(50)
        own = [*_BOUNDS, *draw.sample(["k", "g"], draw.pick(3))]
        names = [*own, "ts"]
        sql = (
            f"SELECT {', '.join(names)} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
            f"{', '.join(own)} ORDER BY {self._time}{' DESC' * is_last}) AS rn FROM {source}) "
            "WHERE rn = 1"
        )
        expected = []
        for members in _partitions(rows, own):
            row = rank_order(members, [(self._time, is_last)])[0]
            expected.append({name: row[name] for name in names})
        return self._query(sql, expected)

    def _cascade(self, select: str, grouped: list[Row]) -> RandomQuery:
        """A window over the windows below: their times are their ends minus 1 ms."""
        size = self._window.length_us * self._draw.one_of([1, 2, 5])
        head, _, tail = select.partition(" FROM ")
        head = head.replace("window_start, window_end", "window_time AS wt")
        by, _, having = tail.rpartition("window_start, window_end")
        tail = f"{by}window_start, window_end, window_time{having}"
        sql = (
            "SELECT window_start, window_end, COUNT(*) AS a0, MIN(wt) AS a1 FROM "
            f"TABLE(TUMBLE(({head} FROM {tail}), DESCRIPTOR(wt), {interval(size)})) "
            "GROUP BY window_start, window_end"
        )
        below = [{"ts": row["window_end"] - MS_US} for row in grouped]
        copies = in_windows(below, Tumble(size), "ts", "UTC", [])
        calls: list[Aggregate] = [("", len), ("", lambda rows: min(row["ts"] for row in rows))]
        return self._query(sql, group(copies, _BOUNDS, calls))


def _partitions(rows: list[Row], names: list[str]) -> list[list[Row]]:
    partitions = defaultdict(list)
    for row in rows:
        partitions[tuple(same(row[name]) for name in names)].append(row)
    return list(partitions.values())
