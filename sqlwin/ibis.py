"""Ibis on sqlwin, with `ibis.sqlwin.connect(session)`.

Expressions compile to SQL as for Ibis' PySpark backend, except for `window_by(...).tumble()` and
`.hop()`, which become window table functions. sqlwin runs the queries, on tables of the session and
of Spark.

Example:
    ```python
    import ibis

    con = ibis.sqlwin.connect(sqlwin.connect())
    bids = con.table("bids")
    bids.window_by(bids.ts).tumble(size=ibis.interval(minutes=5)).agg(by="item", n=bids.count())
    ```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import ibis
import ibis.common.exceptions as ibis_errors
import sqlglot as sg
from ibis.backends.pyspark import Backend as PySparkBackend
from ibis.backends.sql.compilers.pyspark import PySparkCompiler
from sqlglot import exp

from runtime.names import quote_name
from sqlwin.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Ibis registers the options that this compiler reads when the PySpark backend is first used
_ = ibis.pyspark
_BOUNDS = ("window_start", "window_end")
# First words of queries; Spark runs other statements, such as Ibis' CREATE TEMPORARY VIEW
_QUERIES = ("SELECT", "WITH", "(")
# Metadata with which Spark marks the column of a watermark
_WATERMARK_DELAY = "spark.watermarkDelayMs"


class WindowCompiler(PySparkCompiler):  # type: ignore[misc]
    """Compiles Ibis' windows to window table functions, and the rest to Spark's SQL."""

    __slots__ = ()

    def visit_WindowAggregate(
        self,
        op: Any,
        *,
        parent: Any,
        window_type: str,
        time_col: Any,
        groups: dict[str, Any],
        metrics: dict[str, Any],
        window_size: Any,
        window_slide: Any,
        window_offset: Any,
    ) -> exp.Select:
        """Return the aggregation over a window function.

        Raises:
            UnsupportedOperationError: The time is not a column of the table.
        """
        if not isinstance(time_col, exp.Column):
            raise ibis_errors.UnsupportedOperationError(
                "window_by() needs a column: add the expression to the table with mutate() first"
            )
        alias = parent.alias_or_name
        rows = parent.copy()
        rows.set("alias", None)
        arguments = [
            self.v[f"TABLE {rows.sql(self.dialect)}"],
            self.f.descriptor(time_col.this),
            *filter(None, (window_slide, window_size, window_offset)),
        ]
        windows = self.f.table(self.f[window_type](*arguments))
        bounds = [sg.column(name, table=alias, quoted=True) for name in _BOUNDS]
        return (
            sg.select(*bounds, *self._cleanup_names(groups), *self._cleanup_names(metrics))
            .from_(windows.as_(alias, quoted=True))
            .group_by(*bounds, *groups.values())
        )


class Backend(PySparkBackend):  # type: ignore[misc]
    """Ibis' PySpark backend, whose queries run on sqlwin.

    Private API of Ibis, as of 12.0: `_session`, through which the backend runs all SQL.
    """

    name = "sqlwin"
    compiler = WindowCompiler()

    @classmethod
    def register_options(cls) -> None:
        """Register no options: the compiler reads the ones of Ibis' PySpark backend."""

    def do_connect(
        self,
        session: Session | SparkSession | None = None,
        mode: Literal["batch", "streaming"] = "batch",
        **settings: Any,
    ) -> None:
        """Connect to a session.

        Args:
            session: Session, or Spark session to open one on. None: a new session.
            mode: `streaming` writes results of streams, see Ibis' PySpark backend.
            settings: Settings of Spark.
        """
        self._owns_session = not isinstance(session, Session)
        if not isinstance(session, Session):
            from sqlwin import connect

            session = connect(session)
        self.session = session
        super().do_connect(_SparkOfSession(session), mode, **settings)

    def disconnect(self) -> None:
        """Close the session if `connect` opened it."""
        if self._owns_session:
            self.session.close()

    def list_tables(
        self, *, like: str | None = None, database: tuple[str, str] | str | None = None
    ) -> list[str]:
        """Return the names of tables; without a database, the session's tables too."""
        names = {*super().list_tables(database=database)}
        if database is None:
            (result,) = self.session.execute("SHOW TABLES")
            names |= {str(name) for name in result.to_arrow().column(0).to_pylist()}
        listed: list[str] = self._filter_with_like(sorted(names), like)
        return listed

    def create_view(
        self, name: str, obj: Any, /, *, database: str | None = None, overwrite: bool = False
    ) -> Any:
        """Create a temporary view of Spark, whose rows sqlwin computes.

        Raises:
            UnsupportedArgumentError: The view has a database, which temporary views cannot have.
        """
        if database is not None:
            raise ibis_errors.UnsupportedArgumentError("a temporary view has no database")
        self._run_pre_execute_hooks(obj)
        rows = self.session.sql(self.compile(obj))
        if overwrite:
            rows.createOrReplaceTempView(name)
        else:
            rows.createTempView(name)
        return self.table(name)


class _SparkOfSession:
    """A Spark session whose queries run on sqlwin. Other calls go to Spark."""

    def __init__(self, session: Session) -> None:
        self._sqlwin_session = session

    def sql(self, query: str, **options: Any) -> DataFrame:
        """Run a statement: a query on sqlwin, others on Spark."""
        if query.lstrip().upper().startswith(_QUERIES):
            return self._sqlwin_session.sql(query)
        return self._sqlwin_session.spark.sql(query, **options)

    def table(self, name: str) -> DataFrame:
        """Return the rows of a table of the session or of Spark.

        Declares a stream that Ibis has registered in Spark, with its watermark, in the session.
        """
        session = self._sqlwin_session
        rows = session.sql(f"SELECT * FROM {quote_name(*name.split('.'))}")
        if rows.isStreaming and session.spark.catalog.tableExists(name):
            stream = session.spark.table(name)
            for field in stream.schema.fields:
                if _WATERMARK_DELAY in field.metadata:
                    delay = f"{field.metadata[_WATERMARK_DELAY]} milliseconds"
                    session.register(name, stream, time_column=field.name, watermark=delay)
        return rows

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the Spark session."""
        return getattr(self._sqlwin_session.spark, name)
