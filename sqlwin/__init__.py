"""Window table functions in SQL on Apache Spark.

Example:
    ```python
    import sqlwin

    with sqlwin.connect() as session:
        session.register("events", session.spark.read.parquet("events.parquet"))
        session.sql('''
            SELECT window_start, window_end, COUNT(*)
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
            GROUP BY window_start, window_end
        ''').show()
    ```
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

_FOREIGN = (
    "sqlwin needs its own package `{}`, but Python finds {}: rename it, or remove its directory "
    "from Python's path"
)

try:
    from runtime.errors import SqlwinError
except ImportError as error:
    _foreign_file = getattr(sys.modules.get("runtime"), "__file__", None)
    if _foreign_file is None:
        raise
    raise ImportError(_FOREIGN.format("runtime", _foreign_file), name="runtime") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.spec.user_aggregates import UserDefinedAggregateFunction as Aggregate
    from sqlwin.session import Result, Session

__version__ = "0.2.0"
__all__ = ["Aggregate", "Result", "Session", "SqlwinError", "__version__", "compile", "connect"]


def connect(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """Create a sqlwin session on a given Spark session or on one of its own.

    Without `spark`, the session uses the Spark of this process, or the one that spark-submit
    started, and `close` leaves it running. If there is neither, Spark is started here and stopped
    when the last session that uses it is closed.

    Args:
        spark: Spark session to use unchanged, with its temporary views and settings.
        master: Master URL of a new Spark session. Default: what spark-defaults.conf or
            PYSPARK_SUBMIT_ARGS set, else `local[*]`.
        conf: Spark configuration of a new Spark session.
        remote: `sc://host:port` of a Spark Connect server, instead of a master.
        settings: Settings of sqlwin, as in `SET 'key' = 'value'`.

    Raises:
        SqlwinError: Java is missing, the cluster cannot be reached, a setting is unknown, or the
            caller is a definition of a declarative pipeline.
    """
    begun = time.time()
    # PySpark takes a second to import, so it is imported as late as possible.
    from runtime.spark.on_demand import spark_lock
    from runtime.spark.session import refuse_pipeline_definition, session_on_demand
    from sqlwin.session import Session

    refuse_pipeline_definition()
    if spark is not None:
        if master or conf or remote:
            raise SqlwinError(
                "connect() got both a Spark session and options to start one",
                hint="pass either spark=, or master=, conf= and remote=",
            )
        return Session(spark, settings=settings or {})
    with spark_lock:  # holding the lock, no other thread can stop Spark first
        on_demand = session_on_demand(master, conf or {}, remote)
        return Session(on_demand, settings=settings or {}, begun=begun)


def compile(
    sql: str,
    dialect: str,
    *,
    schema: str = "",
    settings: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
    untested: str | None = None,
) -> str:
    """Return a query as one SELECT of another engine, without starting Spark.

    The text reads tables by the names that they have in the script.

    Args:
        sql: A query, after statements that define its tables, views and settings.
        dialect: `duckdb`, `postgres`, or `spark` for Spark 4 in ANSI mode, its default.
        schema: More definitions, which run first.
        settings: Settings, as in `SET 'key' = 'value'`. The time zone is UTC by default.
        params: Values of parameters by name.
        untested: Dialect of sqlglot in which the engine's text is written, such as `databricks`. No
            test runs it.

    Raises:
        SqlwinError: The SQL is invalid, or the query's rows might differ on the engine.
    """
    from sqlwin.parts import load_part

    with load_part("compiler")(dialect, settings, untested) as compiler:
        compiler.define(schema)
        text: str = compiler.only_query(sql, params)
        return text


def _refuse_foreign(name: str, file: str) -> None:
    """Raise ImportError unless Python resolves package `name` to the one that contains `file`.

    Look the package up without importing it.
    """
    spec = find_spec(name)
    if spec is None:
        return
    places = list(spec.submodule_search_locations or ())
    if not any(os.path.isfile(os.path.join(place, file)) for place in places):
        raise ImportError(_FOREIGN.format(name, spec.origin or places), name=name)


def load_ipython_extension(shell: Any) -> None:
    """Register the magics `%sqlwin` and `%%sqlwin`. IPython calls this on `%load_ext sqlwin`."""
    from sqlwin.notebook import load

    load(shell, connect)


def __getattr__(name: str) -> object:
    if name in ("Result", "Session"):
        from sqlwin import session

        return getattr(session, name)
    if name == "Aggregate":
        from runtime.spec import user_aggregates

        return user_aggregates.UserDefinedAggregateFunction
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# `runtime` and `planner` are common names, so check them. Workers load sqlwin and the runtime from
# a zip file without the planner.
if ".zip" not in str(__file__):
    _refuse_foreign("runtime", "errors.py")
    _refuse_foreign("planner", "plan.py")
