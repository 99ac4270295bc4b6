"""List the files of a DataFrame again.

Spark lists the files of a path once, when it makes a DataFrame, and plans each later run of the
DataFrame with them.

Private API, seen in Spark 4.3: `analyzed().collectLeaves()`, the classes of leaves that read files,
`FileIndex.refresh`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from runtime.spark.private import unless_missing


def list_files_again(rows: DataFrame) -> None:
    """Let later runs of a DataFrame read the files that its directories have now.

    A pattern such as `*.csv` has been replaced by the files that matched it, so files that match
    it later are not read.
    """
    unless_missing(
        "a cached table of files is read again without its new files",
        lambda: _refresh_indexes(rows),
        None,
    )


def _refresh_indexes(rows: DataFrame) -> None:
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() != "LogicalRelation":
            continue
        relation = leaf.relation()
        if relation.getClass().getSimpleName() == "HadoopFsRelation":
            relation.location().refresh()
