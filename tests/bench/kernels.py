"""Time the inner loops per row or per window: `python -m tests.bench.kernels`. No Spark.

Runs on one core, on the rows of the benchmarks; times are the best of several runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from runtime.compute.arrow.blobs import from_blobs, pieces, to_blob
from runtime.compute.arrow.packed import pack, unpack
from runtime.compute.kernels.keys import bucket_of
from runtime.compute.kernels.merge import merge_slices
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import aggregate, buffer_plan
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, PartialColumns, ScanLocalStep
from runtime.scan.metadata import find_source
from runtime.scan.read import read_batches
from runtime.scan.splits import plan_splits
from runtime.spec.aggregates import (
    Accumulator,
    ApproxCountDistinct,
    CollectRegisters,
    CollectSet,
    Distinct,
    Merge,
    MergeOp,
    WindowAggregation,
)
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.bench import data

MINUTE = 60_000_000
DAY = 1440 * MINUTE
PRICE, VAL = ColumnRef("price", "bigint"), ColumnRef("val", "double")
REGISTER = Call("register", (PRICE, Constant(9, "int")), "int")

SUMS = (
    PartialColumns(Merge(("s",), MergeOp.SUM), (PRICE,)),
    PartialColumns(Merge(("n",), MergeOp.COUNT), ()),
    PartialColumns(Merge(("v",), MergeOp.SUM), (VAL,)),
    PartialColumns(Merge(("m",), MergeOp.MAX), (PRICE,)),
)
SET = (PartialColumns(CollectSet(("values",)), (PRICE,)),)
REGISTERS = (PartialColumns(CollectRegisters(("values",), 9), (REGISTER,)),)

_MERGED: dict[type[Accumulator], Accumulator] = {
    CollectSet: Distinct(("values",), Column("d", "bigint"), MergeOp.COUNT),
    CollectRegisters: ApproxCountDistinct(("values",), Column("d", "bigint"), 9),
}
WINDOWS: list[tuple[str, AlignedWindow]] = [
    ("TUMBLE 1 min", Tumble(MINUTE)),
    ("HOP 1 min / 10 min", Hop(MINUTE, 10 * MINUTE)),
    ("HOP 1 min / 1 h", Hop(MINUTE, 60 * MINUTE)),
    ("HOP 1 min / 1 d", Hop(MINUTE, DAY)),
    ("CUMULATE 1 min / 1 d", Cumulate(MINUTE, DAY)),
]


def main() -> None:
    """Time each stage and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kernels", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--key-type", choices=("int", "string"), default="int")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    path = data.make(options.data, options.rows, options.keys, options.key_type)
    table = Table("stage", "input", "items", "ns an item", title=f"{options.rows:,} rows")
    source = _source(path, options.key_type)

    def add(stage: str, what: str, n_items: int, work: Callable[[], Any]) -> Any:
        seconds, result = _best(work, options.runs)
        table.add_row(stage, what, f"{n_items:,}", f"{seconds / max(n_items, 1) * 1e9:.1f}")
        return result

    add("read", "rows", options.rows, lambda: _n_read(source))
    for name, partials in (("sums", SUMS), ("distinct", SET), ("registers", REGISTERS)):
        step = _step(source, Tumble(MINUTE), partials, options.key_type)
        partials_sent = add(
            f"read and aggregate, {name}", "rows", options.rows, lambda s=step: _partials(s)
        )
        add(
            f"cut into buckets, {name}",
            "partials",
            partials_sent.num_rows,
            lambda t=partials_sent: _cut(t),
        )
        add(
            f"blobs, {name}",
            "partials",
            partials_sent.num_rows,
            lambda t=partials_sent: _there_and_back(t),
        )
        kept = [pack(piece) for piece in pieces(partials_sent)]
        size = f"state of {sum(map(len, kept)) / partials_sent.num_rows:.1f} bytes a partial"
        add(
            f"{size}, pack, {name}",
            "partials",
            partials_sent.num_rows,
            lambda t=partials_sent: _pack(t),
        )
        add(
            f"{size}, unpack, {name}",
            "partials",
            partials_sent.num_rows,
            lambda k=kept: _unpack(k),
        )
        for title, window in WINDOWS:
            n_windows = sum(batch.num_rows for batch in _windows(partials_sent, window, partials))
            add(
                f"{title}, {name}",
                "windows",
                n_windows,
                lambda t=partials_sent, w=window, p=partials: list(_windows(t, w, p)),
            )
    Console().print(table)


def _best(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(runs):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result


def _source(path: Path, key_type: str) -> ScanSource:
    key = Column("key", "bigint" if key_type == "int" else "string")
    columns = [Column("ts", "timestamp_ntz"), key, Column("price", "bigint")]
    source = find_source(str(path), [str(path)], [*columns, Column("val", "double")])
    assert isinstance(source, ScanSource), source
    return source


def _step(
    source: ScanSource,
    window: AlignedWindow,
    partials: tuple[PartialColumns[Expression], ...],
    key_type: str,
) -> ScanLocalStep:
    key = ColumnRef("key", "bigint" if key_type == "int" else "string")
    read = {"ts", "key", "price"} | ({"val"} if partials is SUMS else set())
    columns = tuple(column for column in source.columns if column.name in read)
    source = ScanSource(source.path, source.files, columns)
    scan = FileScan((("key", key),), partials, ColumnRef("ts", "timestamp_ntz"), "UTC", (), source)
    return LocalStep(scan, ArrowBuffer(), window, "ts", "timestamp_ntz", "slice")


def _n_read(source: ScanSource) -> int:
    splits = plan_splits(source, (), 4)
    none: frozenset[str] = frozenset()
    return sum(b.num_rows for split in splits for b in read_batches(split, source, none))


def _partials(step: ScanLocalStep) -> pa.Table:
    plan = buffer_plan(step, *scan_projection(step.source))
    rows = ScanRows(step)
    batches = [
        batch
        for split in plan_splits(step.source.files, (), 4)
        for batch in aggregate(plan, map(plan.rows, rows.rows_of_split(split)), pa.Table.to_batches)
    ]
    return pa.Table.from_batches(batches)


def _cut(table: pa.Table) -> Any:
    return bucket_of([table.column("key")], table.num_rows, 16)


def _there_and_back(table: pa.Table) -> pa.Table:
    return from_blobs([to_blob(table, "lz4")])


def _pack(table: pa.Table) -> int:
    return sum(len(pack(piece)) for piece in pieces(table))


def _unpack(blobs: list[bytes]) -> int:
    return sum(unpack(blob).num_rows for blob in blobs)


def _windows(
    table: pa.Table, window: AlignedWindow, partials: tuple[PartialColumns[Expression], ...]
) -> Any:
    accumulators = tuple(_MERGED.get(type(p.into), p.into) for p in partials)
    spec = WindowAggregation(window, ("key",), "slice", accumulators)
    return merge_slices(table, spec)


if __name__ == "__main__":
    main()
