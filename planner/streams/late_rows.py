"""Side output of stream rows that are late for all their windows.

For a table with the option `late-rows`, the column LATE_ROW brings the whole source row to the
window operator. The operator emits late rows together with windows. They pass all following
operators, including further windows, with KEEP = FALSE, until they reach the sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.nodes.logical import Node
from planner.nodes.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.sql.build import cast_as, identifier, select_all_from, to_sql
from planner.sql.nodes import merge_spans, span_of
from planner.sql.parts import bare_table
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import stream_tables
from planner.streams.time_columns import is_processing_time
from runtime.spec.stream import KEEP, LATE_ROW, SOURCE, WATERMARK
from runtime.spec.table import LATE_ROWS, Column

DROP = f"remove '{LATE_ROWS}' from the table; late rows are then counted and dropped"


@dataclass(frozen=True)
class LateSource:
    """A table whose late rows go to a side output.

    Attributes:
        table: Table that the rows come from.
        target: Table that receives late rows.
        columns: Columns of a row.
    """

    table: str
    target: str
    columns: tuple[Column, ...]

    def row(self, stream: StreamTable) -> exp.Expr:
        """Return a table's row as LATE_ROW, or NULL for other tables."""
        if stream.name != self.table:
            return self.none()
        fields = [
            f"{to_sql(exp.Literal.string(c.name))}, {name}"
            for c, name in zip(self.columns, self._names(), strict=True)
        ]
        return exp.Var(this=f"NAMED_STRUCT({', '.join(fields)})")

    def none(self) -> exp.Expr:
        """Return NULL of LATE_ROW's type."""
        fields = zip(self._names(), self.columns, strict=True)
        types = ", ".join(f"{name}: {c.type}" for name, c in fields)
        return cast_as(exp.Null(), f"STRUCT<{types}>")

    def _names(self) -> list[str]:
        return [to_sql(identifier(column.name)) for column in self.columns]


def late_source(plan: Node, catalog: Catalog) -> LateSource | None:
    """Return the table below a plan's window operators that has a side output, if any.

    Raises:
        StreamRefusal: Late rows of such a table cannot be detected or cannot reach the sink.
    """
    operators = plan.find_all(GlobalWindowAggregate)
    on_event_time = (
        operator for operator in operators if not _is_on_processing_time(operator, catalog)
    )
    return late_source_below(on_event_time, catalog)


def late_source_below(nodes: Iterable[Node], catalog: Catalog) -> LateSource | None:
    """Return the same as `late_source` for the inputs of window operators on event time.

    Raises:
        StreamRefusal: Several tables have `late-rows`.
    """
    tables: dict[str, tuple[exp.Table, StreamTable]] = {}
    for node in nodes:
        for table, stream in stream_tables(node, catalog):
            if stream.late_rows is not None:
                tables.setdefault(stream.name, (table, stream))
    if not tables:
        return None
    table, stream = next(iter(tables.values()))
    assert stream.late_rows is not None
    if len(tables) > 1:
        names = " and ".join(f"`{name}`" for name in tables)
        raise StreamRefusal(
            f"{names} have '{LATE_ROWS}', but a query supports late rows of one table",
            f"use a separate query for each, or {DROP}",
            merge_spans([span_of(reference) for reference, _ in list(tables.values())[1:]]),
            subjects=(f"'{LATE_ROWS}'", *tables),
        )
    scan = select_all_from(bare_table(table))
    schema = catalog.analyze(scan, {})
    taken = {KEEP, SOURCE, WATERMARK, LATE_ROW}
    columns = tuple(column for column in schema if column.name not in taken)
    return LateSource(stream.name, stream.late_rows, columns)


def _is_on_processing_time(operator: GlobalWindowAggregate, catalog: Catalog) -> bool:
    exchange = operator.input
    assert isinstance(exchange, Exchange)
    local = exchange.input
    if not isinstance(local, LocalWindowAggregate):
        return False
    if not local.window.closes:
        return True
    return is_processing_time(local.input, local.time_column, catalog)
