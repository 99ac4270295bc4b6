"""Count the rows that a stream has read, each once.

Spark counts every reading of a source, and counts files as rows.

Private API, seen in Spark 4.3: `analyzed().collectLeaves()` and the classes of its leaves that read
streams. If one is missing, rows count as often as Spark counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.frames.heartbeat import is_heartbeat
from runtime.frames.reports import READ_METRIC, BatchReport, SourceReport
from runtime.local.streaming.messages import MessageKind
from runtime.spark.private import unless_missing
from runtime.spec.source import BRINGS_SPLITS

# Whether a source in a report is not one of the query's
IsOwn = Callable[[SourceReport], bool]
# Used as the number of readings of a source that brings file paths; their rows are counted apart
PATHS = 0
# Classes of Spark's two source interfaces in an analysed plan
_RELATIONS = ("StreamingRelation", "StreamingRelationV2")


def reads_of_sources(dataframe: DataFrame) -> tuple[int, ...]:
    """Return how often a stream reads the data of each of its sources.

    A streaming DataFrame that appears several times in a plan is one source, whose rows Spark
    counts each time; if both sides of a join read it, it is a source for each side.

    Args:
        dataframe: Streaming DataFrame.

    Returns:
        For each source, in the order of Spark's reports, the number of readings of the same rows
        by this source and others; PATHS if it has no rows. Empty if unknown.
    """
    return unless_missing(
        "rows that a stream reads several times are counted several times",
        lambda: _reads_of_sources(dataframe),
        (),
    )


def stream_leaves(dataframe: DataFrame) -> list[Any]:
    """Return the leaves of Spark's analysed plan that read streams, in order, as Java objects."""
    jvm_leaves = dataframe._jdf.queryExecution().analyzed().collectLeaves()
    all_leaves = [jvm_leaves.apply(position) for position in range(jvm_leaves.size())]
    return [leaf for leaf in all_leaves if leaf.getClass().getSimpleName() in _RELATIONS]


def _reads_of_sources(dataframe: DataFrame) -> tuple[int, ...]:
    leaves = stream_leaves(dataframe)
    jvm = dataframe.sparkSession._jvm
    assert jvm is not None, "streams are started where Spark's driver runs"
    behind = [jvm.java.lang.System.identityHashCode(_behind(leaf)) for leaf in leaves]
    # equal leaves are one source to Spark; py4j compares them in the JVM
    firsts = [i for i, leaf in enumerate(leaves) if leaf not in leaves[:i]]
    return tuple(
        PATHS if _brings_paths(leaves[first]) else behind.count(behind[first]) for first in firsts
    )


def _brings_paths(leaf: Any) -> bool:
    is_first = leaf.getClass().getSimpleName() == _RELATIONS[0]
    if not is_first:
        return bool(leaf.extraOptions().containsKey(BRINGS_SPLITS))
    source = leaf.dataSource()
    is_listing = bool(source.options().contains(BRINGS_SPLITS))
    return is_listing or str(source.className()) == "binaryFile"


def _behind(leaf: object) -> object:
    """Return the object that a source reads: unlike the leaf, joins do not copy it."""
    is_first = leaf.getClass().getSimpleName() == _RELATIONS[0]  # type: ignore[attr-defined]
    return leaf.dataSource() if is_first else leaf.table()  # type: ignore[attr-defined]


def report_row_counts(messages: DataFrame, number: int, table: str) -> DataFrame:
    """Remove row count messages from the output of a stage that reads files, and report them.

    The driver receives the counts as a metric.

    Args:
        messages: Rows of MESSAGE_DDL.
        number: Number of the operator.
        table: Table that the stage reads.
    """
    is_count = F.col("kind") == int(MessageKind.ROWS_READ)
    n_rows = F.sum(F.when(is_count, F.col("n_rows")))
    observed = messages.observe(f"{READ_METRIC}{number}.{table}", n_rows.alias("rows"))
    return observed.where(~is_count)


def report_rows(rows: DataFrame, number: int, table: str) -> DataFrame:
    """Report the number of rows that tasks read for Spark, as `report_row_counts` does.

    Args:
        rows: Rows.
        number: Number of the step among the steps that read splits.
        table: Table that they are read from.
    """
    return rows.observe(f"{READ_METRIC}s{number}.{table}", F.count(F.lit(1)).alias("rows"))


def rows_read(report: BatchReport, reads: Sequence[int], is_own: IsOwn = is_heartbeat) -> int:
    """Return the number of rows that a micro-batch read, each counted once.

    Args:
        report: Report of the micro-batch.
        reads: Result of `reads_of_sources`. If empty, rows are counted as Spark counts them.
        is_own: Whether a source has only control messages.
    """
    times = reads if len(reads) == len(report.sources) else [1] * len(report.sources)
    # Spark's total is not always the sum over the sources, so subtract the excess from it
    too_much = 0.0
    for source, n_times in zip(report.sources, times, strict=True):
        is_none = is_own(source) or n_times == PATHS
        too_much += source.n_rows if is_none else source.n_rows * (1 - 1 / n_times)
    by_spark = max(report.n_input_rows - too_much, 0.0)
    return round(by_spark) + _rows_from_files(report)


def _rows_from_files(report: BatchReport) -> int:
    """Return rows that local stages read themselves; a table with several readers counts once."""
    of_table: dict[str, int] = {}
    for name, n_rows in report.rows_read.items():
        _, _, table = name.partition(".")
        of_table[table] = max(n_rows, of_table.get(table, 0))
    return sum(of_table.values())
