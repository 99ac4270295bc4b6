"""The session, sqlwin's Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import count
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

from planner.catalog import Schema
from planner.sql.render import quote_string
from runtime.errors import AnalysisError, ExecutionError
from runtime.names import quote_name
from runtime.spark.on_demand import (
    is_started,
    show_start,
    spark_lock,
    start_spark,
    when_started,
    without_start,
)
from runtime.spark.session import (
    begin_use,
    check_session,
    end_use,
    is_remote,
    is_stopped,
)
from runtime.spark.shipping import ship_code
from runtime.spec.figures import count_text
from runtime.spec.table import Watermark
from runtime.spec.user_aggregates import UserDefinedAggregateFunction
from sqlwin.catalog.column_lookup import check_time_column
from sqlwin.catalog.entries import Entry, Registered, View, columns_of
from sqlwin.dataframes import translate_errors_of
from sqlwin.execution.runner import Runner
from sqlwin.execution.scripts import Scripts
from sqlwin.execution.streams.registry import Streams
from sqlwin.inputs import can_be_rows, dataframe_of, interactive_variables
from sqlwin.parts import load_part
from sqlwin.result import Result, RowsResult, StreamedRows, TableResult
from sqlwin.statements.nodes import Query
from sqlwin.statements.parameters import Params
from sqlwin.statements.parse import parse_statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from runtime.streaming.general.assigners import Assigner
    from runtime.streaming.general.evictors import Evictor
    from runtime.streaming.general.functions import WindowFunction
    from runtime.streaming.general.triggers import Trigger
    from sqlwin.page import Page

__all__ = ["Result", "Session"]


class Session:
    """Window SQL on a Spark session. Created by `sqlwin.connect`.

    Threads may share a session: each statement runs in the thread that calls it. Tables, views and
    settings belong to the session. Its changes to Spark (temporary views, Spark's settings) belong
    to the Spark session.

    Args:
        spark: Spark session to run on. If `connect` started it, it stops with the last sqlwin
            session that uses it.
        settings: Settings, as in `SET 'key' = 'value'`.
        begun: Time at which `connect` was called, in seconds since 1970. None: now.

    Raises:
        SqlwinError: A setting is unknown or its value is invalid.
    """

    def __init__(
        self, spark: SparkSession, *, settings: Mapping[str, str], begun: float | None = None
    ) -> None:
        self._spark = spark
        self._is_closed = False
        self._page: Page | None = None
        self._is_user = False
        try:
            with spark_lock:
                when_started(spark, self._use)
                self._opened_runner = Runner(spark)
                self._opened_runner.catalog.variables.find = self._variable
                self._scripts = Scripts(lambda: self._runner)
            load_part("observers")(self)
            for key, value in settings.items():
                self._runner.set(key, value)
            self._runner.activity.record_ready(begun)
        except BaseException:
            self._leave_spark()
            raise

    def _use(self, spark: SparkSession) -> None:
        """Attach the session to a running Spark session."""
        check_session(spark)
        self._is_user = begin_use(spark)
        if not is_remote(spark):
            ship_code(spark)

    @property
    def spark(self) -> SparkSession:
        """Spark session that statements run on. Accessing it starts Spark if necessary."""
        return start_spark(self._spark)

    @property
    def _has_spark(self) -> bool:
        """Whether Spark is running."""
        return is_started(self._spark)

    def _at_start_of_spark(
        self,
        waiting: Callable[[], AbstractContextManager[None]],
        action: Callable[[SparkSession], None],
    ) -> None:
        """Call an action once Spark has started, within the context `waiting`."""
        show_start(self._spark, waiting)
        when_started(self._spark, action)

    def _without_start_of_spark(self) -> AbstractContextManager[None]:
        """Return a context in which statements fail instead of starting Spark."""
        return without_start()

    @property
    def _runner(self) -> Runner:
        """Runner of the session's statements.

        Raises:
            ExecutionError: The session is closed or its Spark was stopped.
        """
        self._check_open()
        return self._opened_runner

    def _check_open(self) -> None:
        if self._is_closed:
            raise ExecutionError(
                "the session is closed", hint="use sqlwin.connect() to open a new session"
            )
        if is_stopped(self._spark):
            raise ExecutionError(
                "the session's Spark has stopped", hint="use sqlwin.connect() to open a new session"
            )

    def __repr__(self) -> str:
        """Return the Spark master and the numbers of tables and running streams."""
        if self._is_closed or is_stopped(self._spark):
            return "<sqlwin Session, closed>"
        if not is_started(self._spark):
            spark = "Spark, not started yet"
        elif is_remote(self._spark):
            spark = "Spark Connect"
        else:
            spark = f"Spark {self._spark.sparkContext.master}"
        catalog = self._runner.catalog
        n_tables = len(catalog.entries.tables()) + len(catalog.entries.views())
        n_streams = len(self.streams.running())
        parts = [
            count_text(number, nouns)
            for number, nouns in ((n_tables, "tables"), (n_streams, "running streams"))
            if number
        ]
        return f"<sqlwin Session on {', '.join([spark, *parts])}>"

    def sql(self, query: str, params: Params | None = None) -> DataFrame:
        """Return the rows of one query as a Spark DataFrame, not computed yet.

        If a source is a stream, the result is a streaming DataFrame, which `writeStream` starts.

        Other statements run at once, and the DataFrame holds their rows or their message.

        Args:
            query: One statement.
            params: Values of its parameters, see `execute`.

        Raises:
            SqlwinError: The SQL is invalid.
        """
        results = self.execute(query, params=params)
        if len(results) != 1:
            raise AnalysisError(
                f"sql() takes a single statement, but got {len(results)}",
                hint="use execute() for scripts: it returns one result per statement",
            )
        (result,) = results
        match result:
            case RowsResult(data=StreamedRows(opened=opened)) if opened.reads_watermark:
                raise AnalysisError(
                    "CURRENT_WATERMARK is not available in a streaming DataFrame",
                    hint="use the rows of execute(), or INSERT",
                )
            case RowsResult():
                return result.dataframe
            case TableResult():
                names = ", ".join(f"`{name}` string" for name in result.columns)
                return self.spark.createDataFrame(result.rows, names)
            case _:
                texts = [(text,) for text in result.to_arrow().column("result").to_pylist()]
                return self.spark.createDataFrame(texts, "result string")

    def execute(
        self, script: str, file: str | None = None, *, params: Params | None = None
    ) -> list[Result]:
        """Run every statement of a script and return their results.

        Args:
            script: SQL statements, separated by `;`.
            file: Name of the script in error messages.
            params: Values of its parameters: by name for `:name`, in order for `?`. Parameters are
                allowed where literals are. Values can be numbers, strings, bytes, dates, times,
                timedeltas, lists (also in `IN (:list)`) and None. A datetime with a time zone is a
                TIMESTAMP_LTZ, one without is a TIMESTAMP.

        Raises:
            SqlwinError: A parameter has no value, or a value has no parameter: no statement has run
                then. Or a statement is invalid or fails: the statements before it have run.
        """
        return list(self.execute_iter(script, file, params=params))

    def execute_iter(
        self, script: str, file: str | None = None, *, params: Params | None = None
    ) -> Iterator[Result]:
        """Run a script statement by statement, each when its result is requested."""
        return self._scripts.run(script, file, params)

    def explain(
        self,
        sql: str,
        mode: str = "text",
        file: str | None = None,
        *,
        analyze: bool = False,
        params: Params | None = None,
    ) -> str:
        """Return the plans of queries and INSERTs without running them.

        The tables, views and settings of a script take effect. Spark explains statements that only
        it knows, such as VALUES or DELETE.

        Args:
            sql: One statement, or a script.
            mode: `text`, `json`, `mermaid`, `dot` or `html` (a self-contained page).
            file: Name of the script in error messages.
            analyze: Run the statements (INSERTs too) and show measurements. `EXPLAIN ANALYZE` in
                the script does so for one statement.
            params: Values of parameters, see `execute`.

        Raises:
            SqlwinError: The SQL is invalid, the mode is unknown, or a run fails.
        """
        from planner.explain.document import Document
        from sqlwin.execution.explain_formats import MODES, Explanation

        if mode not in MODES:
            raise AnalysisError(
                f"unknown explain mode `{mode}`", hint=f"available modes: {', '.join(MODES)}"
            )
        documents = self._scripts.documents(sql, file, analyze=analyze, params=params)
        return Explanation(Document(documents), mode)

    def explain_queries(
        self,
        sql: str,
        file: str | None = None,
        *,
        analyze: bool = False,
        params: Params | None = None,
    ) -> list[dict[str, Any]]:
        """Return the content of `explain` as JSON objects, one per query and INSERT.

        docs/explain.md describes them.

        Raises:
            SqlwinError: The SQL is invalid, or a run fails.
        """
        from planner.explain.document import to_json

        documents = self._scripts.documents(sql, file, analyze=analyze, params=params)
        return [to_json(query) for query in documents]

    def register(
        self,
        name: str,
        data: object,
        *,
        time_column: str | None = None,
        watermark: str | None = None,
    ) -> None:
        """Register rows as a table, replacing a table of the same name.

        Rows in memory are copied now, and times are truncated to microseconds. Named levels of a
        pandas index become columns. A record batch reader is read to its end. Files are read by
        each query, as in `FROM 'path'`.

        Args:
            name: Name of the table.
            data: Spark, pandas or Polars DataFrame, Arrow table or record batch reader, list of
                dicts, or path of files.
            time_column: TIMESTAMP column for windows, checked here. Without it, windows can use any
                TIMESTAMP column.
            watermark: Watermark delay of a stream, such as `5 seconds`. Requires a time column. Has
                no effect on batch input, which has no late rows.

        Raises:
            TypeError: `data` has another type.
            SqlwinError: The time column does not exist or is not a timestamp, a column has values
                that fit no SQL type, or the files do not exist.
        """
        runner = self._runner
        if time_column is None and watermark is not None:
            raise AnalysisError(
                f"register(`{name}`) has a watermark but no time_column",
                hint="add time_column, the column that the watermark refers to",
            )
        late = None
        if time_column is not None and watermark is not None:
            late = Watermark(time_column, f"{quote_name(time_column)} - INTERVAL '{watermark}'")
        with runner.lock:
            entry: Entry
            if isinstance(data, str | PathLike):
                entry, columns = self._view_of_files(name, str(fspath(data)))
            else:
                entry = Registered((name,), dataframe_of(self.spark, data, name), late)
                columns = columns_of(entry.dataframe.schema)
            if time_column is not None:
                check_time_column(columns, time_column)
            runner.catalog.add((name,), entry, replace=True, if_not_exists=False)

    def _view_of_files(self, name: str, path: str) -> tuple[View, Schema]:
        """Return a view over files, and its columns."""
        text = f"SELECT * FROM {quote_string(path)}"
        parsed = parse_statement(text)
        assert isinstance(parsed, Query)
        with self._runner.plans.errors_of(text):
            plan = self._runner.plans.plan(parsed.ast.copy(), text)
        return View((name,), parsed.ast, text), plan.bound.schema

    def _variable(self, name: str) -> DataFrame | None:
        """Return the rows of a variable of the notebook or the Python prompt, or None."""
        if not self._runner.config.get("sqlwin.python-variables"):
            return None
        data = interactive_variables().get(name)
        return dataframe_of(self.spark, data, name) if can_be_rows(data) else None

    @property
    def streams(self) -> Streams:
        """Streams that this session started."""
        return self._opened_runner.streams

    def windows(
        self,
        data: object,
        *,
        time: str | None,
        window: Assigner,
        function: WindowFunction,
        output: str,
        keys: Sequence[str] = (),
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: str | timedelta | None = None,
        watermark: str | None = None,
        name: str | None = None,
    ) -> DataFrame:
        """Compute windows that SQL cannot express: custom triggers, evictors or functions.

        The arguments come from `sqlwin.windows`, see docs/general-windows.md. Rows are processed
        per key in the order of their times; in a stream, micro-batch by micro-batch. Functions run
        in Spark's workers and get rows as dictionaries.

        Args:
            data: Name of a table, or rows that `register` accepts. A stream gives a streaming
                DataFrame.
            time: TIMESTAMP column for the windows. None: processing time.
            window: Assigner of windows to rows, such as `windows.tumble("10 minutes")`.
            function: Function that computes the result rows of a window.
            output: Columns of its results, such as `n bigint, top string`.
            keys: Columns to group the rows by.
            trigger: When to emit a window. Default: once all its rows have arrived.
            evictor: Which rows to hide from the function.
            allowed_lateness: How long after its end a window accepts rows.
            watermark: Watermark delay of a streaming DataFrame, such as `5 seconds`. Tables declare
                their own WATERMARK.
            name: Table name for the results, replacing a table of the same name. An INSERT from it
                runs the stream as one of this session.

        Returns:
            DataFrame with the keys, window_start, window_end and the columns of `output`.

        Raises:
            SqlwinError: A column does not exist, or the arguments contradict each other.
        """
        # imported late because the modules for streams take time to import
        from runtime.streaming.general.operator import WindowJob
        from runtime.windows.intervals import length_us as us
        from sqlwin.execution.general_windows import GeneralWindows

        _ = self.spark  # types of `output` are parsed by the Spark that runs
        lateness_us = us(allowed_lateness) if allowed_lateness else 0
        job = WindowJob(
            window, function, trigger, evictor, lateness_us, is_processing_time=time is None
        )
        with self._runner.lock:
            if isinstance(data, str):
                table = data
            else:
                rows = dataframe_of(self.spark, data, "data")
                table = self._named_rows(rows, time, watermark)
            windows = GeneralWindows(
                self._runner.plans, f"SELECT * FROM {table}", tuple(keys), time, job, output
            )
            results = windows.dataframe()
            if name is not None:
                made_by = windows if results.isStreaming else None
                entry = Registered((name,), results, made_by=made_by)
                self._runner.catalog.add((name,), entry, replace=True, if_not_exists=False)
            return translate_errors_of(results, self._runner.plans.errors_of(""))

    def _named_rows(self, dataframe: DataFrame, time: str | None, watermark: str | None) -> str:
        """Register the DataFrame whose rows the windows contain, and return its name."""
        if dataframe.isStreaming and time is not None and watermark is None:
            raise AnalysisError(
                "windows() requires a watermark for a streaming DataFrame, because windows would "
                "never close without one",
                hint="for example watermark='5 seconds'",
            )
        names = (f"dataframe_{number}" for number in count(1))
        name = next(name for name in names if self._runner.catalog.entry((name,)) is None)
        delay = watermark if dataframe.isStreaming else None
        self.register(name, dataframe, time_column=time, watermark=delay)
        return name

    def register_function(self, name: str, function: Callable[..., pa.Array], returns: str) -> None:
        """Register a Python function for SQL, replacing a function of the same name.

        Args:
            name: Name of the function. Case does not matter.
            function: Function of one `pyarrow.Array` per argument that returns an array of the same
                length (Arrow or NumPy). It runs in the workers, batch by batch.
            returns: Spark type of the result, such as `double`.

        Raises:
            SqlwinError: The name or the type is invalid.
        """
        catalog = self._runner.catalog
        from runtime.frames.user_functions import register_scalar

        register_scalar(self.spark, name, function, returns)
        catalog.aggregates.forget(name)

    def register_aggregate(self, name: str, aggregate: UserDefinedAggregateFunction) -> None:
        """Register an aggregate function written in Python for SQL; see `sqlwin.Aggregate`.

        Window aggregations keep its state by slice and merge it into windows, as for built-in
        aggregates. In other queries Spark calls it once per group.

        Raises:
            SqlwinError: The name is invalid, or the aggregate does not declare its types.
        """
        from runtime.frames.user_functions import register_aggregate

        self._runner.catalog.aggregates.add(register_aggregate(self.spark, name, aggregate))

    def ui(self, port: int | None = None) -> Page:
        """Serve a web page of the session's streams, statements and plans.

        The server listens on 127.0.0.1 and requires the token in the page's address (`page.url`).
        It stops when the session or the page is closed. Sessions of a process share one server.
        `page.metrics_url` has metrics for Prometheus; see docs/monitoring.md.

        Args:
            port: Port to listen on, 0 for any free one. Default: the port of the open page, else
                4050, else a free one.

        Raises:
            SetupError: The port is in use.
        """
        self._check_open()
        if self._page is not None and port is not None and port not in (0, self._page.port):
            self._page.close()
        self._page = cast("Page", load_part("page")(self, port))
        return self._page

    def _close_page(self) -> None:
        """Stop serving this session's page, if it has one."""
        if self._page is not None:
            self._page.close()
            self._page = None

    def close(self) -> None:
        """Stop the session's streams, and Spark if no other session uses it.

        Spark keeps running if `sqlwin.connect` did not start it.
        """
        if self._is_closed:
            return
        self.streams.stop_all()
        self._close_page()
        self._is_closed = True
        self._leave_spark()

    def _leave_spark(self) -> None:
        is_user, self._is_user = self._is_user, False
        if is_user:
            end_use(self._spark)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
