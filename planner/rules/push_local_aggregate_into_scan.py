"""Move a local window aggregate into the scan of a table of files or of Kafka."""

from __future__ import annotations

from planner.arrow.partials import local_expressions
from planner.arrow.scan_rows import Made
from planner.catalog import Catalog
from planner.nodes.logical import Node
from planner.nodes.physical import (
    LocalWindowAggregate,
    ScanLocalWindowAggregate,
    attributes,
)
from planner.optimizer import Options
from planner.streams.delay import plain_delay_us
from runtime.plan.local import FileScan, SplitScan
from runtime.refusal import Refusal, refuse, tried
from runtime.spec.expressions import Call, Constant, Expression
from runtime.spec.source import SplitTable
from runtime.spec.text import FileSource


def push_local_aggregate_into_scan(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate rows into slices in the scan, without converting them to JVM rows.

    Fires on a local window aggregate over a table of files, or of Kafka messages, if

    - there are only filters, computed columns and column selections in between;
    - Arrow evaluates every expression with Spark's semantics;
    - the scan reads this format of files or messages as Spark does;
    - on a stream, the watermark is the time or a constant delay before it.

    Example:
        >>> before_after(
        ...     "push_local_aggregate_into_scan",
        ...     "SELECT window_end, SUM(fare) AS s "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY window_start, window_end",
        ... )
        before:
        LocalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[SUM(fare) AS s$0,
          slice_end('w$) AS $slice_end])
        +- Calc(select=[ts, fare])
           +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
        after:
        ArrowScanLocalWindowAggregate(table=[trips], fields=[ts, fare],
          window=[TUMBLE(time_col=[ts], size=[1 h])], select=[SUM(fare) AS s$0,
          slice_end('w$) AS $slice_end])
    """
    if type(node) is not LocalWindowAggregate:
        return None
    return tried(_push, node, options.catalog, options.time_zone)


def _push(node: LocalWindowAggregate, catalog: Catalog, zone: str) -> Node:
    local = local_expressions(node.input, node.keys, node.plans, node.time_column, catalog, zone)
    rows, keys, time, partials = local.rows, local.keys, local.time, local.partials
    columns = local.columns
    stream = catalog.stream(rows.table)
    source: FileSource | SplitTable
    if stream is None:
        source = catalog.scan_source(rows.table, columns, rows.filters)
    else:
        if stream.late_rows is not None:
            refuse(f"late rows go to {stream.late_rows} with all columns of the table")
        source = catalog.stream_splits(rows.table, columns)
    name, delay_us = ".".join(rows.table), None
    if stream is not None and not node.window.closes:
        delay_us = 0  # no watermark is followed
    elif stream is not None:
        followed = stream.watermark
        delay_us = None if followed is None else plain_delay_us(followed, catalog)
        if followed is not None and delay_us is not None:
            shift_us = _shift_us(time, rows.of_table[followed.column.lower()])
            delay_us = None if shift_us is None else delay_us + shift_us
        if delay_us is None:
            refuse("the watermark is not the time column with a constant delay")
    scan: FileScan | SplitScan
    if isinstance(source, SplitTable):
        name = source.table.name
        follows_splits = stream is not None and stream.has_splits and node.window.closes
        scan = SplitScan(keys, partials, time, zone, rows.filters, source, follows_splits)
    else:
        scan = FileScan(keys, partials, time, zone, rows.filters, source)
    return ScanLocalWindowAggregate(
        **attributes(node, LocalWindowAggregate),
        table=name,
        scan=scan,
        conditions=rows.conditions,
        delay_us=delay_us,
    )


def _shift_us(time: Expression, column: Made) -> int | None:
    """Return how much later than a column a time is, in microseconds. None if it is not constant.

    Joins within an interval use later times than their rows have.
    """
    match time:
        case Call("shift", (base, Constant(int(by_us)))) if base == column and by_us >= 0:
            return by_us
    return 0 if time == column else None
