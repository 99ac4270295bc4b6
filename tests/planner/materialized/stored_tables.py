"""Materialized tables without Spark: slices are made, stored in Parquet files, planned and read
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from sqlglot import exp

from planner.arrow.partials import local_expressions
from planner.arrow.scan_rows import window_projection
from planner.catalog import Schema
from planner.lowering.plan import lower, lower_in_process
from planner.materialized.form import local_form, stored_columns
from planner.nodes.logical import Node
from planner.nodes.physical import GlobalWindowAggregate, LocalWindowAggregate
from planner.optimizer import Options
from planner.plan import Plan, plan_query
from runtime.compute.arrow.projection import window_projector
from runtime.compute.kernels.merge import merge_slices, merged_schema
from runtime.compute.kernels.roll_up import roll_up_levels
from runtime.engines.local.execute import ComputedRows
from runtime.engines.local.partials import tables_in_process
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import aggregate, buffer_plan
from runtime.plan.exchange import MergedWindows, SharedSlicesStep, WindowProjection
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, SliceRows, is_local
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refusal, tried
from runtime.scan.splits import plan_splits
from runtime.spec.materialized import SliceFiles, SliceTable
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column, TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import View
from sqlwin.catalog.streams import StreamReading
from sqlwin.config.config import Config
from sqlwin.execution.in_process import why_not_read
from sqlwin.parser.parser import parse_query
from tests.planner.test_docstrings import Catalog as Inferring
from tests.unstarted import NeedsSparkError, unstarted_spark


@dataclass(frozen=True)
class StoredTable:
    """A materialized table.

    Attributes:
        table: The planner's description.
        files: Its files.
        base_files: Paths of the base files in it.
    """

    table: SliceTable
    files: tuple[ScanFile, ...]
    base_files: frozenset[str]


def no_views(view: View) -> DataFrame:
    """Fail: views are never registered with Spark here."""
    raise AssertionError(view.name)


class Tables(SessionCatalog):
    """Tables of Parquet files, and materialized tables over them.

    Attributes:
        stored: Materialized tables.
        asked: Ranges of slices for which files were requested.
        zone: Session time zone.
    """

    def __init__(self) -> None:
        super().__init__(unstarted_spark(), no_views, lambda: Config().mask)
        self.zone = "UTC"
        self.stored: list[StoredTable] = []
        self.asked: list[tuple[int | None, int | None]] = []

    def add_files(self, name: str, path: Path) -> None:
        """Add a table of the Parquet files in a directory."""
        options = (("path", str(path)), ("format", "parquet"))
        spec = TableSpec(name, "filesystem", options=options)
        self.add((name,), spec, replace=False, if_not_exists=False)

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        try:
            return super().analyze(query, relations)
        except NeedsSparkError:
            shown = {key[-1]: columns for key, (_, columns) in self._views.without_view.items()}
            # types inferred by sqlglot
            return Inferring().analyze(query, {**shown, **relations})

    def slice_tables(self, base: str) -> list[SliceTable]:
        return [item.table for item in self.stored if item.table.form.base == base]

    def slice_files(
        self,
        table: SliceTable,
        range_us: tuple[int | None, int | None],
        columns: tuple[Column, ...] | None,
    ) -> SliceFiles:
        self.asked.append(range_us)
        (result,) = (item for item in self.stored if item.table == table)
        if columns is None:
            return SliceFiles(result.files, 1)
        base = self.scan_source((table.form.base,), columns)
        assert isinstance(base, ScanSource)
        left = tuple(file for file in base.files if file.path not in result.base_files)
        n_rows = sum(pq.read_metadata(file.path).num_rows for file in result.files)
        n_left = sum(pq.read_metadata(file.path).num_rows for file in left)
        tail = replace(base, files=left, n_rows=n_left) if left else None
        return SliceFiles(result.files, n_rows, tail, len(left))

    def materialize(
        self, name: str, sql: str, path: Path, base_files: Sequence[str]
    ) -> StoredTable:
        """Store the slices of a query over some of its base's files, one slice file for each."""
        node = local_of(self.plan(sql, rewrites_to_slices=False).physical)
        form = local_form(node, self, self.zone)
        result = local_expressions(
            node.input, node.keys, node.plans, node.time_column, self, self.zone
        )
        source = self.scan_source(result.rows.table, result.columns)
        assert isinstance(source, ScanSource)
        columns = {stored: column for column, stored in reversed(stored_columns(result, form))}
        path.mkdir()
        files = []
        for number, base_file in enumerate(base_files):
            one = replace(source, files=tuple(f for f in source.files if f.path == base_file))
            scan = FileScan(
                result.keys, result.partials, result.time, self.zone, result.rows.filters, one
            )
            of = (form.grid, node.time_column, node.time_type, "slice_end")
            partials = pa.concat_tables(scan_partials(LocalStep(scan, ArrowBuffer(), *of)))
            table = pa.table(
                {column: partials.column(columns.get(column, column)) for column in form.columns}
            )
            files.append(ScanFile(str(path / f"{number}.parquet")))
            pq.write_table(table, files[-1].path, row_group_size=50)
        stored = StoredTable(
            SliceTable(name, str(path), 7, form), tuple(files), frozenset(base_files)
        )
        self.stored.append(stored)
        return stored

    def plan(self, sql: str, **options: Any) -> Plan:
        """Return the plan of a query."""
        self.start_statement(StreamReading())
        return plan_query(
            parse_query(sql), sql, Options(catalog=self, time_zone=self.zone, **options)
        )

    def rows(self, sql: str, **options: Any) -> pa.Table:
        """Return the rows of a query that workers would make, sorted."""
        plan = self.plan(sql, **options)
        table = pa.Table.from_batches(rows_of(plan, self))
        return table.sort_by([(name, "ascending") for name in table.column_names])


def local_of(node: Node) -> LocalWindowAggregate:
    """Return the local window aggregate in a plan."""
    while not isinstance(node, LocalWindowAggregate):
        (node,) = node.inputs
    return node


def scan_partials(step: LocalStep[Any, Any]) -> list[pa.Table]:
    """Return the partials of rows of files."""
    plan = buffer_plan(step, *scan_projection(step.source))
    tables = [plan.schema.empty_table()]
    for split in plan_splits(step.source.files, step.source.filters, 1):
        rows = ScanRows(step).rows_of_split(split)
        batches = list(aggregate(plan, map(plan.rows, rows), pa.Table.to_batches))
        tables.append(pa.Table.from_batches(batches, plan.schema))
    return tables


def rows_of(plan: Plan, catalog: Tables) -> Iterator[pa.RecordBatch]:
    """The rows of a plan, as batches."""
    windows = _windows_in(lower(plan.physical, catalog, "UTC"))
    aggregation, below = windows.aggregation, windows.input
    shared = below if isinstance(below, SharedSlicesStep) else None
    exchange = below.input if shared is not None else below
    local = exchange.input
    assert isinstance(local, LocalStep), local
    tables = (
        tables_in_process(local)
        if is_local(local, SliceRows, ArrowBuffer)
        else scan_partials(local)
    )
    partials = pa.concat_tables(tables)
    if shared is not None:
        levels = roll_up_levels(
            partials, exchange.keys, exchange.slice_end, exchange.accumulators, exchange.levels
        )
        level = dict(levels)[shared.level]
        columns = [level.column(name) for name, _ in shared.columns]
        partials = pa.table(columns, [own for _, own in shared.columns])
    merged = merged_schema(partials.schema, aggregation)
    types = {field.name: _ddl(field.type) for field in merged}
    projection = window_projection(plan.physical, "UTC", types)
    assert isinstance(projection, WindowProjection)
    step = tried(lower_in_process, plan.physical, catalog, "UTC")
    if not isinstance(step, Refusal) and why_not_read(step, 1 << 30) is None:
        for batch in ComputedRows(step).batches():
            # that windows have bounds is not known of what tasks make
            fields = [field.with_nullable(True) for field in batch.schema]
            yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
        return
    assert shared is not None or not is_local(local, SliceRows, ArrowBuffer)
    make = window_projector(
        lambda _: merge_slices(partials, aggregation), projection, aggregation.window_end
    )
    yield from make([])


def _windows_in(step: PlanNode) -> MergedWindows:
    return next(node for node in step.walk() if isinstance(node, MergedWindows))


def _ddl(type_: pa.DataType) -> str:
    names = {
        pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.float64(): "double",
        pa.timestamp("us"): "timestamp_ntz", pa.bool_(): "boolean",
    }  # fmt: skip
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return names.get(type_, str(type_))


def windows_below(node: Node) -> list[GlobalWindowAggregate]:
    """Return the window aggregates of a plan."""
    result = [item for child in node.inputs for item in windows_below(child)]
    return [*result, node] if isinstance(node, GlobalWindowAggregate) else result
