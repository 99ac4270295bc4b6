"""Rows of tables that tasks read for Spark, as steps in its SQL."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.sql.build import identifier, select_all_from
from planner.sql.nodes import span_of
from planner.sql.parts import bare_table
from planner.streams.refusals import BATCH, StreamRefusal
from runtime.plan.streams import SplitRowsStep
from runtime.refusal import Refused
from runtime.spec.stream import SPLIT_NUMBER, WATERMARK_LIMIT


def without_split_columns() -> exp.Star:
    """Return the columns of a table among the columns of a `SplitRowsStep`."""
    left_out = [identifier(name) for name in (WATERMARK_LIMIT, SPLIT_NUMBER)]
    return exp.Star(**{"except_": left_out})


def split_rows_step(
    table: exp.Table, stream: StreamTable, catalog: Catalog, number: int
) -> SplitRowsStep:
    """Return the step that reads a table.

    Args:
        table: Occurrence of the table in a query.
        stream: The table.
        catalog: Catalog with the table.
        number: Number of the step in its query.

    Raises:
        StreamRefusal: Tasks cannot read the table.
    """
    name = tuple(stream.name.split("."))
    computed = catalog.computed_columns(name)
    schema = catalog.analyze(select_all_from(bare_table(table)), {})
    columns = tuple(column for column in schema if column.name.lower() not in computed)
    try:
        return SplitRowsStep(catalog.stream_splits(name, columns), number)
    except Refused as refused:
        raise StreamRefusal(
            f"a stream cannot read `{stream.name}`: {refused}",
            BATCH.removeprefix("or "),
            span_of(table),
            subjects=(stream.name,),
        ) from refused
