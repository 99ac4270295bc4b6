"""How many rows a stream has read, each once: Spark counts every reading, and files as rows.

Private API, seen in Spark 4.3: `analyzed().collectLeaves()` and the classes of its leaves that read
streams. Where one is missing, rows count as often as Spark counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.frames.observed import as_dict
from runtime.local.streaming.messages import MessageKind
from runtime.spark.private import unless_missing
from runtime.spec.source import BRINGS_SPLITS
from runtime.streaming.heartbeat import is_heartbeat

_READ_METRIC = "sqlwin.read."
# Whether a source in a report of Spark's is none of the query's
IsOwn = Callable[[Mapping[str, Any]], bool]
# In place of how often a source is read: it brings paths of files, whose rows are counted apart
PATHS = 0
# Sources of the two interfaces that Spark has for them, as they stand in a plan that was analysed
_RELATIONS = ("StreamingRelation", "StreamingRelationV2")


def reads_of_sources(dataframe: DataFrame) -> tuple[int, ...]:
    """How often a stream reads what is behind each of its sources.

    A streaming DataFrame that stands in a plan several times is one source, whose rows Spark counts
    each time; where the two sides of a join read it, it is a source for each.

    Args:
        dataframe: what the stream computes.

    Returns:
        For each source, in the order of Spark's progress, how many readings there are of the same
        rows, by this source and by others; PATHS if it has no rows. Empty if that is unknown.
    """
    return unless_missing(
        "rows that a stream reads several times count several times",
        lambda: _reads_of_sources(dataframe),
        (),
    )


def _reads_of_sources(dataframe: DataFrame) -> tuple[int, ...]:
    found = dataframe._jdf.queryExecution().analyzed().collectLeaves()
    every = [found.apply(position) for position in range(found.size())]
    leaves = [leaf for leaf in every if leaf.getClass().getSimpleName() in _RELATIONS]
    jvm = dataframe.sparkSession._jvm
    assert jvm is not None, "streams are started where Spark's driver runs"
    behind = [jvm.java.lang.System.identityHashCode(_behind(leaf)) for leaf in leaves]
    # equal leaves are one source to Spark: py4j asks the JVM whether they are equal
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
    """What a source reads; for each side of a join the leaf is copied, and this is not."""
    is_first = leaf.getClass().getSimpleName() == _RELATIONS[0]  # type: ignore[attr-defined]
    return leaf.dataSource() if is_first else leaf.table()  # type: ignore[attr-defined]


def read_counted(messages: DataFrame, number: int, table: str) -> DataFrame:
    """Messages of a stage that reads files itself, without those that say how many rows it read.

    These reach the driver as a metric.

    Args:
        messages: rows of MESSAGE_DDL.
        number: that of the operator.
        table: whose files they are.
    """
    is_count = F.col("kind") == int(MessageKind.ROWS_READ)
    n_rows = F.sum(F.when(is_count, F.col("n_rows")))
    counted = messages.observe(f"{_READ_METRIC}{number}.{table}", n_rows.alias("rows"))
    return counted.where(~is_count)


def rows_read(
    progress: Mapping[str, Any], reads: Sequence[int], is_own: IsOwn = is_heartbeat
) -> int:
    """Rows that a micro-batch read, each once.

    Args:
        progress: Spark's report of it.
        reads: how often each source is read, see `reads_of_sources`; empty: as Spark counts.
        is_own: whether a source in the report is one whose rows are control messages only.
    """
    sources = progress.get("sources") or ()
    times = reads if len(reads) == len(sources) else [1] * len(sources)
    # Spark's sum is not always that of the sources: from it is taken what is too much
    too_much = 0.0
    for source, n_times in zip(sources, times, strict=True):
        found = float(source.get("numInputRows") or 0)
        is_none = is_own(source) or n_times == PATHS
        too_much += found if is_none else found * (1 - 1 / n_times)
    by_spark = max(float(progress.get("numInputRows") or 0) - too_much, 0.0)
    return round(by_spark) + _read_from_files(progress)


def _read_from_files(progress: Mapping[str, Any]) -> int:
    """Rows that local stages read themselves; a table that several read counts once."""
    of_table: dict[str, int] = {}
    for name, row in (progress.get("observedMetrics") or {}).items():
        if name.startswith(_READ_METRIC):
            _, _, table = name.removeprefix(_READ_METRIC).partition(".")
            n_rows = int(as_dict(row)["rows"] or 0)
            of_table[table] = max(n_rows, of_table.get(table, 0))
    return sum(of_table.values())
