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

from runtime.sinks.streaming import StreamRun, batch_writer, for_each
from runtime.table_spec import TableSpec


@dataclass(frozen=True)
class SetPart:
    """What one of the tables gets.

    Attributes:
        spec: the table, found right by `check_sink`; not one that Spark itself streams to.
        rows: its rows of a micro-batch, of those of all: its columns, in their order.
        none: the same columns without rows.
    """

    spec: TableSpec
    rows: Callable[[DataFrame], DataFrame]
    none: DataFrame


def start_writing_set(rows: DataFrame, parts: Sequence[SetPart], run: StreamRun) -> StreamingQuery:
    """Start a stream into several tables.

    Args:
        rows: `reader` INT, the position of a part, and `windows`, NULL where there is nothing.
        parts: the tables.
        run: how to start it; `run.written` counts the rows of each part.

    Raises:
        SqlwinError: Spark or a sink refuses it.
    """
    # told apart, if some should be in one directory
    writers = [
        batch_writer(part.none, part.spec, f"{run.writer}i{number}")
        for number, part in enumerate(parts)
    ]
    run.written = [0] * len(parts)
    is_first = True

    def write(found: DataFrame, batch: int) -> int | None:
        nonlocal is_first
        # several jobs read it, and the state may be written by one alone
        found.persist()
        try:
            told = found.where(F.col("windows").isNotNull()).select("reader").distinct().collect()
            with_rows = {row.reader for row in told}
            counts = [
                # a first micro-batch may be one that was cut short: what it left is replaced
                writer(part.rows(found), batch) if is_first or number in with_rows else 0
                for number, (part, writer) in enumerate(zip(parts, writers, strict=True))
            ]
        finally:
            found.unpersist()
        is_first = False
        run.written = [
            None if before is None or count is None else before + count
            for before, count in zip(run.written, counts, strict=True)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    return for_each(rows, run, write)
