"""Sessions: their explicit settings, and threads whose jobs belong to them.

Private APIs, checked with PySpark 4.3 and 3.5: `RuntimeConfig._jconf` and
`SparkSession._jsparkSession`.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from runtime.spark.versions.capabilities import ALL_SETTINGS, THREADS_OF_SESSIONS, has

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of a session that have been set."""
    if has(ALL_SETTINGS):
        return dict(spark.conf.getAll)
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


def explicit_settings(spark: SparkSession) -> str:
    """Return the explicit settings of a session as Java prints a map: `{key=value, key=value}`.

    Raises:
        Exception: A private API is missing; see `missing_api_errors`.
    """
    if has(ALL_SETTINGS):
        return str(spark.conf._jconf.getAllAsJava().toString())
    return str(spark._jsparkSession.sessionState().conf().settings().toString())


def inheriting_thread(
    spark: SparkSession, run: Callable[[], object], name: str, *, daemon: bool | None = None
) -> Thread:
    """Return a thread whose jobs have the properties and tags of the current thread's jobs.

    Args:
        spark: Session of its jobs.
        run: Function that it runs.
        name: Name of the thread.
        daemon: As in `Thread`.
    """
    from pyspark.util import InheritableThread

    options: dict[str, Any] = {"session": spark} if has(THREADS_OF_SESSIONS) else {}
    return InheritableThread(target=run, name=name, daemon=daemon, **options)
