"""One stream into several tables: each gets its own rows of a micro-batch, under its number.

Spark computes a micro-batch anew that was not written whole, and every table then takes it as
one stream's table would: files of the same micro-batch are replaced, table by table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from runtime.connectors.connector import WriteBatch
from runtime.connectors.late_rows import LateTable, closed_until_sent
from runtime.connectors.stream_sinks import StreamRun, for_each, open_batches, seen
from runtime.spec.table import TableSpec


@dataclass(frozen=True)
class SetPart:
    """What one of the tables gets.

    Attributes:
        spec: the table, found right by `check_sink`; not one that Spark itself streams to.
        rows: its rows of a micro-batch, of those of all: its columns, in their order.
        none: the same columns without rows.
        late: where its late rows go; None: they are dropped.
        late_rows: these, of the rows of all.
        none_late: the same columns without rows.
    """

    spec: TableSpec
    rows: Callable[[DataFrame], DataFrame]
    none: DataFrame
    late: LateTable | None = None
    late_rows: Callable[[DataFrame], DataFrame] | None = None
    none_late: DataFrame | None = None


def start_writing_set(rows: DataFrame, parts: Sequence[SetPart], run: StreamRun) -> StreamingQuery:
    """Start a stream into several tables.

    Args:
        rows: `reader` INT, the position of a part, `windows`, NULL where there is nothing, and
            `watermark_us`, not NULL where these are late rows.
        parts: the tables.
        run: how to start it; `run.written` counts the rows of each part. `run.late` is of one
            part's late rows, where parts have any.

    Raises:
        SqlwinError: Spark or a sink refuses it.
    """
    # kept apart, if some should be in one directory
    writers = [
        seen(run, part.spec, open_batches(part.none, part.spec, run, f"i{number}"))
        for number, part in enumerate(parts)
    ]
    late_writers = [_late_writer(part, run, f"i{number}late") for number, part in enumerate(parts)]
    run.written = [0] * len(parts)
    is_first = True

    def write(found: DataFrame, batch: int) -> int | None:
        nonlocal is_first
        is_late = F.col("watermark_us").isNotNull().alias("is_late")
        # several jobs read it, and the state may be written by one alone
        found.persist()
        try:
            # a row is a blob of windows: they are few
            kinds = found.where(F.col("windows").isNotNull()).select("reader", is_late).collect()
            with_rows = {row.reader for row in kinds if not row.is_late}
            with_late = {row.reader for row in kinds if row.is_late}
            counts = [
                # a first micro-batch may be one that was cut short: what it left is replaced
                writer(part.rows(found), batch) if is_first or number in with_rows else 0
                for number, (part, writer) in enumerate(zip(parts, writers, strict=True))
            ]
            for number, write_late in enumerate(late_writers):
                if write_late is not None and (is_first or number in with_late):
                    write_late(found, batch)
        finally:
            found.unpersist()
        is_first = False
        run.written = [
            None if before is None or count is None else before + count
            for before, count in zip(run.written, counts, strict=True)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def counted_with_closed(found: DataFrame, batch: int) -> int | None:
        if run.late is None:
            return write(found, batch)
        with closed_until_sent(found.sparkSession, run.late, batch, run.query):
            return write(found, batch)

    return for_each(rows, run, counted_with_closed)


def _late_writer(part: SetPart, run: StreamRun, name: str) -> WriteBatch | None:
    """What writes a part's late rows, of the rows of all; None: they are dropped."""
    late, late_rows, none = part.late, part.late_rows, part.none_late
    if late is None or late_rows is None or none is None:
        return None
    write = open_batches(late.rows(none), late.spec, run, name)
    return lambda found, batch: write(late.rows(late_rows(found)), batch)
