"""Spark jobs that name the statement that started them, in Spark's UI and for their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.spark.jobs import statement_tag, tag_statement
from runtime.spark.on_demand import is_started
from runtime.spark.session import is_remote
from sqlwin.config.config import Config
from sqlwin.execution.activity import StatementRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MarkedJobs:
    """Marks the jobs that a thread starts. Over Spark Connect it does nothing.

    Args:
        spark: Spark session.
        config: Settings of the session.
    """

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._spark = spark
        self._config = config

    def mark(self, run: StatementRun | None) -> None:
        """Set a statement as job description and tag of this thread, once Spark runs.

        This takes a dozen calls to Java, so it is skipped for statements without jobs.
        """
        if run is not None and is_started(self._spark):
            self.describe(run.record.text)
            tag_statement(self._spark, run.record.tag)

    def describe(self, text: str) -> None:
        """Set a statement as the description of this thread's jobs in Spark's UI."""
        if not is_remote(self._spark):
            name = self._config.get("pipeline.name")
            described = f"{name}: {text}" if name else text
            shown = self._config.mask.text(described)
            self._spark.sparkContext.setJobDescription(" ".join(shown.split())[:500])

    @contextmanager
    def marked(self, tag: str, text: str) -> Iterator[None]:
        """Mark the jobs of a block with a statement, whether or not it is the current one."""
        if is_remote(self._spark):
            yield
            return
        context = self._spark.sparkContext
        before = statement_tag(self._spark), context.getLocalProperty("spark.job.description")
        self.describe(text)
        tag_statement(self._spark, tag)
        try:
            yield
        finally:
            tag_statement(self._spark, before[0])
            context.setLocalProperty("spark.job.description", before[1])  # type: ignore[arg-type]
