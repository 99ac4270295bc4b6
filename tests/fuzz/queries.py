"""Random window queries over random rows, with their results by definition.

The results come from the rules of windows and SQL, row by row in plain Python: no slices, no Arrow.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from runtime.spec.windows import (
    DAY_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    Tumble,
    Window,
)
from tests.reference import windows_of

SECOND_US = 1_000_000
MINUTE_US, HOUR_US = 60 * SECOND_US, 3_600 * SECOND_US
COLUMNS = (
    ("ts", "TIMESTAMP(6)"),
    ("tz", "TIMESTAMP_LTZ(6)"),
    ("k", "STRING"),
    ("g", "INT"),
    ("v", "BIGINT"),
    ("d", "DOUBLE"),
    ("p", "DECIMAL(10, 2)"),
)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("v", pa.int64()),
        ("d", pa.float64()),
        ("p", pa.decimal128(10, 2)),
    ]
)
ZONES = (
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Europe/Berlin",
    "Africa/Monrovia",
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
YEARS = (1970, 1970, 2024, 2024, 1900, 1582, 10, 9_900)
MS_US = 1_000

Row = dict[str, Any]
Condition = tuple[str, Callable[[Row], bool | None]]
Aggregate = tuple[str, Callable[[list[Row]], Any]]


@dataclass(frozen=True)
class RandomQuery:
    """A query, its table, and the rows that it must give.

    Attributes:
        sql: Query over the table `t`.
        rows: Rows of the table, times in microseconds.
        zone: Time zone of the session.
        expected: Rows by column name, times in microseconds.
        is_stream: Whether a stream can run the query.
    """

    sql: str
    rows: list[Row] = field(repr=False)
    zone: str
    expected: list[Row] = field(repr=False)
    is_stream: bool

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.table(
            [_array([row[f.name] for row in self.rows], f.type) for f in SCHEMA], schema=SCHEMA
        )


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


# -- values: order and equality as in Spark ---------------------------------------------------


def same(value: Any) -> Any:
    """Return a value that is equal for values that are one key: NaN is one value, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order(value: Any) -> Any:
    """Return a sort key of a value that is not NULL: NaN is the greatest number."""
    return (
        (math.isnan(value), 0.0 if math.isnan(value) else value)
        if isinstance(value, float)
        else value
    )


def _rank_order(rows: list[Row], by: Sequence[tuple[str, bool]]) -> list[Row]:
    """Sort rows by (column, descending) pairs."""
    for name, descending in reversed(by):
        rows = sorted(
            rows,
            key=lambda row, name=name: (
                row[name] is not None,
                0 if row[name] is None else order(row[name]),
            ),
            reverse=descending,
        )
    return rows


# -- conditions and aggregates -------------------------------------------------------------------


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Draw:
    """Draws a query, with a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.one_of = self.random.choice

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # -- expressions ---------------------------------------------------------------------------

    def comparison(self) -> Condition:
        name, literal, value = self.one_of(
            [
                ("v", "3", 3),
                ("v", "-1", -1),
                ("g", "1", 1),
                ("d", "0e0", 0.0),
                ("d", "1.5e0", 1.5),
                ("d", "CAST('NaN' AS DOUBLE)", math.nan),
                ("k", "'b'", "b"),
                ("k", "''", ""),
                ("p", "1.10", Decimal("1.10")),
            ]
        )
        sign = self.one_of(list(_COMPARE))
        compare, limit = _COMPARE[sign], order(value)
        return (
            f"{name} {sign} {literal}",
            lambda row: None if row[name] is None else compare(order(row[name]), limit),
        )

    def condition(self, depth: int = 1) -> Condition:
        kind = self.random.randrange(6)
        if kind == 0:
            name = self.one_of(["k", "g", "v", "d", "p"])
            return f"{name} IS NULL", lambda row: row[name] is None
        if kind == 1:
            name = self.one_of(["k", "g", "v", "d", "p"])
            return f"{name} IS NOT NULL", lambda row: row[name] is not None
        if depth and kind == 2:
            sql, test = self.condition(depth - 1)
            return f"NOT ({sql})", lambda row: _not(test(row))
        if depth and kind in (3, 4):
            (a, first), (b, second) = self.condition(depth - 1), self.condition(depth - 1)
            if kind == 3:
                return f"({a} AND {b})", lambda row: _and(first(row), second(row))
            return f"({a} OR {b})", lambda row: _not(_and(_not(first(row)), _not(second(row))))
        return self.comparison()

    def aggregate(self) -> Aggregate:
        sql, compute = self._call()
        if self.chance(0.25):
            condition, test = self.condition()
            return f"{sql} FILTER (WHERE {condition})", lambda rows: compute(
                [row for row in rows if test(row) is True]
            )
        return sql, compute

    def _call(self) -> Aggregate:
        name = self.one_of(["k", "g", "v", "d", "p", "ts"])
        number = self.one_of(["g", "v", "d", "p"])

        def values(rows: list[Row], of: str) -> list[Any]:
            return [row[of] for row in rows if row[of] is not None]

        def distinct(rows: list[Row], of: str) -> list[Any]:
            return list({same(value): value for value in values(rows, of)}.values())

        calls: list[Aggregate] = [
            ("COUNT(*)", len),
            (f"COUNT({name})", lambda rows: len(values(rows, name))),
            (f"SUM({number})", lambda rows: _sum(values(rows, number))),
            (f"AVG({number})", lambda rows: _average(values(rows, number))),
            (f"MIN({name})", lambda rows: min(values(rows, name), key=order, default=None)),
            (f"MAX({name})", lambda rows: max(values(rows, name), key=order, default=None)),
            (f"COUNT(DISTINCT {name})", lambda rows: len(distinct(rows, name))),
            ("SUM(DISTINCT v)", lambda rows: _sum(distinct(rows, "v"))),
            ("COUNT(DISTINCT k, g)", lambda rows: len(
                {(row["k"], row["g"]) for row in rows if None not in (row["k"], row["g"])})),
        ]  # fmt: skip
        sql, test = self.condition(0)
        calls.append((f"COUNT_IF({sql})", lambda rows: sum(test(row) is True for row in rows)))
        calls.append(
            (f"BOOL_OR({sql})", lambda rows: _any([test(row) for row in rows])),
        )
        return self.one_of(calls)

    # -- windows -------------------------------------------------------------------------------

    def window(self) -> tuple[str, Window | int, int]:
        """Return a call's kind and lengths, its windows (or the gap of SESSION), and its length."""
        kind = self.one_of(["TUMBLE", "HOP", "HOP", "CUMULATE", "SESSION", "CALENDAR"])
        unit = self.one_of([MS_US, SECOND_US, MINUTE_US, HOUR_US, DAY_US])
        offset = (
            self.random.randrange(-3 * unit, 3 * unit) // MS_US * MS_US if self.chance(0.4) else 0
        )
        last = [offset] if offset else []
        if kind == "TUMBLE":
            size = unit * self.one_of([1, 7, 10, 90])
            return self._lengths("TUMBLE", size, *last), Tumble(size, offset % size), size
        if kind == "HOP":
            slide = unit * self.one_of([1, 2, 3, 5, 7, 20])
            size = unit * self.one_of([1, 2, 5, 10, 12, 21])
            return self._lengths("HOP", slide, size, *last), Hop(slide, size, offset % slide), size
        if kind == "CUMULATE":
            step = unit * self.one_of([1, 2, 5])
            size = step * self.one_of([1, 2, 3, 7])
            return (
                self._lengths("CUMULATE", step, size, *last),
                Cumulate(step, size, offset % size),
                size,
            )
        if kind == "SESSION":
            gap = unit * self.one_of([1, 2, 10])
            return self._lengths("SESSION", gap), gap, gap
        months = self.one_of([1, 2, 3, 5, 12])
        length = months * 31 * DAY_US
        match self.random.randrange(4):
            case 0:
                return f"TUMBLE|INTERVAL '{months}' MONTH", CalendarTumble(months), length
            case 1:
                slide = self.one_of([1, 2, 4])
                sql = f"HOP|INTERVAL '{slide}' MONTH, INTERVAL '{months}' MONTH"
                return sql, CalendarHop(slide, months), length
            case 2:
                times = self.one_of([1, 2, 3])
                sql = f"CUMULATE|INTERVAL '{months}' MONTH, INTERVAL '{months * times}' MONTH"
                return sql, CalendarCumulate(months * times, months), length * times
            case _:
                days = self.one_of([1, 4, 7])
                sql = f"CUMULATE|INTERVAL '{days}' DAY, INTERVAL '1' MONTH"
                return sql, CalendarCumulate(1, step_us=days * DAY_US), 31 * DAY_US

    def _lengths(self, kind: str, *lengths: int) -> str:
        return f"{kind}|" + ", ".join(map(interval, lengths))

    # -- rows ----------------------------------------------------------------------------------

    def rows(self, length_us: int) -> list[Row]:
        """Draw rows around the bounds of windows with a length."""
        base = dt.datetime(self.one_of(YEARS), self.random.randrange(1, 13), 1, tzinfo=dt.UTC)
        base_us = (base - EPOCH) // dt.timedelta(microseconds=1)
        base_us -= base_us % length_us if self.chance(0.5) else 0
        exact = self.one_of([1, 1, MS_US])
        rows = []
        for _ in range(self.one_of([0, 1, 2, 5, 12, 25, 40])):
            time = base_us + self.random.randrange(-3 * length_us, 3 * length_us)
            if self.chance(0.3):  # a bound of a window, or next to one
                time = base_us + self.random.randrange(-3, 4) * length_us + self.one_of([-1, 0, 1])
            if rows and self.chance(0.15):
                time = rows[-1]["ts"] or time
            time -= time % exact
            is_null = self.chance(0.05)
            rows.append(
                {
                    "ts": None if is_null else time,
                    "tz": None if is_null else time,
                    "k": self.one_of(["a", "b", "B", "é", "", None]),
                    "g": self.one_of([0, 1, 2, -(2**31), None]),
                    "v": self.one_of([1, 2, 3, -4, 0, 2**40, -(2**40), None]),
                    "d": self.one_of([0.0, -0.0, 1.5, -2.25, math.nan, 1e10, None]),
                    "p": self.one_of(
                        [Decimal("1.10"), Decimal("-0.01"), Decimal("99999999.99"), None]
                    ),
                }
            )
        return rows

    # -- queries -------------------------------------------------------------------------------

    def query(self) -> RandomQuery:
        call, window, length = self.window()
        kind, _, lengths = call.partition("|")
        rows = self.rows(length)
        zone = self.one_of(ZONES)
        time = self.one_of(["ts", "ts", "tz"])
        partition = (
            self.random.sample(["k", "g"], self.random.randrange(3)) if kind == "SESSION" else []
        )
        by = (
            f" PARTITION BY {', '.join(partition)}"
            if len(partition) == 1
            else (f" PARTITION BY ({', '.join(partition)})" if partition else "")
        )
        source = f"TABLE({kind}(TABLE t{by}, DESCRIPTOR({time}), {lengths}))"
        copies = in_windows(rows, window, time, zone, partition)
        shape = self.one_of(["group"] * 5 + ["sets", "rank", "cascade", "rows", "top"])
        if kind == "SESSION" and shape in ("rows", "cascade"):
            shape = "group"  # Spark computes the rows
        if shape == "rows" or (shape == "cascade" and time == "tz"):
            return self._plain(source, rows, zone, copies)
        where = ""
        if self.chance(0.4):
            condition, test = self.condition()
            if kind != "SESSION":
                where = f" WHERE {condition}"
                copies = [row for row in copies if test(row) is True]
        others = [name for name in ("k", "g", "d", "p", "v") if name not in partition]
        keys = [*partition, *self.random.sample(others, self.one_of([0, 1, 1, 2]))]
        calls = [self.aggregate() for _ in range(self.one_of([1, 2, 3]))]
        if shape == "sets" and keys:
            return self._sets(source + where, rows, zone, copies, keys, calls)
        grouped = group(copies, [*keys, "window_start", "window_end"], calls)
        items = [*keys, "window_start", "window_end"]
        items += [f"{sql} AS a{i}" for i, (sql, _) in enumerate(calls)]
        having = ""
        if self.chance(0.25):
            least = self.one_of([1, 2])
            having = f" HAVING COUNT(*) > {least}"
            counted = group(copies, [*keys, "window_start", "window_end"], [("", len)])
            grouped = [row for row, n in zip(grouped, counted, strict=True) if n["a0"] > least]
        select = f"SELECT {', '.join(items)} FROM {source}{where} GROUP BY "
        select += ", ".join([*keys, "window_start", "window_end"]) + having
        if shape == "rank":
            return self._rank(select, rows, zone, grouped, keys, len(calls))
        if shape == "cascade":
            return self._cascade(select, rows, zone, grouped, length)
        return RandomQuery(select, rows, zone, grouped, True)

    def _plain(self, source: str, rows: list[Row], zone: str, copies: list[Row]) -> RandomQuery:
        """Rows with their windows, without groups."""
        condition, test = self.condition()
        names = ["k", "v", "d", "window_start", "window_end"]
        expected = [{name: row[name] for name in names} for row in copies if test(row) is True]
        sql = f"SELECT {', '.join(names)} FROM {source} WHERE {condition}"
        return RandomQuery(sql, rows, zone, expected, False)

    def _sets(
        self, source: str, rows: list[Row], zone: str, copies: list[Row], keys: list[str],
        calls: list[Aggregate],
    ) -> RandomQuery:  # fmt: skip
        """GROUPING SETS, ROLLUP or CUBE next to the window."""
        every = [keys[:n] for n in range(len(keys) + 1)]
        kind = self.one_of(["ROLLUP", "CUBE", "SETS"])
        if kind == "CUBE":
            sets = [[k for i, k in enumerate(keys) if n >> i & 1] for n in range(2 ** len(keys))]
        else:
            sets = every if kind == "ROLLUP" else self.random.sample(every, len(every))
        listed = ", ".join(keys)
        if kind == "SETS":
            clause = "GROUPING SETS (" + ", ".join(f"({', '.join(s)})" for s in sets) + ")"
        else:
            clause = f"{kind} ({listed})"
        expected = []
        for chosen in sets:
            for row in group(copies, [*chosen, "window_start", "window_end"], calls):
                full = dict.fromkeys(keys) | row
                full["is_total"] = int(keys[0] not in chosen)
                expected.append(full)
        items = [*keys, "window_start", "window_end", f"GROUPING({keys[0]}) AS is_total"]
        items += [f"{sql} AS a{i}" for i, (sql, _) in enumerate(calls)]
        sql = f"SELECT {', '.join(items)} FROM {source} GROUP BY window_start, window_end, {clause}"
        return RandomQuery(sql, rows, zone, expected, True)

    def _rank(
        self,
        select: str,
        rows: list[Row],
        zone: str,
        grouped: list[Row],
        keys: list[str],
        n_calls: int,
    ) -> RandomQuery:
        """ROW_NUMBER with a total order, or RANK with ties, over the groups of a window."""
        function = self.one_of(["ROW_NUMBER", "RANK", "DENSE_RANK"])
        by = [(f"a{self.random.randrange(n_calls)}", self.chance(0.5))]
        if function == "ROW_NUMBER":
            by += [(key, self.chance(0.5)) for key in keys]
        most = self.one_of([1, 2, 3])
        own = ["window_start", "window_end", *(keys[:1] if self.chance(0.3) else [])]
        ordering = ", ".join(name + " DESC" * descending for name, descending in by)
        sql = (
            f"SELECT * FROM (SELECT *, {function}() OVER (PARTITION BY {', '.join(own)} ORDER BY "
            f"{ordering}) AS rn FROM ({select}) AS g) WHERE rn <= {most}"
        )
        expected = []
        partitions = defaultdict(list)
        for row in grouped:
            partitions[tuple(same(row[name]) for name in own)].append(row)
        for members in partitions.values():
            rank = dense = 0
            before: Any = ()
            for number, row in enumerate(_rank_order(members, by), 1):
                values = [same(row[name]) for name, _ in by]
                if values != before:
                    rank, dense, before = number, dense + 1, values
                place = {"ROW_NUMBER": number, "RANK": rank, "DENSE_RANK": dense}[function]
                if place <= most:
                    expected.append({**row, "rn": place})
        return RandomQuery(sql, rows, zone, expected, True)

    def _cascade(
        self, select: str, rows: list[Row], zone: str, grouped: list[Row], length: int
    ) -> RandomQuery:
        """A window over the windows below: their times are their ends minus 1 ms."""
        size = length * self.one_of([1, 2, 5])
        head, _, tail = select.partition(" FROM ")
        head = head.replace("window_start, window_end", "window_time AS wt")
        by, _, having = tail.rpartition("window_start, window_end")
        tail = f"{by}window_start, window_end, window_time{having}"
        inner = f"{head} FROM {tail}"
        sql = (
            f"SELECT window_start, window_end, COUNT(*) AS a0, MIN(wt) AS a1 FROM TABLE(TUMBLE(({inner}), "
            f"DESCRIPTOR(wt), {interval(size)})) GROUP BY window_start, window_end"
        )
        below = [{"ts": row["window_end"] - MS_US} for row in grouped]
        copies = in_windows(below, Tumble(size), "ts", "UTC", [])
        calls: list[Aggregate] = [("", len), ("", lambda rows: min(row["ts"] for row in rows))]
        expected = group(copies, ["window_start", "window_end"], calls)
        return RandomQuery(sql, rows, zone, expected, True)


def interval(us: int) -> str:
    """Return a length in microseconds as an interval.

    Example:
        >>> interval(90_000_000)
        "INTERVAL '90.000000' SECOND"
    """
    sign = "-" if us < 0 else ""
    return f"INTERVAL '{sign}{abs(us) // SECOND_US}.{abs(us) % SECOND_US:06}' SECOND"


def _sum(values: list[Any]) -> Any:
    return sum(values[1:], values[0]) if values else None


def _average(values: list[Any]) -> Any:
    if not values:
        return None
    total = _sum(values)
    if isinstance(total, Decimal):
        # DECIMAL(14, 6), rounded half up
        return (total / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return total / len(values)


def _any(values: Iterable[bool | None]) -> bool | None:
    given = [value for value in values if value is not None]
    return any(given) if given else None


def local_us(time_us: int, zone: str) -> int:
    """Return the wall clock of an instant in a zone, in microseconds."""
    moment = (EPOCH + dt.timedelta(microseconds=time_us)).astimezone(ZoneInfo(zone))
    return (moment.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)


def in_windows(
    rows: list[Row], window: Window | int, time: str, zone: str, partition: Sequence[str]
) -> list[Row]:
    """Return a copy of each row for each of its windows; an integer is the gap of sessions."""
    timed = [
        (row[time] if time == "ts" else local_us(row[time], zone), row)
        for row in rows
        if row[time] is not None
    ]
    if not isinstance(window, int):
        return [
            {**row, "window_start": start, "window_end": end}
            for t, row in timed
            for start, end in windows_of(window, t)
        ]
    copies = []
    parts = defaultdict(list)
    for t, row in timed:
        parts[tuple(same(row[name]) for name in partition)].append((t, row))
    for members in parts.values():
        session: list[tuple[int, Row]] = []
        for t, row in [*sorted(members, key=lambda pair: pair[0]), (None, {})]:
            if session and (t is None or t > session[-1][0] + window):
                bounds = {"window_start": session[0][0], "window_end": session[-1][0] + window}
                copies += [{**member, **bounds} for _, member in session]
                session = []
            session.append((t, row))  # type: ignore[arg-type]
    return copies


def group(rows: list[Row], keys: Sequence[str], calls: Sequence[Aggregate]) -> list[Row]:
    """Return a row per group: its keys, and `a0`, `a1`, ... for the calls."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(same(row[key]) for key in keys)].append(row)
    return [
        {key: members[0][key] for key in keys}
        | {f"a{i}": compute(members) for i, (_, compute) in enumerate(calls)}
        for members in groups.values()
    ]
