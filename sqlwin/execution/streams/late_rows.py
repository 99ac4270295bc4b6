"""The table that a stream's late rows go to: which it is, and its columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from planner.sql.build import identifier, to_sql
from runtime.connectors.late_rows import MISSED
from runtime.errors import AnalysisError, nearest
from runtime.spec.stream import StreamSource
from runtime.spec.table import LATE_ROWS, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.execution.inserts import arranged, insert_target


def late_target(catalog: SessionCatalog, name: str, sources: Sequence[StreamSource]) -> TableSpec:
    """The table of a name that `late-rows` has.

    Args:
        catalog: where it is looked up.
        name: the name.
        sources: what the windows read.

    Raises:
        SqlwinError: there is no such table of sqlwin's, or the windows read it.
    """
    origin = next(s.name for s in sources)
    parts = tuple(name.strip().split("."))
    found = insert_target(catalog, parts)
    if found is None:
        close = nearest(name, catalog.names())
        what = f"did you mean `{close}`? Or " if close else ""
        raise AnalysisError(
            f"late rows of `{origin}` go to `{name}`, and there is no such table",
            subjects=(origin, name),
            hint=f"{what}CREATE TABLE {name} (..., {MISSED} TIMESTAMP(3)) WITH ('connector' = ...)",
        )
    # whatever options the statement gives to them
    read = {source.name.lower().partition(" /*+ ")[0] for source in sources}
    if found.name.lower() in read:
        raise AnalysisError(
            f"late rows of `{origin}` cannot go back to `{found.name}`, which the windows read",
            subjects=(origin, found.name),
            hint=f"'{LATE_ROWS}' takes the name of another table",
        )
    return found


def late_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    """Late rows under the columns of their table, by name; a table without columns takes all.

    Raises:
        AnalysisError: the table has a column that late rows have not, or of a type that does not
            fit.
    """
    declared = [c for c in table.columns if c.computed is None and c.metadata is None]
    if not declared:
        return rows
    known = {name.lower(): name for name in rows.columns}
    for column in declared:
        if column.name.lower() not in known:
            close = nearest(column.name, rows.columns)
            raise AnalysisError(
                f"`{table.name}` takes late rows, and they have no column `{column.name}`",
                subjects=(table.name, column.name),
                hint=f"did you mean `{close}`?"
                if close
                else f"they have {', '.join(rows.columns)}",
            )
    chosen = [F.col(to_sql(identifier(known[c.name.lower()]))) for c in declared]
    try:
        return arranged(rows.select(*chosen), table, ())
    except AnalysisError as error:
        error.hint = "late rows go there as they were read: declare the column as their table does"
        raise
