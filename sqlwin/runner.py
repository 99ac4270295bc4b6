"""Carries out one statement."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from planner.explain_document import document, query_document
from planner.lower import lower
from planner.optimizer import Options, SpreadOptions
from planner.plan import Draft, Plan, draft_plan, plan_together
from runtime.batch.execute import ExecutionOptions, dataframe
from runtime.batch.null_times import NullTimes, StatementNullTimes
from runtime.batch.shared import SharedPartials, read_by_several
from runtime.errors import SqlwinError
from runtime.spark import is_remote
from runtime.spark_errors import translate
from runtime.steps import Step
from runtime.table_spec import TableSpec
from sqlwin import listings
from sqlwin.analysis import Json, analyzed, without_results
from sqlwin.catalog import Name, SessionCatalog, View
from sqlwin.config import Config
from sqlwin.definitions import Definitions
from sqlwin.explanation import render
from sqlwin.inserts import arranged, insert_into_spark, insert_rows, insert_target
from sqlwin.positions import relocate
from sqlwin.result import Result
from sqlwin.statements import (
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Query,
    Reset,
    Set,
    ShowCreateTable,
    ShowFunctions,
    ShowStreams,
    ShowTables,
    ShowViews,
    SparkStatement,
    Statement,
    StatementSet,
    StopStream,
    words,
)
from sqlwin.stream_queries import StreamQueries
from sqlwin.stream_results import insert_result, start_insert, stream_query
from sqlwin.streams import State, Stream, resume_hint, show_streams

# What Spark's own EXPLAIN can be asked for
_SPARK_DETAILS = frozenset({"EXTENDED", "CODEGEN", "COST", "FORMATTED"})


class Runner:
    """Runs statements on a Spark session, with the tables and settings they leave behind."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.config = Config()
        self.catalog = SessionCatalog(spark, self._view_dataframe)
        self._definitions = Definitions(spark, self.catalog)
        self._session_null_times = None if is_remote(spark) else NullTimes(spark.sparkContext)
        self._null_times: StatementNullTimes | None = None
        self.stream_queries = StreamQueries(spark, self.config, self.catalog)

    def run(self, statement: Statement) -> Result:
        """Carry out a statement.

        Raises:
            SqlwinError: it is wrong or fails; positions are those in the statement's text.
        """
        self.start_statement()
        if self._session_null_times is not None:
            self._null_times = StatementNullTimes(self._session_null_times)
        self._describe_job(statement.text)
        match statement:
            case Query():
                return self._query(statement.ast, statement.text)
            case Insert():
                return self._insert(statement)
            case StatementSet():
                return self._statement_set(statement)
            case Explain():
                return self._explain_statement(statement)
            case CreateTable():
                return self._create_table(statement)
            case CreateView():
                self._plan(statement.ast, statement.text)  # what is wrong is told now, not on use
                return _ok(statement, self._definitions.create_view(statement))
            case Drop():
                return self._drop(statement)
            case StopStream():
                return self._stop_stream(statement)
            case Set():
                return self._set(statement)
            case Reset():
                return self._reset(statement)
            case _:
                return self._show(statement)

    def _show(self, statement: Statement) -> Result:
        """SHOW and DESCRIBE of what the session keeps; everything else is Spark's."""
        table: pa.Table | None = None
        match statement:
            case ShowTables():
                table = listings.show_tables(self.catalog, self.spark, statement.like)
            case ShowViews():
                table = listings.show_views(self.catalog, self.spark, statement.like)
            case ShowFunctions():
                table = listings.show_functions(self.spark, statement.like)
            case ShowCreateTable() if self.catalog.entry(statement.name) is not None:
                table = listings.show_create_table(self.catalog, statement.name)
            case ShowStreams():
                table = show_streams(self.stream_queries.streams)
            case Describe() if self.catalog.entry(statement.name) is not None:
                table = listings.describe(self.catalog, statement.name, self.spark)
            case SparkStatement():
                return self._spark_statement(statement.spark_text)
            case ShowCreateTable() | Describe():
                return self._spark_statement(statement.text)
        if table is None:
            raise AssertionError(f"no way to run {type(statement).__name__}")
        return Result(statement.text, "table", table=table)

    # -- queries -------------------------------------------------------------------------------

    def can_explain(self, statement: Statement) -> bool:
        """Whether a statement has a plan."""
        if isinstance(statement, CreateTable):
            return statement.as_query is not None
        return isinstance(statement, Query | Insert | StatementSet)

    def explanations(self, statement: Statement, analyze: bool = False) -> list[Json]:
        """Plans as documents: of a query, a CREATE TABLE AS, each INSERT of a statement set.

        Args:
            statement: the statement.
            analyze: whether it is run, and the document holds what was measured.
        """
        self.start_statement()
        match statement:
            case Query():
                query, sink = statement.ast, None
            case Insert():
                query, sink = statement.ast, (".".join(statement.name), statement.overwrite)
            case CreateTable() if statement.as_query is not None and not analyze:
                query, sink = statement.as_query, (".".join(statement.name), False)
            case StatementSet():
                if not analyze:
                    return self._explanations_together(statement.inserts)
                each = [self.explanations(insert, analyze) for insert in statement.inserts]
                return [document for documents in each for document in documents]
            case _:
                raise SqlwinError(
                    f"EXPLAIN {'ANALYZE ' * analyze}takes a query or an INSERT",
                    hint="write EXPLAIN SELECT ... or EXPLAIN INSERT INTO ...",
                )
        plan = self._plan(query, statement.text, sink)
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        explained = query_document(plan, statement.text, zone)
        if self.stream_queries.is_stream(plan):
            explained["text"] += "\n" + self.stream_queries.explain(plan)
        if not analyze:
            return [explained]
        if self.stream_queries.is_stream(plan):
            raise SqlwinError(
                "EXPLAIN ANALYZE measures a run that ends, and this query reads a stream",
                hint="SHOW STREAMS tells how running streams stand; "
                "SET 'execution.runtime-mode' = 'batch' measures a batch",
            )

        def run(rows: DataFrame) -> None:
            if isinstance(statement, Insert):
                self._write(statement, rows)
            else:
                without_results(rows)

        options = self._execution_options()
        try:
            return [analyzed(explained, plan.physical, self.spark, options, run)]
        except SqlwinError:
            raise
        except Exception as error:
            raise self._explained(statement.text)(error) from error

    def _explanations_together(self, inserts: Sequence[Insert]) -> list[Json]:
        """Documents of INSERTs that share what they can; in texts a shared part stands once."""
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        drawn: set[int] = set()
        return [
            query_document(plan, insert.text, zone, drawn)
            for insert, plan in zip(inserts, self._plans(inserts), strict=True)
        ]

    def _explain_statement(self, statement: Explain) -> Result:
        if isinstance(statement.statement, SparkStatement):
            return self._spark_statement(statement.text)
        queries = self.explanations(statement.statement, "ANALYZE" in statement.details)
        text = "\n".join(query["text"] for query in queries)
        notes = []
        for detail in statement.details:
            if detail in _SPARK_DETAILS and isinstance(statement.statement, Query):
                rows = self._dataframe(statement.statement.ast, statement.statement.text)
                text += f"\n== Spark's Plan, {detail} ==\n{_spark_plan(rows, detail.lower())}"
            elif detail == "CHANGELOG_MODE":
                text += "\n== Changelog Mode ==\nin batch every operator only inserts: [I]\n"
            elif detail == "JSON_EXECUTION_PLAN":
                text += f"\n== Physical Execution Plan ==\n{render(document(queries), 'json')}"
            elif detail != "ANALYZE":
                notes.append(f"EXPLAIN {detail} has nothing to add to the plan of a batch query")
        return Result(
            statement.text, "explain", text=text, notes=tuple(notes), document=document(queries)
        )

    def _query(self, query: exp.Query, text: str) -> Result:
        plan = self._plan(query, text)
        explained = self._explained(text)
        if not self.stream_queries.is_stream(plan):
            rows = self._planned_dataframe(plan, text, is_whole=True)
            return Result(
                text,
                "query",
                dataframe=rows,
                explained=explained,
                notes=self._notes(),
                null_times=self._null_times,
            )

        def replan() -> Plan:
            self.start_statement()
            return self._plan(query, text)

        return stream_query(self.stream_queries, plan, replan, text, explained)

    def start_statement(self) -> None:
        """From here on tables are read anew, in the mode that is set."""
        self.catalog.start_statement(str(self.config.get("execution.runtime-mode")))

    def plan_of(self, query: Query) -> Plan:
        """The plan of a query, in the statement at hand."""
        return self._plan(query.ast, query.text)

    def rows_of(self, query: Query) -> DataFrame:
        """The rows of a query that runs as a batch, in the statement at hand."""
        return self._dataframe(query.ast, query.text)

    def _notes(self) -> tuple[str, ...]:
        """Remarks about a query that runs as a batch."""
        if self.config.get("execution.runtime-mode") != "streaming":
            return ()
        return ("no table of this query can be read as a stream: it runs as a batch",)

    def _dataframe(self, query: exp.Query, text: str, is_whole: bool = True) -> DataFrame:
        """The rows of a query; `is_whole` if `text` is the query and nothing more."""
        return self._planned_dataframe(self._plan(query, text), text, is_whole)

    def _planned_dataframe(self, plan: Plan, text: str, is_whole: bool) -> DataFrame:
        try:
            if self.stream_queries.is_stream(plan):
                return self.stream_queries.dataframe(plan)
            if is_whole and not plan.is_rewritten:
                return self.spark.sql(text)
            return dataframe(self.spark, lower(plan.physical), self._execution_options())
        except PySparkException as error:
            raise self._explained(text)(error) from error

    def _plan(self, query: exp.Query, text: str, sink: tuple[str, bool] | None = None) -> Plan:
        (plan,) = plan_together([self._draft(query, text, sink)], self._planner_options())
        return plan

    def _plans(self, inserts: Sequence[Insert], has_sinks: bool = True) -> list[Plan]:
        """The plans of INSERTs that run together, with their tables on top or without."""
        drafts = []
        for insert in inserts:
            sink = (".".join(insert.name), insert.overwrite) if has_sinks else None
            drafts.append(self._draft(insert.ast, insert.text, sink))
        return plan_together(drafts, self._planner_options())

    def _draft(self, query: exp.Query, text: str, sink: tuple[str, bool] | None) -> Draft:
        try:
            return draft_plan(query, text, self.catalog, self._planner_options(), sink)
        except SqlwinError as error:
            raise relocate(error, text) from error

    def _planner_options(self) -> Options:
        return Options(
            agg_phase_strategy=str(self.config.get("table.optimizer.agg-phase-strategy")),
            disabled_rules=frozenset(self.config.get("sqlwin.optimizer.disabled-rules")),
            strict_flink=bool(self.config.get("sqlwin.strict-flink")),
            catalog=self.catalog,
            time_zone=str(self.spark.conf.get("spark.sql.session.timeZone")),
            spread=SpreadOptions(
                partitions=self.config.get("sqlwin.exchange.partitions"),
                buckets=self.config.get("sqlwin.exchange.buckets"),
                most_partitions=int(str(self.spark.conf.get("spark.sql.shuffle.partitions"))),
            ),
        )

    def _execution_options(self) -> ExecutionOptions:
        return ExecutionOptions(
            buffer_bytes=int(self.config.get("sqlwin.local.buffer-size")),
            null_times=self._null_times,
        )

    def _view_dataframe(self, view: View) -> DataFrame:
        query = self.catalog.view(view.name)
        assert query is not None
        return self._dataframe(query, view.text, is_whole=False)

    # -- inserts -------------------------------------------------------------------------------

    def _insert(self, statement: Insert) -> Result:
        plan = self._plan(statement.ast, statement.text)
        if self.stream_queries.is_stream(plan):
            stream = self._start_insert(
                plan, statement, insert_target(self.catalog, statement.name)
            )
            started = [(".".join(statement.name), stream)]
            return insert_result(statement.text, started, waits=self._waits())
        rows = self._planned_dataframe(plan, statement.text, is_whole=False)
        return self._write(statement, rows)

    def _write(self, statement: Insert, rows: DataFrame) -> Result:
        table = insert_target(self.catalog, statement.name)
        name = ".".join(statement.name)
        try:
            if table is not None:
                count = insert_rows(rows, table, statement.columns, statement.overwrite)
            else:
                count = None
                insert_into_spark(
                    self.spark,
                    rows,
                    statement.name,
                    statement.columns,
                    statement.overwrite,
                    statement.partition,
                )
        except SqlwinError:
            raise
        except Exception as error:
            raise self._explained(statement.text)(error) from error
        written = "" if count is None else f" {count:,} row{'' if count == 1 else 's'}"
        return Result(
            statement.text,
            "insert",
            f"INSERT INTO {name}:{written or ' done'}",
            row_count=count,
            null_times=self._null_times,
        )

    def _start_insert(self, plan: Plan, statement: Insert, table: TableSpec | None) -> Stream | str:
        explained = self._explained(statement.text)
        try:
            return start_insert(self.stream_queries, plan, statement, table, explained)
        except PySparkException as error:
            raise explained(error) from error

    def _waits(self) -> bool:
        """Whether INSERT waits for streams without an end."""
        return bool(self.config.get("table.dml-sync"))

    def _statement_set(self, statement: StatementSet) -> Result:
        """All INSERTs of a set; over tables at rest all are checked before the first one runs."""
        inserts = statement.inserts
        tables = [insert_target(self.catalog, insert.name) for insert in inserts]
        plans = self._plans(inserts, has_sinks=False)
        are_streams = [self.stream_queries.is_stream(plan) for plan in plans]
        if all(are_streams):
            # All are started before the first is waited for
            started = [
                (".".join(insert.name), self._start_insert(plan, insert, table))
                for plan, insert, table in zip(plans, inserts, tables, strict=True)
            ]
            return insert_result(statement.text, started, waits=self._waits())
        if any(are_streams):
            results = [self._insert(insert) for insert in inserts]
        else:
            results = self._insert_together(inserts, [lower(plan.physical) for plan in plans])
        counts = [result.row_count for result in results]
        total = sum(count or 0 for count in counts) if None not in counts else None
        message = "\n".join(result.message for result in results)
        return Result(
            statement.text, "insert", message, row_count=total, null_times=self._null_times
        )

    def _insert_together(self, inserts: Sequence[Insert], steps: Sequence[Step]) -> list[Result]:
        """INSERTs one after another, with what they share kept in between."""
        results: list[Result] = []
        with SharedPartials(read_by_several(steps)) as shared:
            rows = [
                self._insert_rows(insert, step, shared)
                for insert, step in zip(inserts, steps, strict=True)
            ]
            for insert, frame in zip(inserts, rows, strict=True):
                self._describe_job(insert.text)
                try:
                    results.append(self._write(insert, frame))
                except SqlwinError as error:
                    raise _with_progress(error, inserts, len(results)) from error
        return results

    def _insert_rows(self, insert: Insert, step: Step, shared: SharedPartials) -> DataFrame:
        """The rows of an INSERT of a statement set, found to fit its table."""
        try:
            rows = dataframe(self.spark, step, self._execution_options(), shared)
        except PySparkException as error:
            raise self._explained(insert.text)(error) from error
        table = insert_target(self.catalog, insert.name)
        if table is not None:
            arranged(rows, table, insert.columns)
        return rows

    # -- definitions ---------------------------------------------------------------------------

    def _create_table(self, statement: CreateTable) -> Result:
        query = statement.as_query
        if query is None:
            return _ok(statement, self._definitions.create_table(statement))
        plan = self._plan(query, statement.text)
        rows = self._planned_dataframe(plan, statement.text, is_whole=False)
        message = self._definitions.create_table(statement, rows)
        table = insert_target(self.catalog, statement.name)
        assert table is not None
        if self.stream_queries.is_stream(plan):
            stream = self.stream_queries.insert(
                plan, statement.text, table, (), False, self._explained(statement.text)
            )
            started = [(".".join(statement.name), stream)]
            return insert_result(statement.text, started, waits=self._waits())
        try:
            count = insert_rows(rows, table, (), overwrite=False)
        except Exception as error:
            self.catalog.drop(statement.name, "TABLE", if_exists=True)
            if isinstance(error, SqlwinError):
                raise
            raise self._explained(statement.text)(error) from error
        return Result(
            statement.text, "insert", message, row_count=count, null_times=self._null_times
        )

    def _drop(self, statement: Drop) -> Result:
        kept = self.catalog.entry(statement.name) is not None
        if not kept and self._is_known_to_spark(statement.name):
            return self._spark_statement(statement.text)
        self.catalog.drop(statement.name, statement.kind, if_exists=statement.if_exists)
        return _ok(statement, "OK")

    def _is_known_to_spark(self, name: Name) -> bool:
        try:
            return bool(self.spark.catalog.tableExists(".".join(f"`{part}`" for part in name)))
        except PySparkException:
            return False  # a catalog or database that does not exist holds no table

    # -- streams -------------------------------------------------------------------------------

    def _stop_stream(self, statement: StopStream) -> Result:
        streams = self.stream_queries.streams
        stream = streams.find(statement.name)
        if stream.state is not State.RUNNING:
            return _ok(statement, f"stream {stream.number} does not run: it is {stream.state}")
        stream.stop()
        return _ok(
            statement,
            f"stream {stream.number} (`{stream.setup.name}`) is stopped",
            (resume_hint(stream),),
        )

    # -- settings ------------------------------------------------------------------------------

    def set(self, key: str, value: str) -> tuple[str, ...]:
        """Change a setting; remarks about it.

        Raises:
            SqlwinError: there is no such setting, or the value has no sense.
        """
        notes = self.config.set(key, value)
        self._apply_to_spark(key)
        return notes

    def _set(self, statement: Set) -> Result:
        if statement.key is None:
            return Result(statement.text, "table", table=_settings_table(self.config.items()))
        if statement.value is None:
            if statement.key.startswith("spark."):
                value = self.spark.conf.get(statement.key, None)
            else:
                value = self.config.text(statement.key)
            rows = [(statement.key, value or "")]
            return Result(statement.text, "table", table=_settings_table(rows))
        notes = self.set(statement.key, statement.value)
        return _ok(statement, "OK", notes)

    def _reset(self, statement: Reset) -> Result:
        keys = [statement.key] if statement.key else [key for key, _ in self.config.items()]
        for key in keys:
            self.config.reset(key)
            self._apply_to_spark(key)
        return _ok(statement, "OK")

    def _apply_to_spark(self, key: str) -> None:
        """Settings that stand for one of Spark's are set there too."""
        conf, value = self.config.spark_setting(key)
        if conf is None:
            return
        try:
            if value is None:
                self.spark.conf.unset(conf)
            else:
                self.spark.conf.set(conf, value)
        except PySparkException as error:
            raise translate(error, None) from error

    # -- Spark's own ---------------------------------------------------------------------------

    def _spark_statement(self, text: str) -> Result:
        self.catalog.show_all(words(text))
        try:
            rows = self.spark.sql(text)
            if not rows.columns:
                return Result(text, "ok", "OK")
        except PySparkException as error:
            raise self._explained(text)(error) from error
        return Result(text, "query", dataframe=rows, explained=self._explained(text))

    def _explained(self, text: str) -> Callable[[BaseException], SqlwinError]:
        def explained(error: BaseException) -> SqlwinError:
            if isinstance(error, SqlwinError):
                return relocate(error, text)
            return relocate(self.catalog.explained(translate(error, text)), text)

        return explained

    def _describe_job(self, text: str) -> None:
        """Spark's UI shows the statement beside its jobs."""
        if not is_remote(self.spark):
            name = self.config.get("pipeline.name")
            described = f"{name}: {text}" if name else text
            self.spark.sparkContext.setJobDescription(" ".join(described.split())[:500])


def _with_progress(error: SqlwinError, inserts: Sequence[Insert], n_written: int) -> SqlwinError:
    """The error of an INSERT of a statement set, with what became of the others."""
    names = [".".join(insert.name) for insert in inserts]
    parts = []
    if n_written:
        have = "has" if n_written == 1 else "have"
        parts.append(f"{', '.join(names[:n_written])} {have} been written")
    rest = names[n_written + 1 :]
    if rest:
        parts.append(f"{', '.join(rest)} {'was' if len(rest) == 1 else 'were'} not begun")
    if parts:
        place = f"INSERT {n_written + 1} of {len(names)} in the statement set failed"
        note = f"{place} ({names[n_written]}): {'; '.join(parts)}"
        error.hint = f"{error.hint}\n  {note}" if error.hint else note
    return error


def _spark_plan(rows: DataFrame, mode: str) -> str:
    """What Spark makes of a query, as its own EXPLAIN prints it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        rows.explain(mode=mode)
    return out.getvalue()


def _ok(statement: Statement, message: str, notes: tuple[str, ...] = ()) -> Result:
    return Result(statement.text, "ok", message, notes=notes)


def _settings_table(rows: list[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.string()),
            "value": pa.array([value for _, value in rows], pa.string()),
        }
    )
