"""Write rows to a table of PostgreSQL: by key with upserts and deletes, or appended.

This process writes, not the tasks: it receives the rows as Arrow, copies them into a temporary
table of its only connection, and merges that into the table in the same transaction. Tasks that
copy in parallel would need a staging table that other sessions see, which a killed stream would
leave behind, and bookkeeping of repeated tasks; the merge runs in one session of the server
anyway. So only this process needs network access to the database and its password.

Exactly once: the transaction that writes a micro-batch also records its number in the table
BATCHES, next to the target. A micro-batch whose number is recorded is not written again, even if
the answer to the commit was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.connectors.postgres.csv_rows import csv_pieces
from runtime.connectors.postgres.database import (
    DatabaseAwayError,
    TableName,
    connect,
    errors_of,
    quote,
    table_name,
)
from runtime.connectors.postgres.database_types import (
    DatabaseColumn,
    check_kind,
    check_privileges,
    columns_of,
    new_table,
    targets,
    unique_keys,
)
from runtime.connectors.postgres.retries import AwayLimit
from runtime.connectors.upserts import duplicate_key, fold_changes, key_columns
from runtime.errors import CatalogError, ExecutionError
from runtime.options.checks import option_values
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from psycopg import Connection

# Table next to the targets that records the last micro-batch of each stream
BATCHES = "sqlwin_batches"
# Temporary table of new rows, and the table of keys to delete
_ROWS, _DELETED = '"pg_temp"."sqlwin_rows"', '"pg_temp"."sqlwin_deleted"'
# Maximum bytes of a micro-batch's rows that are kept for another attempt until it is committed
_MAX_KEPT = 256 << 20


@dataclass(frozen=True)
class DatabaseTarget:
    """Table in the database, checked for the columns of the rows.

    Attributes:
        spec: Table specification.
        table: Name in the database.
        columns: Columns of the rows, with Spark's types.
        names: Column in the database for each column of the rows.
        key: Names of the key columns in the database. Empty if rows are appended.
    """

    spec: TableSpec
    table: TableName
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    key: tuple[str, ...]


def open_target(
    connection: Connection, spec: TableSpec, columns: Sequence[Column], *, overwrite: bool = False
) -> DatabaseTarget:
    """Return the table to write, and create it if the option 'create-table' is true.

    Args:
        connection: Connection.
        spec: Table specification.
        columns: Columns of the rows.
        overwrite: Whether existing rows will be deleted.

    Raises:
        CatalogError: The table does not exist or is a view, or its columns or keys do not fit.
        ExecutionError: The user lacks a privilege, or the database refuses a statement.
    """
    table = table_name(spec)
    with errors_of(spec), connection.transaction():
        actual = columns_of(connection, table)
        if actual is None and option_values(spec).get("create-table", "false").lower() == "true":
            _create(connection, new_table(spec, table, columns))
            actual = columns_of(connection, table)
        if actual is None:
            raise CatalogError(
                f"table `{spec.name}`: the database has no table {table.sql()}",
                subjects=(spec.name,),
                hint="create it, or add 'create-table' = 'true'",
            )
        check_kind(connection, spec, table)
        fitting = targets(spec, table, columns, actual)
        key = _key_of(connection, spec, table, fitting)
        needed = ["INSERT"]
        if key:
            needed += ["SELECT", "UPDATE"] if len(key) < len(fitting) else ["SELECT"]
        check_privileges(connection, spec, table, needed + ["DELETE"] * overwrite)
    return DatabaseTarget(
        spec, table, tuple(columns), tuple(column.name for column in fitting), key
    )


def _create(connection: Connection, statement: str) -> None:
    """Create a table. Another session may create it at the same time."""
    from psycopg.errors import DuplicateTable, UniqueViolation

    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except (DuplicateTable, UniqueViolation):
        return


def _key_of(
    connection: Connection, spec: TableSpec, table: TableName, columns: Sequence[DatabaseColumn]
) -> tuple[str, ...]:
    """Return the key columns in the database.

    Raises:
        CatalogError: No unique index of the database has exactly these columns.
    """
    key = key_columns(spec, [column.name for column in columns])
    if key and frozenset(key) not in unique_keys(connection, table):
        listed = ", ".join(map(quote, key))
        raise CatalogError(
            f"table `{spec.name}`: {table.sql()} has no unique index on the PRIMARY KEY ({listed})",
            subjects=(spec.name,),
            hint=f"ALTER TABLE {table.sql()} ADD PRIMARY KEY ({listed}) in the database",
        )
    return tuple(key)


def write_rows(
    connection: Connection,
    target: DatabaseTarget,
    batches: Iterable[pa.RecordBatch],
    *,
    is_ordered: bool = False,
    batch: int | None = None,
) -> int:
    """Write rows within the current transaction and return their number.

    Args:
        connection: Connection with an open transaction.
        target: Table.
        batches: Rows, with ROW_KIND first if they are changes of earlier rows.
        is_ordered: Whether the last of several rows with the same key is kept.
        batch: Number of the micro-batch, for messages. None outside a stream.

    Raises:
        ExecutionError: A value does not fit, or several rows have the same key.
    """
    if not target.key:
        return _copy(connection, target.table.sql(), target.names, batches)
    _create_staging(connection, target)
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return 0
    rows = chain([first], batches)
    if is_ordered or ROW_KIND in first.schema.names:
        folded = fold_changes(
            pa.Table.from_batches(rows), target.spec, batch=batch, is_ordered=is_ordered
        )
        n_deleted = _delete(connection, target, folded.deleted)
        return n_deleted + _merge(connection, target, folded.rows.to_batches(), batch)
    return _merge(connection, target, rows, batch)


def _create_staging(connection: Connection, target: DatabaseTarget) -> None:
    """Create the temporary tables for rows and deleted keys, for the current transaction."""
    for staging, names in ((_ROWS, target.names), (_DELETED, target.key)):
        listed = ", ".join(map(quote, names))
        connection.execute(
            f"CREATE TEMP TABLE {staging.partition('.')[2]} ON COMMIT DROP "
            f"AS SELECT {listed} FROM {target.table.sql()} WITH NO DATA".encode()
        )


def _copy(
    connection: Connection, table: str, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> int:
    """Copy rows into a table of the database and return their number."""
    listed = ", ".join(map(quote, names))
    statement = f"COPY {table} ({listed}) FROM STDIN (FORMAT csv)"
    with connection.cursor() as cursor:
        with cursor.copy(statement.encode()) as copy:
            for text in csv_pieces(batches):
                copy.write(text)
        return cursor.rowcount


def _merge(
    connection: Connection,
    target: DatabaseTarget,
    batches: Iterable[pa.RecordBatch],
    batch: int | None,
) -> int:
    from psycopg.errors import CardinalityViolation

    n_rows = _copy(connection, _ROWS, target.names, batches)
    if not n_rows:
        return 0
    names, key = ", ".join(map(quote, target.names)), ", ".join(map(quote, target.key))
    values = [name for name in target.names if name not in target.key]
    update = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in values)
    action = f"UPDATE SET {update}" if values else "NOTHING"
    try:
        with connection.transaction():
            connection.execute(
                f"INSERT INTO {target.table.sql()} ({names}) SELECT {names} FROM {_ROWS} "
                f"ON CONFLICT ({key}) DO {action}".encode()
            )
    except CardinalityViolation as error:
        row = connection.execute(
            f"SELECT {key} FROM {_ROWS} GROUP BY {key} HAVING COUNT(*) > 1 LIMIT 1".encode()
        ).fetchone()
        shown = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in row or ())
        raise duplicate_key(target.spec, shown, batch) from error
    return n_rows


def _delete(connection: Connection, target: DatabaseTarget, keys: pa.Table) -> int:
    """Delete the rows with these keys and return the number of keys."""
    if not keys.num_rows:
        return 0
    by_lower = {name.lower(): name for name in keys.column_names}
    ordered = keys.select([by_lower[name.lower()] for name in target.key])
    _copy(connection, _DELETED, target.key, ordered.to_batches())
    same = " AND ".join(f"t.{quote(name)} = d.{quote(name)}" for name in target.key)
    connection.execute(
        f"DELETE FROM {target.table.sql()} t USING {_DELETED} d WHERE {same}".encode()
    )
    return int(keys.num_rows)


def insert_rows(
    spec: TableSpec,
    columns: Sequence[Column],
    compute: Iterable[pa.RecordBatch],
    *,
    overwrite: bool,
    is_ordered: bool = False,
) -> int:
    """Write the rows of a batch query in one transaction and return their number.

    Args:
        spec: Table specification.
        columns: Columns of the rows.
        compute: Rows; they are computed once the table has been checked.
        overwrite: Whether existing rows are deleted in the same transaction.
        is_ordered: Whether the last of several rows with the same key is kept.

    Raises:
        SqlwinError: The table cannot be written. None of the rows is in it.
    """
    with closing(connect(spec)) as connection:
        target = open_target(connection, spec, columns, overwrite=overwrite)
        with errors_of(spec), connection.transaction():
            if overwrite:
                connection.execute(f"DELETE FROM {target.table.sql()}".encode())
            return write_rows(connection, target, compute, is_ordered=is_ordered)


@dataclass
class BatchWriter:
    """Writer of a stream's micro-batches, each in one transaction with its number.

    Attributes:
        spec: Table specification.
        columns: Columns of the rows.
        writer: Identifies the stream in BATCHES.
        is_ordered: Whether the last of several rows with the same key counts.
        limit: Limit of the retries while the database is unavailable.
    """

    spec: TableSpec
    columns: tuple[Column, ...]
    writer: str
    is_ordered: bool = False
    limit: AwayLimit = field(default_factory=AwayLimit)
    _open: tuple[Connection, DatabaseTarget] | None = field(default=None, init=False)

    def open(self) -> None:
        """Connect, and check the table.

        Raises:
            SqlwinError: The database is unavailable, or the table cannot be written.
        """
        connection = connect(self.spec)
        try:
            target = open_target(connection, self.spec, self.columns)
            with errors_of(self.spec), connection.transaction():
                _open_batches(connection, self.spec, _batches_of(target.table))
        except BaseException:
            connection.close()
            raise
        self._open = connection, target

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._open is not None:
            self._open[0].close()
            self._open = None

    def write(self, batches: Iterable[pa.RecordBatch], batch: int) -> int:
        """Write a micro-batch and return its number of rows; 0 if it was written before.

        Args:
            batches: Rows, which are all consumed.
            batch: Number of the micro-batch.

        Raises:
            SqlwinError: The rows cannot be written. None of them is in the table.
        """
        rows = _KeptRows(batches)
        with self.limit.wait(self.spec) as wait:
            while True:
                try:
                    return self._write(rows, batch)
                except DatabaseAwayError as error:
                    self.close()
                    if not rows.can_repeat:
                        raise
                    wait(error)
                except BaseException:
                    self.close()
                    raise

    def _write(self, rows: _KeptRows, batch: int) -> int:
        if self._open is None:
            self.open()
        assert self._open is not None
        connection, target = self._open
        batches = _batches_of(target.table).sql()
        # rows are computed before the transaction begins, which must not stay open meanwhile
        rows.fill()
        with errors_of(self.spec), connection.transaction():
            connection.execute(
                f"INSERT INTO {batches} (writer, batch) VALUES (%s, -1) "
                "ON CONFLICT (writer) DO NOTHING".encode(),
                (self.writer,),
            )
            (last,) = connection.execute(
                f"SELECT batch FROM {batches} WHERE writer = %s FOR UPDATE".encode(),
                (self.writer,),
            ).fetchone() or (-1,)
            if last >= batch:
                rows.consume()
                return 0
            n_rows = write_rows(
                connection, target, rows.batches(), is_ordered=self.is_ordered, batch=batch
            )
            connection.execute(
                f"UPDATE {batches} SET batch = %s, written_at = now() WHERE writer = %s".encode(),
                (batch, self.writer),
            )
            return n_rows


def _batches_of(table: TableName) -> TableName:
    return TableName(table.schema, BATCHES)


def _open_batches(connection: Connection, spec: TableSpec, name: TableName) -> None:
    """Create the table of written micro-batches if it is missing, and check that it is writable.

    Raises:
        ExecutionError: The user may not create or write it.
    """
    from psycopg.errors import InsufficientPrivilege

    if columns_of(connection, name) is not None:
        check_privileges(connection, spec, name, ["INSERT", "SELECT", "UPDATE"])
        return
    statement = batches_table(name)
    try:
        _create(connection, statement)
    except InsufficientPrivilege as error:
        message = error.diag.message_primary
        raise ExecutionError(
            f"table `{spec.name}`: cannot create the table {name.sql()}, which records the "
            f"micro-batches of streams: {message}",
            subjects=(spec.name,),
            hint=f"an administrator runs: {statement}; GRANT SELECT, INSERT, UPDATE ON "
            f"{name.sql()} TO {quote(connection.info.user)}",
        ) from error


def batches_table(name: TableName) -> str:
    """Return the statement that creates the table of written micro-batches."""
    return (
        f"CREATE TABLE IF NOT EXISTS {name.sql()} (writer text PRIMARY KEY, "
        "batch bigint NOT NULL, written_at timestamp with time zone DEFAULT now())"
    )


class _KeptRows:
    """Rows of a micro-batch, kept for another attempt if they are at most _MAX_KEPT bytes."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._source = iter(batches)
        self._kept: list[pa.RecordBatch] = []
        self._n_bytes = 0
        self._has_begun_rest = False

    @property
    def can_repeat(self) -> bool:
        """Whether all rows are still available."""
        return not self._has_begun_rest

    def fill(self) -> None:
        """Compute rows up to the limit."""
        while self._n_bytes <= _MAX_KEPT:
            rows = next(self._source, None)
            if rows is None:
                return
            self._kept.append(rows)
            self._n_bytes += rows.nbytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows. Rows beyond the limit can be read only once."""
        yield from self._kept
        for rows in self._source:
            self._has_begun_rest = True
            yield rows

    def consume(self) -> None:
        """Compute the remaining rows, because computing them stores the state of the stream."""
        for _ in self.batches():
            pass
