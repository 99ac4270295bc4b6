"""The parallelism of window aggregations, and into how many buckets their keys go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.nodes.logical import Node, WindowAggregate
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    ScanLocalWindowAggregate,
    SharedExchange,
    SliceScan,
)
from planner.optimizer import ParallelismOptions
from runtime.spec.local import FileScan
from runtime.spec.scan import ScanSource
from runtime.spec.windows import SessionWindow, Window

# More buckets than tasks: a bucket is what a task of the global stage holds in memory.
_BUCKETS_PER_PARTITION = 4
_MOST_BUCKETS_PER_PARTITION = 64
_BUCKET_BYTES = 64 << 20
# A task that has less to do than this, in bytes and rows in or in rows out, is not worth its start.
_TASK_BYTES = 32 << 20
_TASK_ROWS = 1 << 16
_TASK_WINDOWS = 1 << 22

# Bytes of a value, about; of a decimal 16, of all else 8
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
_WIDTHS |= {"string": 16, "binary": 16}


def with_parallelism(plans: Sequence[Node], options: ParallelismOptions) -> list[Node]:
    """Physical plans with the tasks and buckets of each of their exchanges.

    From files whose sizes are known, few tasks for few rows: by the bytes that are read, and by the
    windows that may be emitted. From anything else, as many as Spark would take. What plans have in
    common they still have afterwards.
    """
    done: dict[int, Node] = {}

    def chosen(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = _chosen(node.with_each_input(chosen), options)
        return done[id(node)]

    return [chosen(plan) for plan in plans]


def _chosen(node: Node, options: ParallelismOptions) -> Node:
    if not isinstance(node, Exchange | SharedExchange):
        return node
    if not node.keys:
        return replace(node, partitions=1, buckets=1)
    partitions, buckets = options.partitions, options.buckets
    scan = _scan_below(node.input)
    n_bytes = 0
    if scan is not None:
        n_rows, n_bytes = _amounts(scan)
        windows = node.windows if isinstance(node, SharedExchange) else (scan.window,)
        wanted = max(_tasks(window, n_rows, n_bytes) for window in windows)
        partitions = partitions or min(wanted, options.most_partitions)
    partitions = partitions or options.most_partitions
    if buckets is None:
        wanted = max(partitions * _BUCKETS_PER_PARTITION, _up(n_bytes, _BUCKET_BYTES))
        buckets = min(wanted, partitions * _MOST_BUCKETS_PER_PARTITION)
    return replace(node, partitions=min(partitions, buckets), buckets=buckets)


def _amounts(scan: ScanLocalWindowAggregate | SliceScan) -> tuple[int, int]:
    """Rows that are read, and bytes of them."""
    if isinstance(scan, SliceScan):
        sources = scan.sources
    else:
        # how many messages there are is not known before they are read
        sources = (scan.scan.files,) if isinstance(scan.scan, FileScan) else ()
    n_bytes = sum(each.n_rows * _row_bytes(each) for each in sources)
    return sum(each.n_rows for each in sources), n_bytes


def _scan_below(node: Node) -> ScanLocalWindowAggregate | SliceScan | None:
    """The scan whose partials go into an exchange, unless windows are computed in between."""
    while not isinstance(node, ScanLocalWindowAggregate | SliceScan):
        if len(node.inputs) != 1 or isinstance(node, GlobalWindowAggregate | WindowAggregate):
            return None
        node = node.inputs[0]
    is_stream = isinstance(node, ScanLocalWindowAggregate) and node.delay_us is not None
    return None if is_stream else node


def _tasks(window: Window, n_rows: int, n_bytes: int) -> int:
    overlap = 1 if isinstance(window, SessionWindow) else window.slices_per_window
    # A row makes so many windows at most; how many keys share them is not known.
    by_windows = min(_up(n_rows * overlap, _TASK_WINDOWS), _up(n_rows, _TASK_ROWS))
    return max(1, _up(n_bytes, _TASK_BYTES), by_windows)


def _row_bytes(files: ScanSource) -> int:
    return sum(
        16 if c.type.startswith("decimal") else _WIDTHS.get(c.type, 8) for c in files.columns
    )


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)
