"""What streams keep in their checkpoints, as rows of SHOW STATE."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from planner.explain.windows import window_text
from runtime.spark.files import files_at, resolve
from runtime.spec.identity import KeptOperator, window_of_fields
from runtime.streaming.status import clock
from runtime.streaming.stored_state import StoredOperator, StoredState, open_state

_COLUMNS = (
    "operator", "window", "keeps", "rows", "bytes", "keys", "aggregates", "key groups",
    "watermark", "closed until", "version",
)  # fmt: skip


def show_state(spark: SparkSession, directory: str) -> pa.Table:
    """A row for each kind of what an operator of a stream keeps.

    Args:
        spark: the session.
        directory: the checkpoint's, as the user names it.

    Raises:
        SqlwinError: there is no checkpoint, or it cannot be read.
    """
    where = resolve(spark, directory)
    state = open_state(spark, files_at(spark, where), where)
    rows = [row for operator in state.operators for row in _rows(state, operator)]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(values), pa.string()) for values in columns]
    return pa.table(dict(zip(_COLUMNS, arrays, strict=True)))


def _rows(state: StoredState, stored: StoredOperator) -> list[tuple[str, ...]]:
    kept = stored.operator
    windows, keys, aggregates = ("-", "-", "-") if kept is None else _described(kept)
    common = (
        keys,
        aggregates,
        str(len(stored.facts)),
        clock(stored.watermark_us),
        clock(stored.closed_us),
        str(state.version),
    )
    rows = [
        (str(stored.number), windows, each.kind.value, _count(each.n_rows), f"{each.n_bytes:,}")
        for each in stored.kinds
    ]
    return [(*row, *common) for row in rows or [(str(stored.number), windows, "nothing", "0", "0")]]


def _described(kept: KeptOperator) -> tuple[str, str, str]:
    windows = [reader.window for reader in kept.readers] or [kept.window]
    return (
        "; ".join(
            window_text(window_of_fields(window), f"time_col=[{kept.time[0]}]")
            for window in windows
        ),
        ", ".join(key.name for key in kept.keys) or "-",
        ", ".join(accumulator.name for accumulator in kept.accumulators) or "-",
    )


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
