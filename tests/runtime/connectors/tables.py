"""A short notation for a TableSpec in tests; its rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.registry import open_table, open_writable
from runtime.frames.arrow_rows import BatchRows
from runtime.spec.table import TableColumn, TableSpec


def table(
    connector: str, columns: str = "", partitioned_by: tuple[str, ...] = (), **options: str
) -> TableSpec:
    """Return the spec of a table `t`.

    `columns` is `name TYPE; name  = computed; name TYPE @ metadata`. In option names, `__` stands
    for a dot and `_` for a dash.
    """
    parsed: list[TableColumn] = []
    for text in filter(None, (part.strip() for part in columns.split(";"))):
        text, _, computed = text.partition(" = ")
        text, _, metadata = text.partition(" @ ")
        name, _, type_ = text.partition(" ")
        parsed.append(
            TableColumn(name, type_ or None, computed=computed or None, metadata=metadata or None)
        )
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return TableSpec("t", connector, tuple(parsed), tuple(named.items()), partitioned_by)


def read_table(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Return the rows of a table."""
    return open_table(spec).rows(spark)


def write_table(rows: DataFrame, spec: TableSpec, overwrite: bool) -> int | None:
    """Write rows to a table and return their number, if known."""
    return open_writable(spec, overwrite=overwrite).insert(BatchRows.of(rows), overwrite=overwrite)
