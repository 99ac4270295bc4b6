"""Expose DataFrames as relations in Spark SQL while the SQL is analysed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from runtime.plan.nodes import PlanNode, SqlStep
from runtime.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Creates the DataFrame of a step that reads no stream
Bounded = Callable[["SparkSession", PlanNode], "DataFrame"]

_view_numbers = count()
_STEP = "sqlwin_step_"


def sql_dataframe(
    spark: SparkSession, step: SqlStep, child_dataframe: Callable[[PlanNode], DataFrame]
) -> DataFrame:
    """Return the DataFrame of a Spark SQL step; `child_dataframe` converts its inputs."""
    text = step.sql
    views = []
    for name, child in step.relations:
        view = _create_view(child_dataframe(child))
        views.append(view)
        text = text.replace(name, view)
    try:
        return spark.sql(text)
    finally:
        _drop_views(spark, views)


def is_step(view: str) -> bool:
    """Return whether a view shows the rows of a step."""
    return view.startswith(_STEP)


@contextmanager
def temporary_view(spark: SparkSession, source: DataFrame) -> Iterator[str]:
    """Provide a view name for a DataFrame while SQL over it is analysed."""
    view = _create_view(source)
    try:
        yield view
    finally:
        _drop_views(spark, [view])


def _create_view(source: DataFrame) -> str:
    name = f"{_STEP}{next(_view_numbers)}"
    source.createOrReplaceTempView(name)
    return name


def _drop_views(spark: SparkSession, views: list[str]) -> None:
    """Drop views that an analysed DataFrame no longer needs.

    Over Spark Connect the views stay because a DataFrame is analysed again when it runs.
    """
    if not is_remote(spark):
        for view in views:
            spark.catalog.dropTempView(view)
