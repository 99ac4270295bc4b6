"""Brute force: every row into its windows by definition, then a plain GROUP BY, all in DuckDB.

Independent of slices. Times are BIGINT microseconds; windows follow the formulas of Flink's
documentation with a true floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

MINUTE_US = 60_000_000


@dataclass(frozen=True)
class OracleWindow:
    """A window in two forms: sqlwin's function, and lengths in microseconds."""

    kind: str
    size_us: int
    step_us: int = 0  # slide of HOP, step of CUMULATE
    offset_us: int = 0

    @property
    def call(self) -> str:
        """Window function over the table `data` with the time column `ts`."""
        lengths = [self.size_us] if self.kind == "TUMBLE" else [self.step_us, self.size_us]
        if self.offset_us:
            lengths.append(self.offset_us)
        arguments = ", ".join(_interval(length) for length in lengths)
        return f"TABLE({self.kind}(TABLE data, DESCRIPTOR(ts), {arguments}))"

    @property
    def windows_sql(self) -> str:
        """DuckDB's SQL for a list of structs (s, e), the windows of a row with the time `t`."""
        floor = "(t - (((t - ({off})) % {w}) + {w}) % {w})".format
        if self.kind == "TUMBLE":
            start = floor(off=self.offset_us, w=self.size_us)
            return f"[{{'s': {start}, 'e': {start} + {self.size_us}}}]"
        if self.kind == "HOP":
            last = floor(off=self.offset_us, w=self.step_us)
            starts = f"generate_series({last}, t - {self.size_us} + 1, -{self.step_us})"
            return f"list_transform({starts}, lambda s: {{'s': s, 'e': s + {self.size_us}}})"
        start = floor(off=self.offset_us, w=self.size_us)
        first_end = floor(off=self.offset_us, w=self.step_us) + f" + {self.step_us}"
        ends = f"generate_series({first_end}, {start} + {self.size_us}, {self.step_us})"
        return f"list_transform({ends}, lambda e: {{'s': {start}, 'e': e}})"

    def __str__(self) -> str:
        return f"{self.kind}-{self.size_us}-{self.step_us}-{self.offset_us}"


def _interval(us: int) -> str:
    return f"INTERVAL '{us // 1_000_000}.{us % 1_000_000:06}' SECOND"


def expected(
    data: pa.Table, window: OracleWindow, keys: Sequence[str], aggregates: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Return rows (keys..., window start and end in microseconds, aggregates...) by brute force."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("data", data)
    names = [f"k{i}" for i in range(len(keys))]
    key_list = "".join(f"{key} AS {name}, " for key, name in zip(keys, names, strict=True))
    query = f"""
        SELECT {"".join(n + ", " for n in names)} w.s, w.e, {", ".join(aggregates)}
        FROM (SELECT *, {key_list} unnest({window.windows_sql}) AS w
              FROM (SELECT *, epoch_us(ts) AS t FROM data WHERE ts IS NOT NULL))
        GROUP BY {"".join(n + ", " for n in names)} w
    """
    return con.execute(query).fetchall()


def same_rows(
    actual: Iterable[Sequence[Any]], wanted: Iterable[Sequence[Any]], tolerance: float = 1e-9
) -> None:
    """Assert that two sets of rows are equal; doubles up to a relative tolerance."""
    left = sorted((_comparable(row) for row in actual), key=_order)
    right = sorted((_comparable(row) for row in wanted), key=_order)
    assert len(left) == len(right), f"{len(left)} rows instead of {len(right)}"
    for got, want in zip(left, right, strict=True):
        assert all(_equal(g, w, tolerance) for g, w in zip(got, want, strict=True)), (
            f"\n got {got}\nwant {want}"
        )


def _comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)  # one class of time zone, so that texts are equal
    return value


def _order(row: tuple[Any, ...]) -> str:
    # doubles may differ in their last digits, so rows are not sorted by them
    return repr(tuple("" if isinstance(v, float) else v for v in row))


def _equal(got: Any, want: Any, tolerance: float) -> bool:
    if isinstance(got, float) and isinstance(want, int | float) and not isinstance(want, bool):
        if math.isnan(got) or math.isnan(want):
            return math.isnan(got) and math.isnan(want)
        return math.isclose(got, want, rel_tol=tolerance, abs_tol=tolerance)
    return bool(got == want)
