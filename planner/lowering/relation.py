"""Relations of a plan that runs in this process, and the rows behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from sqlglot import exp

from planner.arrow.partials import arrow_partials
from planner.arrow.scan_rows import (
    Made,
    RowsOfScan,
    result_columns,
)
from planner.catalog import Catalog, Schema
from planner.materialized.slice_conditions import read_alone
from planner.nodes.aggregate_plans import SLICE_END, AggregatePlan, merge_windows
from planner.nodes.logical import Node
from planner.sql.build import (
    is_flat_type,
)
from runtime.plan.arrow_rows import (
    DatabaseRows,
    FileRows,
    LocalRows,
    ProjectedRows,
    RowScan,
)
from runtime.plan.exchange import ExchangeStep, MergedWindows, WindowProjection
from runtime.plan.local import (
    ArrowBuffer,
    FileScan,
    LocalStep,
    PartialColumns,
    SliceRows,
    is_local,
)
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refused, refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import ColumnRef, Constant, Expression, column_refs
from runtime.spec.source import SplitTable
from runtime.spec.table import Column
from runtime.spec.text import FileSource, TextSource
from runtime.windows import Window
from runtime.windows.times import DAY_US
from runtime.windows.tumble import Tumble

# Window, name and type of the time column, name of the slice end column, label
Slicing = tuple[Window, str, str, str, str]

# A GROUP BY without windows is one window with all rows at this time
_ONE_WINDOW, _ONE_TIME = Tumble(DAY_US), Constant(0, "timestamp_ntz")


@dataclass(frozen=True)
class Relation:
    """Rows with the expressions that compute the columns of a query from them.

    Attributes:
        below: Rows. None: the files of the table of `scan`.
        scan: Columns, as expressions over the columns of the rows, and filters.
    """

    below: PlanNode | None
    scan: RowsOfScan


@dataclass(frozen=True)
class QueryScope:
    """Names in scope of a query.

    Attributes:
        relations: Nodes by placeholder name.
        ctes: Queries of WITH and their own scopes, by lower-case name.
    """

    relations: Mapping[str, Node] = field(default_factory=dict)
    ctes: Mapping[str, tuple[exp.Query, QueryScope]] = field(default_factory=dict)


class RelationLowering:
    """Lowering of the relations of one plan.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
    """

    def __init__(self, catalog: Catalog, zone: str) -> None:
        self.catalog = catalog
        self.zone = zone

    def relation_of(self, rows: PlanNode, schema: Schema) -> Relation:
        """Return rows whose columns have the names of the query."""
        made: dict[str, Made] = {c.name.lower(): ColumnRef(c.name, c.type) for c in schema}
        return Relation(rows, RowsOfScan((), made, schema, made, (), (), self.zone))

    def project(
        self,
        relation: Relation,
        schema: Schema,
        computed: Sequence[tuple[str, Expression]] = (),
    ) -> PlanNode:
        """Return the columns `schema` of a relation, then named expressions over it."""
        columns = (*result_columns(relation.scan, schema), *computed)
        filters = relation.scan.filters
        below = self._read(relation, [*(made for _, made in columns), *filters])
        return ProjectedRows(below, WindowProjection(columns, filters))

    def _read(self, relation: Relation, read: Sequence[Expression]) -> PlanNode:
        """Return the rows of a relation with the columns that expressions read."""
        below = relation.below
        if below is None:
            columns = self._columns(relation, read)
            source = self._table_read(relation, columns)
            if isinstance(source, SplitTable):
                return DatabaseRows(source)
            return FileRows(source, relation.scan.filters)
        if isinstance(below, MergedWindows) and isinstance(below.input, ExchangeStep):
            partials = below.input.input
            if is_local(partials, SliceRows, ArrowBuffer):
                local, aggregation = read_alone(partials, below.aggregation, read)
                exchange = replace(below.input, input=local)
                return replace(below, input=exchange, aggregation=aggregation)
        return below

    def _columns(self, relation: Relation, read: Sequence[Expression]) -> tuple[Column, ...]:
        """Return the columns of a table's files that expressions read."""
        scan = relation.scan
        names = {ref.name: ref for expression in read for ref in column_refs(expression)}
        places = {name: place for place, name in enumerate(scan.of_table)}
        columns = [Column(ref.name, ref.type) for ref in names.values()]
        columns.sort(key=lambda c: (places[c.name.partition(".")[0].lower()], c.name))
        return tuple(columns)

    def _table_read(
        self, relation: Relation, columns: tuple[Column, ...]
    ) -> FileSource | SplitTable:
        """Return the files of a table, or the table, with some columns."""
        scan = relation.scan
        # Any column of the table serves to count rows.
        stored = (made for made in scan.of_table.values() if isinstance(made, ColumnRef))
        flat = (Column(c.name, c.type) for c in stored if is_flat_type(c.type))
        wanted = columns or tuple(islice(flat, 1))
        source = self.catalog.scan_source(scan.table, wanted, scan.filters)
        if not wanted and not isinstance(source, TextSource):
            refuse("the rows are counted, and every column of the table is nested")
        if isinstance(source, SplitTable):
            if not source.is_read_in_process:
                refuse(f"Spark reads {'.'.join(scan.table)}")
            return source
        if isinstance(source, TextSource) and not columns:
            # Its values need not fit.
            source = replace(source, fields=(), partition_columns=())
        return source

    def emitted(self, node: Node, rows: Relation) -> Relation:
        """Return the rows of a node over windows. The simulator gives them to its operator."""
        return rows

    def local(
        self,
        relation: Relation,
        keys: tuple[tuple[str, Expression], ...],
        partials: tuple[PartialColumns[Expression], ...],
        time: Expression,
        slicing: Slicing,
    ) -> LocalRows:
        """Return the local stage over a relation.

        Args:
            relation: Rows to aggregate.
            keys: Group keys.
            partials: Partials of the accumulators.
            time: Time column.
            slicing: Window, time column and slices.
        """
        for name, key in keys:
            if not is_flat_type(key.type):
                refuse(f"the key {name} is {shown_type(key.type)}, which only Spark can group by")
        filters = relation.scan.filters
        read = [*filters, time, *(key for _, key in keys)]
        for partial in partials:
            read += [*partial.args, *([partial.condition] if partial.condition else [])]
        below = self._read(relation, read)
        of = (keys, partials, time, self.zone, filters)
        if isinstance(below, FileRows):
            return LocalStep(FileScan(*of, below.files), ArrowBuffer(), *slicing)
        return LocalStep(RowScan(*of, below), ArrowBuffer(), *slicing)

    def grouped(
        self,
        below: Relation,
        keys: tuple[tuple[str, Expression], ...],
        plans: tuple[AggregatePlan, ...] = (),
        *,
        is_total: bool = False,
    ) -> Relation:
        """Return one row per combination of keys, with the merged columns of aggregates."""
        partials = arrow_partials(plans, below.scan)
        slicing = (_ONE_WINDOW, "", "timestamp_ntz", SLICE_END, "")
        local = self.local(below, keys, partials, _ONE_TIME, slicing)
        names = tuple(name for name, _ in keys)
        aggregation = merge_windows(plans, _ONE_WINDOW, names)
        types = self.catalog.types_of_windows(local, aggregation.results)
        outputs = (*names, *aggregation.output_columns)
        if missing := [name for name in outputs if name not in types]:
            refuse(f"the type of {missing[0]} is Spark's")
        exchange = ExchangeStep(local, names)
        rows = MergedWindows(exchange, aggregation, is_total=is_total, has_windows=False)
        return self.relation_of(rows, tuple(Column(name, types[name]) for name in outputs))


def renamed(relation: Relation, schema: Schema) -> Relation:
    """Return a relation with other names for its columns, in order."""
    before = relation.scan.schema
    if len({column.name.lower() for column in before}) < len(before):
        refuse("two columns have the same name")
    columns = {
        new.name.lower(): relation.scan.columns[old.name.lower()]
        for old, new in zip(before, schema, strict=True)
    }
    return replace(relation, scan=replace(relation.scan, schema=schema, columns=columns))


@contextmanager
def refusals_in_process() -> Iterator[None]:
    """Name this process in refusals of a block, instead of the scan of the files of tasks."""
    try:
        yield
    except Refused as refused:
        refuse(refused.refusal.reason.replace("by the scan", "in this process"))
