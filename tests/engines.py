"""Engines in this process that run compiled texts over Arrow tables."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Run = Callable[[str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class Engine:
    """An engine of the extra `engines`.

    Attributes:
        name: Name for `--to`.
        run: Function that runs a text over tables.
        first_us: First time that it knows, in microseconds since 1970.
        last_us: Last time.
    """

    name: str
    run: Run
    first_us: int
    last_us: int

    def can_store(self, tables: Iterable[pa.Table]) -> bool:
        """Return whether the engine knows all times of tables."""
        for table in tables:
            for column in table.columns:
                if pa.types.is_timestamp(column.type):
                    numbers = column.cast(pa.int64()).drop_null().to_pylist()
                    if numbers and not self.first_us <= min(numbers) <= max(numbers) < self.last_us:
                        return False
        return True


def engine(name: str) -> Engine:
    """Return an engine. A test without its package is skipped."""
    pytest.importorskip(_PACKAGES[name], reason=f"pip install '.[engines]' installs {name}")
    return ENGINES[name]


def run_on_datafusion(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a text on DataFusion."""
    from datafusion import SessionContext

    context = SessionContext()
    for name, rows in tables.items():
        context.from_arrow(rows, name=name)
    result = context.sql(text).to_arrow_table()
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field
        for field in result.schema
    ]
    return result.cast(pa.schema(fields))


@cache
def _clickhouse() -> Any:
    """Return the session of ClickHouse. A process has one."""
    from chdb.session import Session

    session = Session()
    # small tables are faster without threads
    session.query("SET max_threads = 1")
    return session


def run_on_clickhouse(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a text on ClickHouse."""
    session = _clickhouse()
    try:
        with TemporaryDirectory() as directory:
            for name, rows in tables.items():
                path = f"{directory}/rows.parquet"
                pq.write_table(rows, path)
                columns = ", ".join(
                    f'"{name}" {_clickhouse_type(column)}'
                    for name, column in zip(rows.column_names, rows.columns, strict=True)
                )
                session.query(f'CREATE OR REPLACE TABLE "{name}" ({columns}) ENGINE = Memory')
                session.query(f"INSERT INTO \"{name}\" SELECT * FROM file('{path}', Parquet)")
            types = session.query(f"DESCRIBE TABLE ({text})", "CSV").data()
            result = session.query(text, "Parquet").bytes()
    except RuntimeError:  # chDB's only error
        # the next answer begins with the rest of the failed one
        session.query("SELECT 1")
        raise
    table = pq.read_table(pa.BufferReader(result))
    wall_clocks = [row[0] for row in csv.reader(types.splitlines()) if "DateTime64(6)" in row[1]]
    fields = [
        field.with_type(pa.timestamp("us")) if field.name in wall_clocks else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _clickhouse_type(column: pa.ChunkedArray) -> str:
    """Return the type of a column. Without NULL it is not Nullable, which texts must not need."""
    type_ = column.type
    if pa.types.is_decimal(type_):
        plain = f"Decimal({type_.precision}, {type_.scale})"
    else:
        plain = _CLICKHOUSE_TYPES[type_]
    return f"Nullable({plain})" if column.null_count else plain


_CLICKHOUSE_TYPES = {
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float64(): "Float64",
    pa.string(): "String",
    pa.bool_(): "Bool",
    pa.timestamp("us"): "DateTime64(6)",
    pa.timestamp("us", "UTC"): "DateTime64(6, 'UTC')",
}
_PACKAGES = {"clickhouse": "chdb", "datafusion": "datafusion"}
ENGINES = {
    # DateTime64 has the years 1 to 9999
    "clickhouse": Engine(
        "clickhouse", run_on_clickhouse, -62_135_596_800_000_000, 253_402_300_800_000_000
    ),
    # texts for DataFusion refuse times of more than 18 digits
    "datafusion": Engine("datafusion", run_on_datafusion, -(10**18) + 1, 10**18),
}
