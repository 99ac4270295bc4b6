"""Queries that slices answer in this process, planned without a call to Spark.

To plan a query, Spark lists files, reads a footer in a job and analyses SQL several times: longer
than it takes to read the slices of a key. Here the same planner runs over what is known of the
session's tables without Spark, where that is sure to give the same; whatever else it asks leaves
the query to the usual road.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from sqlglot import exp

from planner.nodes.windows import notes_on_windows
from planner.plan import Plan, plan_query
from runtime.errors import SqlwinError
from runtime.files import is_local_path
from runtime.spark.files import resolve
from runtime.spark.session import is_remote
from runtime.spark.settings import SparkSettings, settings_of
from runtime.spec.exchange import InProcessStep
from sqlwin.catalog.analyzer import is_as_usual
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.materialized import tables_of
from sqlwin.catalog.offline import KnownCatalog, NeedsSpark
from sqlwin.catalog.options import hint_notes
from sqlwin.config.config import Config
from sqlwin.execution.in_process import in_process, planner_options


class KnownPlans:
    """Plans of queries over what is known of a session's tables.

    Args:
        spark: the session; of Spark Connect nothing is known.
        config: the settings.
        catalog: the tables.
    """

    def __init__(self, spark: SparkSession, config: Config, catalog: SessionCatalog) -> None:
        self._spark = spark
        self._config = config
        self._catalog = KnownCatalog(catalog, lambda: config.mask)
        self._is_remote = is_remote(spark)
        self._judged: tuple[SparkSettings, bool] | None = None

    def plan(
        self, query: exp.Query, text: str
    ) -> tuple[Plan, InProcessStep, tuple[str, ...]] | None:
        """A query's plan, what computes its rows in this process, and notes about the query.

        None if it takes Spark to plan or run it, or if something is wrong with it.

        Args:
            query: its tree.
            text: its text.
        """
        config, catalog = self._config, self._catalog
        if self._is_remote or not int(config.get("sqlwin.materialized.in-process-bytes")):
            return None
        per_split = str(config.get("sqlwin.watermark.per-split"))
        catalog.start_statement(str(config.get("execution.runtime-mode")), per_split=per_split)
        if not catalog.has_slices_of(tables_of(query)):
            return None
        settings = settings_of(self._spark)
        if not self._is_usual(settings):
            return None
        zone = settings.get("spark.sql.session.timeZone")
        partitions = int(settings.get("spark.sql.shuffle.partitions"))
        try:
            options = planner_options(config, catalog, zone, partitions)
            plan = plan_query(query, text, options)
        except (NeedsSpark, SqlwinError):
            # the usual road says it, or what is wrong
            return None
        here = in_process(plan, config, zone)
        if here is None:
            return None
        notes = (*hint_notes(query, catalog.entry), *catalog.file_notes)
        return plan, here, (*notes, *notes_on_windows(plan.bound))

    def _is_usual(self, settings: SparkSettings) -> bool:
        """Whether Spark's settings are those that the planner without Spark stands for."""
        if self._judged is None or self._judged[0] is not settings:
            is_usual = is_as_usual(self._spark, settings) and is_local_path(
                resolve(self._spark, "/")
            )
            self._judged = settings, is_usual
        return self._judged[1]
