"""Lowering of queries over streams with given rows, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.scan_rows import CURRENT_WATERMARK, PROCESSING_TIME, Made, make_column
from planner.catalog import Catalog, column_named
from planner.lowering.plan import Lowering
from planner.lowering.relation import Relation
from planner.nodes.logical import Expand
from planner.sql.build import select_all_from
from planner.sql.parts import bare_table, name_parts
from planner.streams.delay import plain_delay_us
from planner.streams.tables import stream_named
from runtime.plan.arrow_rows import GivenRows, UnitedRows
from runtime.plan.simulated import SimulatedTable
from runtime.refusal import refuse
from runtime.spec.expressions import Constant
from runtime.spec.table import Column


@dataclass(frozen=True)
class MomentCalls:
    """Calls in a query whose values depend on the micro-batch.

    Attributes:
        reads_clock: Whether it calls PROCTIME() or another function of the current time.
        reads_watermark: Whether it calls CURRENT_WATERMARK.
        reads_clock_of_results: Whether expressions over results of windows call PROCTIME().
    """

    reads_clock: bool = False
    reads_watermark: bool = False
    reads_clock_of_results: bool = False


NO_MOMENT_CALLS = MomentCalls()


class GivenTablesLowering(Lowering):
    """Lowering of one plan over streams.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
        moments: Calls in the query that depend on the micro-batch.

    Attributes:
        tables: Streams by name.
    """

    def __init__(
        self,
        catalog: Catalog,
        zone: str,
        moments: MomentCalls = NO_MOMENT_CALLS,
    ) -> None:
        super().__init__(catalog, zone)
        self.moments = moments
        self.tables: dict[str, SimulatedTable] = {}

    def table(self, table: exp.Table) -> Relation:
        """Return the given rows of a stream."""
        stream = stream_named(table, self.catalog)
        name = name_parts(table)
        if stream is None:
            refuse(f"Spark reads {'.'.join(name)}, which is not a stream")
        schema = self.catalog.analyze(select_all_from(bare_table(table)), {})
        time, delay_us, time_type = None, 0, ""
        if stream.watermark is not None:
            delay = plain_delay_us(stream.watermark, self.catalog)
            if delay is None:
                refuse(
                    f"the watermark of {stream.name} is not its column minus a constant interval"
                )
            time_column = column_named(schema, stream.watermark.column)
            assert time_column is not None, "lower_stream has checked it"
            time, delay_us, time_type = time_column.name, delay, time_column.type
        # The rows include the values of computed columns.
        clock = {column.name for column in schema if column.name.lower() in stream.proctime}
        columns, watermark = schema, ""
        if self.moments.reads_clock:
            columns = (*columns, Column(PROCESSING_TIME, "timestamp"))
            clock.add(PROCESSING_TIME)
        if self.moments.reads_watermark:
            columns = (*columns, Column(CURRENT_WATERMARK, time_type))
            watermark = CURRENT_WATERMARK
        self.tables[stream.name] = SimulatedTable(
            stream.name, columns, time, delay_us, time_type, frozenset(clock), watermark
        )
        rows = self.relation_of(GivenRows(stream.name, columns), columns)
        return replace(rows, scan=replace(rows.scan, schema=schema))

    def expansion_here(self, node: Expand) -> Relation:
        """Return rows once per grouping set."""
        below = self.node(node.input)
        inputs = {c.name.lower(): c for c in node.input.schema}
        parts = []
        for set_id, names in zip(node.ids, node.key_names, strict=True):
            columns: dict[str, Made] = {name: below.scan.columns[name] for name in inputs}
            types = {c.name.lower(): c.type for c in node.schema}
            for key in node.keys:
                columns[key.name.lower()] = (
                    make_column(key.expr, below.scan)
                    if key.name in names
                    else Constant(None, types[key.name.lower()])
                )
            columns[node.id_column.lower()] = Constant(set_id, types[node.id_column.lower()])
            scan = replace(below.scan, schema=node.schema, columns=columns)
            parts.append(self.project(replace(below, scan=scan), node.schema))
        return self.relation_of(UnitedRows(tuple(parts)), node.schema)
