"""Read a table or a query of PostgreSQL as Arrow, in partitions by ranges of a key.

The database sends CSV text, which Arrow parses in C++. A partition is a condition on the key. This
process reads all partitions in one snapshot. Tasks of Spark read each partition in its own
transaction, because Spark does not report when the last one has begun, unless a snapshot was
exported for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.connectors.postgres.conditions import condition_sql
from runtime.connectors.postgres.csv_rows import read_csv
from runtime.connectors.postgres.database import (
    DatabaseAwayError,
    connect,
    errors_of,
    quote,
    table_name,
)
from runtime.connectors.postgres.database_types import DatabaseColumn, base_type, columns_of
from runtime.connectors.postgres.retries import AwayLimit
from runtime.errors import CatalogError, ExecutionError, nearest
from runtime.options.checks import bad_option, option_values
from runtime.outages import Retries
from runtime.scan.read import convert_types
from runtime.shown_types import shown_type
from runtime.spec.expressions import Expression
from runtime.spec.source import SplitReader, SplitSource
from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from psycopg import Connection

# Beginning of Arrow's message about a value: the position of its column
_CSV_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?")
# Bytes of CSV text that become one batch
_BATCH_BYTES = 4 << 20
# Estimated number of rows up to which a table is read in one partition
_FEW_ROWS = 100_000
# Database types whose values each Spark type can hold. STRING holds the text of every type.
_READS: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "tinyint": (),
    "smallint": ("smallint",),
    "int": ("smallint", "integer"),
    "bigint": ("smallint", "integer", "bigint", "oid"),
    "float": ("real",),
    "double": ("real", "double precision", "smallint", "integer"),
    "decimal": ("smallint", "integer", "bigint", "numeric"),
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp_ntz": ("timestamp without time zone", "date"),
    "timestamp": ("timestamp with time zone",),
}
# Spark's type that holds every value of a database type. Others are read as their text.
_READABLE = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "oid": "bigint",
    "real": "float",
    "double precision": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
}
# Digits of Spark's widest decimal
_MAX_DIGITS = 38
# SQL of a bound, by the type of the key; bounds are whole numbers
_BOUNDS = {
    "integer": "{}",
    "date": "DATE '1970-01-01' + {}",
    "timestamp without time zone": "TIMESTAMP '1970-01-01' + {} * INTERVAL '1 microsecond'",
    "timestamp with time zone": "TIMESTAMPTZ '1970-01-01Z' + {} * INTERVAL '1 microsecond'",
}
# SQL of a key as a whole number
_NUMBERS = {
    "integer": "{}::bigint",
    "date": "({} - DATE '1970-01-01')::bigint",
    "timestamp without time zone": "(EXTRACT(epoch FROM {}) * 1000000)::bigint",
    "timestamp with time zone": "(EXTRACT(epoch FROM {}) * 1000000)::bigint",
}


def relation_sql(spec: TableSpec) -> str:
    """Return the table or the query as an item of FROM."""
    query = option_values(spec).get("query")
    if query is None:
        return f"{table_name(spec).sql()} AS q"
    return f"({query.strip().rstrip(';')}\n) AS q"


def columns_in(connection: Connection, spec: TableSpec) -> list[DatabaseColumn]:
    """Return the columns of the table or query.

    Raises:
        CatalogError: The table does not exist.
        ExecutionError: The database refuses the query.
    """
    with errors_of(spec):
        if "query" not in option_values(spec):
            table = table_name(spec)
            columns = columns_of(connection, table)
            if columns is None:
                raise CatalogError(
                    f"table `{spec.name}`: the database has no table {table.sql()}",
                    subjects=(spec.name,),
                    hint="check 'table-name' and the schema",
                )
            return columns
        cursor = connection.execute(f"SELECT * FROM {relation_sql(spec)} LIMIT 0".encode())
        types = [(c.name, c.type_code, c._fmod) for c in cursor.description or ()]
        named = connection.execute(
            "SELECT format_type(t, m) FROM unnest(%s::oid[], %s::int[]) AS x (t, m)",
            ([t for _, t, _ in types], [m for *_, m in types]),
        ).fetchall()
        return [
            DatabaseColumn(name, type_, is_required=False, is_generated=False)
            for (name, *_), (type_,) in zip(types, named, strict=True)
        ]


def readable_type(type_: str) -> str:
    """Return Spark's type that holds every value of a column of the database.

    A numeric without digits becomes DECIMAL(38, 18), whose range is smaller: reading a value
    outside it fails.

    Example:
        >>> [readable_type(t) for t in ("integer", "numeric(10,2)", "numeric", "uuid")]
        ['int', 'decimal(10,2)', 'decimal(38,18)', 'string']
    """
    base = base_type(type_)
    if base != "numeric":
        return _READABLE.get(base, "string")
    if type_ == base:
        return "decimal(38,18)"
    precision, scale = map(int, type_[len("numeric(") : -1].split(","))
    is_decimal = 0 <= scale <= precision <= _MAX_DIGITS
    return f"decimal({precision},{scale})" if is_decimal else "string"


def _source_of(spec: TableSpec, column: Column, actual: Sequence[DatabaseColumn]) -> str:
    """Return the SQL that reads a column.

    Raises:
        CatalogError: The column does not exist, or has values outside the declared type.
    """
    names = [c.name for c in actual]
    exact = [c for c in actual if c.name == column.name]
    same = exact or [c for c in actual if c.name.lower() == column.name.lower()]
    if not same:
        close = nearest(column.name, names)
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` does not exist in the database",
            subjects=(column.name, spec.name),
            hint=f"did you mean `{close}`?" if close else f"columns: {', '.join(names)}",
        )
    source, base = same[0], base_type(same[0].type)
    if column.type == "string":
        return f"{quote(source.name)}::text"
    if base not in _READS.get(column.type.partition("(")[0], ()):
        fitting = next((shown_type(t) for t, bases in _READS.items() if base in bases), "STRING")
        if base == "numeric":
            fitting = source.type.upper().replace("NUMERIC", "DECIMAL")
            fitting = fitting if "(" in fitting else "DECIMAL(38, 18)"
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` is declared "
            f"{shown_type(column.type)}, but "
            f"is {source.type} in the database",
            subjects=(column.name, spec.name),
            hint=f"declare it {fitting}, and cast it in the query",
        )
    if column.type == "timestamp_ntz" and base == "date":
        return f"{quote(source.name)}::timestamp"
    return quote(source.name)


@dataclass(frozen=True)
class PostgresReader(SplitReader):
    """Reader of partitions; see `SplitReader`. A split is an SQL condition, empty for all rows.

    Attributes:
        spec: Table specification.
        columns: Columns with Spark types.
        sources: SQL that reads each of them.
        retries: Retries of a stream while the database is unavailable. None for a batch.
        snapshot: Name of the exported snapshot to read. Empty for the newest rows.
    """

    spec: TableSpec
    columns: tuple[Column, ...]
    sources: tuple[str, ...]
    retries: Retries | None = None
    snapshot: str = ""

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read partitions one after the other, each in a transaction of its own.

        Raises:
            ExecutionError: The database is unavailable, or a value does not fit its type.
        """
        for split in splits:
            for batch in self._read_again_while_away(split):
                yield convert_types(batch, self.columns, dictionaries)

    def _read_again_while_away(self, split: str) -> Iterator[pa.RecordBatch]:
        """Read a partition. In a micro-batch retry while the database is unavailable."""
        from runtime.frames.job_properties import batch_number

        limit = AwayLimit.of(self.spec, "lookup.max-retries", self.retries)
        if batch_number() is None:
            limit = AwayLimit(0)
        with limit.wait(self.spec) as wait:
            while True:
                has_rows = False
                try:
                    with closing(connect(self.spec)) as connection:
                        if self.snapshot:
                            begin_in_snapshot(connection, self.spec, self.snapshot)
                        for batch in self.read_split(connection, split):
                            has_rows = True
                            yield batch
                    return
                except DatabaseAwayError as error:
                    if has_rows:
                        raise
                    wait(error)

    def read_split(self, connection: Connection, split: str) -> Iterator[pa.RecordBatch]:
        """Read a partition within the current transaction."""
        where = f" WHERE {split}" if split else ""
        # A row without columns would not be a line.
        selected = ", ".join(self.sources) or "1"
        query = f"SELECT {selected} FROM {relation_sql(self.spec)}{where}"
        names = [(c.name, arrow_type(c.type)) for c in self.columns]
        schema = pa.schema(names or [("$row", pa.int8())])
        with errors_of(self.spec), connection.cursor() as cursor:
            with cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv)".encode()) as copy:
                lines: list[bytes] = []
                n_bytes = 0
                for line in copy:
                    lines.append(bytes(line))
                    n_bytes += len(line)
                    if n_bytes >= _BATCH_BYTES:
                        yield from self._parse(lines, schema)
                        lines, n_bytes = [], 0
                yield from self._parse(lines, schema)

    def _parse(self, lines: Sequence[bytes], schema: pa.Schema) -> list[pa.RecordBatch]:
        try:
            return list(read_csv(b"".join(lines), schema).to_batches())
        except pa.ArrowInvalid as error:
            raise self._misfit(str(error)) from error

    def _misfit(self, reason: str) -> ExecutionError:
        """Return the error for a value that its column cannot hold, from Arrow's text."""
        place, (name, type_) = "its column", ("", "")
        if (number := _CSV_COLUMN.match(reason)) is not None:
            column = self.columns[int(number[1])]
            name, type_ = column.name, shown_type(column.type)
            place = f"column `{name}`, which is {type_}"
        why = _CSV_COLUMN.sub("", reason).split("CSV conversion error to ")[-1]
        value = re.search("'(NaN|-?Infinity)'", reason)
        return ExecutionError(
            f"table `{self.spec.name}`: "
            + (
                f"the value {value[1]} does not fit {place}"
                if value
                else f"a value does not fit {place}: {why}"
            ),
            subjects=(name, self.spec.name) if name else (self.spec.name,),
            hint=f"declare `{name}` STRING, and cast it in the query: "
            f"CAST(NULLIF(`{name}`, '{value[1]}') AS {type_})"
            if value
            else "times must be in the years 1 to 9999, and decimals have the declared digits; "
            "otherwise declare the column STRING",
        )


def reader_of(connection: Connection, spec: TableSpec, columns: Sequence[Column]) -> PostgresReader:
    """Return the reader of some columns.

    Raises:
        CatalogError: A column does not exist or does not fit.
    """
    actual = columns_in(connection, spec)
    sources = tuple(_source_of(spec, column, actual) for column in columns)
    return PostgresReader(spec, tuple(columns), sources)


def partitions(
    connection: Connection, spec: TableSpec, n_parts: int, filters: Sequence[Expression] = ()
) -> list[str]:
    """Return the conditions of disjoint partitions that together hold all rows.

    Args:
        connection: Connection, with the transaction in which the bounds are read.
        spec: Table specification.
        n_parts: Desired number. The option 'scan.partition.num' replaces it.
        filters: Conditions of the query; rows that do not satisfy them may be left out.

    Raises:
        CatalogError: The column of 'scan.partition.column' has no order that can be cut.
    """
    values = option_values(spec)
    known = {c.name.lower(): c for c in columns_in(connection, spec)}
    pushed = [text for text in (condition_sql(f, known) for f in filters) if text]
    chosen = values.get("scan.partition.column")
    n_parts = int(values.get("scan.partition.num", n_parts))
    key = known.get((chosen or next(iter(spec.primary_key), "")).lower())
    kind = None if key is None else _kind_of_key(key)
    if chosen is not None and kind is None:
        what = "does not exist" if key is None else f"is {key.type}"
        raise bad_option(
            spec,
            f"'scan.partition.column' names column `{chosen}`, which {what}",
            "it must be a column of integers, dates or timestamps",
        )
    if chosen is None and not _has_many_rows(connection, spec):
        n_parts = 1
    if key is None or kind is None or n_parts < 2:
        return [" AND ".join(pushed)]
    with errors_of(spec):
        (least, most) = connection.execute(
            f"SELECT {_NUMBERS[kind].format('a')}, {_NUMBERS[kind].format('b')} FROM "
            f"(SELECT MIN({quote(key.name)}) AS a, MAX({quote(key.name)}) AS b "
            f"FROM {relation_sql(spec)}) AS bounds".encode()
        ).fetchone() or (None, None)
    if least is None or most is None or least == most:
        return [" AND ".join(pushed)]
    n_parts = min(n_parts, most - least + 1)
    cuts = [least + (most - least + 1) * i // n_parts for i in range(1, n_parts)]
    bounds = [_BOUNDS[kind].format(f"({cut})") for cut in cuts]
    name = quote(key.name)
    ranges = [f"({name} < {bounds[0]} OR {name} IS NULL)"]
    ranges += [f"{name} >= {a} AND {name} < {b}" for a, b in pairwise(bounds)]
    ranges.append(f"{name} >= {bounds[-1]}")
    return [" AND ".join([part, *pushed]) for part in ranges]


def _kind_of_key(key: DatabaseColumn) -> str | None:
    base = base_type(key.type)
    if base in ("smallint", "integer", "bigint"):
        return "integer"
    return base if base in _BOUNDS else None


def _has_many_rows(connection: Connection, spec: TableSpec) -> bool:
    """Return whether a table has many rows by the statistics of the database."""
    if "query" in option_values(spec):
        return False
    with errors_of(spec):
        row = connection.execute(
            "SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)", (table_name(spec).sql(),)
        ).fetchone()
    return row is not None and row[0] >= _FEW_ROWS


def begin_in_snapshot(connection: Connection, spec: TableSpec, name: str = "") -> None:
    """Begin a transaction that sees one state: an exported snapshot, or that at its first query.

    Raises:
        ExecutionError: The transaction that exported the snapshot has ended.
    """
    with errors_of(spec):
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if name:
            connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())


def export_snapshot(connection: Connection, spec: TableSpec) -> str:
    """Begin a transaction and return the name of its snapshot, which exists until it ends."""
    begin_in_snapshot(connection, spec)
    with errors_of(spec):
        # the transaction is idle while tasks read
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    return _exported(connection, spec)


def _exported(connection: Connection, spec: TableSpec) -> str:
    with errors_of(spec):
        (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
    return str(name)


def read_in_process(
    spec: TableSpec, columns: Sequence[Column], filters: Sequence[Expression] = ()
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table in this process, all partitions in one snapshot.

    Partitions are read by threads, each over its own connection.

    Raises:
        SqlwinError: The database is unavailable, or the table or a column does not fit.
    """
    n_cores = len(os.sched_getaffinity(0))
    with closing(connect(spec)) as connection:
        begin_in_snapshot(connection, spec)
        reader = reader_of(connection, spec, columns)
        splits = partitions(connection, spec, n_cores, filters)
        if len(splits) == 1:
            for batch in reader.read_split(connection, splits[0]):
                yield convert_types(batch, reader.columns, frozenset())
            return
        snapshot = _exported(connection, spec)

        def read(split: str) -> list[pa.RecordBatch]:
            with closing(connect(spec)) as own, errors_of(spec):
                begin_in_snapshot(own, spec, snapshot)
                return [
                    convert_types(batch, reader.columns, frozenset())
                    for batch in reader.read_split(own, split)
                ]

        with ThreadPoolExecutor(n_cores) as readers:
            for batches in readers.map(read, splits):
                yield from batches


@dataclass(frozen=True)
class PostgresSplits(SplitSource):
    """Partitions of a table for tasks of Spark: see `SplitSource`.

    Attributes:
        spec: Table specification.
        retries: Retries of a stream while the database is unavailable. None for a batch.
        snapshot: Name of the exported snapshot to read. Empty for the newest rows.
    """

    spec: TableSpec
    retries: Retries | None = None
    snapshot: str = ""

    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> PostgresReader:
        """Return the reader for tasks."""
        with closing(connect(self.spec)) as connection:
            reader = reader_of(connection, self.spec, columns)
        return replace(reader, retries=self.retries, snapshot=self.snapshot)

    def batch_splits(
        self, n_tasks: int, filters: Sequence[Expression] = ()
    ) -> Sequence[tuple[str, ...]]:
        """Return the partition of each task."""
        with closing(connect(self.spec)) as connection:
            return [(part,) for part in partitions(connection, self.spec, n_tasks, filters)]


def task_rows(reader: PostgresReader) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    """Return the function with which tasks read the partitions in their input."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from runtime.spark.workers import prepare_worker

        prepare_worker()
        for batch in batches:
            yield from reader.read(batch.column("split").to_pylist(), frozenset())

    return run
