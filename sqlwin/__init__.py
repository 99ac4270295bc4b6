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
    "sqlwin needs its own package `{}`, but Python finds {}: rename that, or take its directory "
    "off the path"
)

try:
    from runtime.errors import SqlwinError
except ImportError as error:
    _found = getattr(sys.modules.get("runtime"), "__file__", None)
    if _found is None:
        raise
    raise ImportError(_FOREIGN.format("runtime", _found), name="runtime") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runtime.spec.user_aggregates import UserDefinedAggregateFunction as Aggregate
    from sqlwin.session import Result, Session

__version__ = "0.2.0"
__all__ = ["Aggregate", "Result", "Session", "SqlwinError", "__version__", "connect"]


def connect(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """A session, on the Spark session given or on one of its own.

    Where Spark runs in this process, or spark-submit has started it, that one is taken, and left
    running by `close`. Else it is started, and stopped when the last session is closed that was
    made on it.

    Args:
        spark: a Spark session; it is used as it is, with its temporary views and settings.
        master: Spark's master URL for a session of its own; by default what spark-defaults.conf
            or PYSPARK_SUBMIT_ARGS say, else `local[*]`.
        conf: Spark's configuration for a session of its own.
        remote: `sc://host:port` of a Spark Connect server, in place of a master.
        settings: settings of sqlwin, as `SET 'key' = 'value'` takes them.

    Raises:
        SqlwinError: no Java, no such cluster, an unknown setting.
    """
    begun = time.time()
    # Spark takes a second to import: not before it is needed
    from runtime.spark.session import begin_java, own_session, spark_lock

    if spark is None:
        begin_java(master, conf or {}, remote)
    # and this another one, in which Java starts
    from sqlwin.session import Session

    if spark is not None:
        if master or conf or remote:
            raise SqlwinError(
                "connect() was given a Spark session and a way to start one",
                hint="give either spark=, or master=, conf= and remote=",
            )
        return Session(spark, settings=settings or {})
    with spark_lock:  # nobody stops it before the session has it
        started = own_session(master, conf or {}, remote)
        return Session(started, settings=settings or {}, begun=begun)


def _refuse_foreign(name: str, file: str) -> None:
    """See that a package of sqlwin's is the one that Python finds; `file` is known to be in it.

    It is not imported for that.
    """
    spec = find_spec(name)
    if spec is None:
        return
    places = list(spec.submodule_search_locations or ())
    if not any(os.path.isfile(os.path.join(place, file)) for place in places):
        raise ImportError(_FOREIGN.format(name, spec.origin or places), name=name)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext sqlwin` calls: gives a notebook the magics `%sqlwin` and `%%sqlwin`."""
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


# Their names are common words. Workers of a cluster have sqlwin and the runtime in a zip file, and
# no planner.
if ".zip" not in str(__file__):
    _refuse_foreign("runtime", "errors.py")
    _refuse_foreign("planner", "plan.py")
