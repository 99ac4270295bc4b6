"""Where rows of a stream go that are too late for all their windows.

A table with the option `late-rows` brings its rows whole up to the window operator, beside what is
computed from them, in the column LATE_ROW; what is late is emitted with the windows and passes
all that follows, further windows too, up to the sink, with KEEP = FALSE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.nodes.logical import Node
from planner.nodes.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.sql.build import cast_as, identifier, to_sql
from planner.sql.nodes import joined_spans, span_of
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import bare_table, stream_tables
from planner.streams.time_columns import is_processing_time
from runtime.spec.stream import KEEP, LATE_ROW, SOURCE, WATERMARK
from runtime.spec.table import LATE_ROWS, Column

DROP = f"leave out '{LATE_ROWS}' of the table, which counts late rows and drops them"


@dataclass(frozen=True)
class LateSource:
    """The table whose late rows go to a side output.

    Attributes:
        table: the table that they come from.
        target: the table that they go to.
        columns: the columns of a row.
    """

    table: str
    target: str
    columns: tuple[Column, ...]

    def row(self, stream: StreamTable) -> exp.Expr:
        """A row of a table as LATE_ROW has it; NULL if it is another table's."""
        if stream.name != self.table:
            return self.none()
        fields = [
            f"{to_sql(exp.Literal.string(c.name))}, {name}"
            for c, name in zip(self.columns, self._names(), strict=True)
        ]
        return exp.Var(this=f"NAMED_STRUCT({', '.join(fields)})")

    def none(self) -> exp.Expr:
        """NULL of the type of LATE_ROW."""
        fields = zip(self._names(), self.columns, strict=True)
        types = ", ".join(f"{name}: {c.type}" for name, c in fields)
        return cast_as(exp.Null(), f"STRUCT<{types}>")

    def _names(self) -> list[str]:
        return [to_sql(identifier(column.name)) for column in self.columns]


def late_source(plan: Node, catalog: Catalog) -> LateSource | None:
    """The table under a plan's window operators whose late rows go to a side output, if any.

    Raises:
        StreamRefusal: there is one whose late rows could not be recognized or brought to the sink.
    """
    operators = plan.find_all(GlobalWindowAggregate)
    on_event_time = (each for each in operators if not _is_on_processing_time(each, catalog))
    return late_source_below(on_event_time, catalog)


def late_source_below(nodes: Iterable[Node], catalog: Catalog) -> LateSource | None:
    """The same of what window operators on event time read.

    Raises:
        StreamRefusal: several tables have `late-rows`.
    """
    found: dict[str, tuple[exp.Table, StreamTable]] = {}
    for node in nodes:
        for table, stream in stream_tables(node, catalog):
            if stream.late_rows is not None:
                found.setdefault(stream.name, (table, stream))
    if not found:
        return None
    table, stream = next(iter(found.values()))
    assert stream.late_rows is not None
    if len(found) > 1:
        names = " and ".join(f"`{name}`" for name in found)
        raise StreamRefusal(
            f"{names} have '{LATE_ROWS}', and a query keeps the late rows of one table",
            f"aggregate them in queries of their own, or {DROP}",
            joined_spans([span_of(each) for each, _ in list(found.values())[1:]]),
            subjects=(f"'{LATE_ROWS}'", *found),
        )
    scan = exp.Select(expressions=[exp.Star()], from_=exp.From(this=bare_table(table)))
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
    return is_processing_time(local.input, local.time_column, catalog)
