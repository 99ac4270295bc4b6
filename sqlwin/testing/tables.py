"""Tables of a case: rows from a test file, as Parquet files of a session's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from planner.sql.render import quote_string
from runtime.names import quote_name
from sqlwin.session import Session


@dataclass(frozen=True)
class GivenTable:
    """A table with rows.

    Attributes:
        name: Name of the table.
        rows: Rows in the order of their arrival.
        columns: Name and SQL type of each column.
        watermark: Column and expression of WATERMARK FOR. None without one.
        key: Columns of its PRIMARY KEY. Empty without one.
    """

    name: str
    rows: pa.Table
    columns: tuple[tuple[str, str], ...]
    watermark: tuple[str, str] | None
    key: tuple[str, ...] = ()


def create_tables(session: Session, tables: Sequence[GivenTable], directory: Path) -> None:
    """Create the tables in a session, replacing tables of the same names.

    Args:
        session: Session.
        tables: Tables.
        directory: Directory for their files.

    Raises:
        SqlwinError: A type or a watermark is invalid.
    """
    for number, table in enumerate(tables):
        path = directory / f"{number}.parquet"
        pq.write_table(table.rows, path)
        session.execute(_definition(table, path))


def rows_by_name(tables: Sequence[GivenTable]) -> Mapping[str, pa.Table]:
    """Return the rows of tables by lower-case name."""
    return {table.name.lower(): table.rows for table in tables}


def _definition(table: GivenTable, path: Path) -> str:
    """Return the CREATE TABLE of a table."""
    items = [f"{quote_name(name)} {type_}" for name, type_ in table.columns]
    if table.watermark is not None:
        column, expression = table.watermark
        items.append(f"WATERMARK FOR {quote_name(column)} AS {expression}")
    if table.key:
        items.append(f"PRIMARY KEY ({', '.join(map(quote_name, table.key))}) NOT ENFORCED")
    return (
        f"CREATE OR REPLACE TABLE {quote_name(table.name)} ({', '.join(items)}) WITH ("
        f"'connector' = 'filesystem', 'path' = {quote_string(str(path))}, 'format' = 'parquet')"
    )
