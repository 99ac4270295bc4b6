"""A shuffle that several jobs read, each what it needs, and that runs once.

Spark runs the stage before a shuffle once for all jobs over the same RDD, also where they come at
the same time, and keeps the shuffle's files for as long as the RDD lives. So nothing has to be
cached: not the rows, and not the partitions that nobody reads a second time.

Spark has no public way to do so. This goes by classes and methods of its own that were seen in
Spark 4.3: `QueryExecution.prepareExecutedPlan`, `classic.SparkSession.setActiveSession`,
`ShuffledRowRDD`, `SparkContext.submitMapStage`, `PartitionPruningRDD.create`,
`SparkSession.internalCreateDataFrame`. Where one is missing, whoever asks does without.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from runtime.spark.private import unless_missing


def one_shuffle(rows: DataFrame) -> OneShuffle | None:
    """The rows behind their shuffle; None, and a line in the log, where Spark cannot do that.

    Args:
        rows: as for `OneShuffle`.
    """

    def made() -> OneShuffle:
        shuffle = OneShuffle(rows)
        shuffle.rows(())  # what reads them is there too
        return shuffle

    return unless_missing("no shuffle is shared by several jobs", made, None)


class OneShuffle:
    """The rows of a DataFrame behind its shuffle, as one RDD.

    Args:
        rows: a DataFrame that repartitions its rows, of a session that is not a remote one. Its
            plan is carried out as it is, without adaptive execution, which would begin with it now.
    """

    def __init__(self, rows: DataFrame) -> None:
        self._spark = rows.sparkSession
        context: Any = self._spark.sparkContext
        self._jvm = context._jvm
        self._context = context._jsc.sc()
        java_rows: Any = rows._jdf
        session = self._spark._jsparkSession
        self._schema = java_rows.schema()
        plan = java_rows.queryExecution().sparkPlan()
        prepare = self._jvm.org.apache.spark.sql.execution.QueryExecution.prepareExecutedPlan
        # Nodes of a plan ask their thread for the session, which may not have had any yet
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        self._rdd: Any = prepare(session, plan).execute()

        self._begun: Any = None

    def begin(self) -> None:
        """Let Spark run the stage before the shuffle now, without waiting for it.

        Jobs that ask for rows meanwhile wait for that stage instead of running it. What it fails
        with, they fail with. Where Spark cannot do that, they run it.
        """
        unless_missing("a shared shuffle is not begun early", self._begin, None)

    def _begin(self) -> None:
        rdd = self._rdd
        while rdd.getClass().getSimpleName() != "ShuffledRowRDD":
            before = rdd.dependencies()
            if before.isEmpty():
                return  # no shuffle is left of it where there are no rows
            rdd = before.head().rdd()
        shuffle = rdd.dependency()
        if shuffle.rdd().getNumPartitions() > 0:
            self._begun = self._context.submitMapStage(shuffle)

    def end(self) -> None:
        """Cancel what was begun and still runs."""
        if self._begun is not None:
            self._begun.cancel()
            self._begun = None

    def rows(self, partitions: Iterable[int] | None = None) -> DataFrame:
        """The rows of some partitions, or of all: a task for each."""
        rdd = self._rdd
        if partitions is not None:
            # A set in Scala is a function from an item to whether it is in the set
            chosen = self._jvm.PythonUtils.toSeq(list(partitions)).toSet()
            rdd = self._jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rdd, chosen)
        session = self._spark._jsparkSession
        return DataFrame(session.internalCreateDataFrame(rdd, self._schema, False), self._spark)
