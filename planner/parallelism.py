"""Choose the parallelism of window aggregations and their number of buckets."""

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
from runtime.plan.local import FileScan
from runtime.spec.text import FileSource
from runtime.windows import Window

# More buckets than tasks, because a task of the global stage holds one bucket in memory.
_BUCKETS_PER_PARTITION = 4
_MAX_BUCKETS_PER_PARTITION = 64
_BUCKET_BYTES = 64 << 20
# Work of a task, in input bytes, input rows or output rows, below which it is not worth starting.
_TASK_BYTES = 32 << 20
_TASK_ROWS = 1 << 16
_TASK_WINDOWS = 1 << 22

# Approximate bytes per value. A decimal takes 16, any other type 8.
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
_WIDTHS |= {"string": 16, "binary": 16}


def set_parallelism(plans: Sequence[Node], options: ParallelismOptions) -> list[Node]:
    """Return physical plans with the number of tasks and buckets set on exchanges.

    If the input is files of known size, the numbers follow from the bytes to read and the windows
    that may be emitted. Otherwise Spark's default parallelism applies. Nodes shared between plans
    stay shared.
    """
    rewritten: dict[int, Node] = {}

    def chosen(node: Node) -> Node:
        if id(node) not in rewritten:
            rewritten[id(node)] = _choose_tasks(node.with_each_input(chosen), options)
        return rewritten[id(node)]

    return [chosen(plan) for plan in plans]


def _choose_tasks(node: Node, options: ParallelismOptions) -> Node:
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
        number = max(_tasks(window, n_rows, n_bytes) for window in windows)
        partitions = partitions or min(number, options.most_partitions)
    partitions = partitions or options.most_partitions
    if buckets is None:
        number = max(partitions * _BUCKETS_PER_PARTITION, _up(n_bytes, _BUCKET_BYTES))
        buckets = min(number, partitions * _MAX_BUCKETS_PER_PARTITION)
    return replace(node, partitions=min(partitions, buckets), buckets=buckets)


def _amounts(scan: ScanLocalWindowAggregate | SliceScan) -> tuple[int, int]:
    """Return the number of rows and of bytes to read."""
    sources: tuple[FileSource, ...] = ()
    if isinstance(scan, SliceScan):
        sources = scan.sources
    elif isinstance(scan.scan, FileScan):
        # The number of messages is unknown before they are read.
        sources = (scan.scan.files,)
    n_bytes = sum(file.n_rows * _row_bytes(file) for file in sources)
    return sum(file.n_rows for file in sources), n_bytes


def _scan_below(node: Node) -> ScanLocalWindowAggregate | SliceScan | None:
    """Return the scan that feeds an exchange, or None if windows are computed in between."""
    while not isinstance(node, ScanLocalWindowAggregate | SliceScan):
        if len(node.inputs) != 1 or isinstance(node, GlobalWindowAggregate | WindowAggregate):
            return None
        node = node.inputs[0]
    is_stream = isinstance(node, ScanLocalWindowAggregate) and node.delay_us is not None
    return None if is_stream else node


def _tasks(window: Window, n_rows: int, n_bytes: int) -> int:
    # Upper bound: how many keys share the windows of a row is unknown.
    by_windows = min(_up(n_rows * window.slices_per_window, _TASK_WINDOWS), _up(n_rows, _TASK_ROWS))
    return max(1, _up(n_bytes, _TASK_BYTES), by_windows)


def _row_bytes(files: FileSource) -> int:
    return sum(
        16 if c.type.startswith("decimal") else _WIDTHS.get(c.type, 8) for c in files.columns
    )


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)
