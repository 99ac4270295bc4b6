"""How often a stream reads what is behind its sources, of which Spark counts every reading."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

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
        rows, by this source and by others; PATHS if it has no rows.
    """
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
    return is_first and str(leaf.dataSource().className()) == "binaryFile"


def _behind(leaf: object) -> object:
    """What a source reads; for each side of a join the leaf is copied, and this is not."""
    is_first = leaf.getClass().getSimpleName() == _RELATIONS[0]  # type: ignore[attr-defined]
    return leaf.dataSource() if is_first else leaf.table()  # type: ignore[attr-defined]
