"""Runs the records of a file in some modes.

Queries run in groups, as one UNION ALL with a column for the rows of each query, because a Spark
job or a stream for every query takes too long. A query runs alone if its record says so, or if its
order counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pyarrow as pa

import sqlwin
from runtime.errors import AnalysisError
from runtime.frames.arrow_tables import cast_to_schema
from runtime.refusal import Refusal
from sqlwin.display.python_values import python_rows
from sqlwin.result import Result, RowsResult, StreamedRows
from sqlwin.result.in_process import InProcessRows
from tests.slt.checks import Answer, QueryRows, check_plan, check_rows, has_words, texts_of
from tests.slt.definitions import sql_of
from tests.slt.files import write_file
from tests.slt.modes import (
    ALONE,
    BATCH,
    DISABLED,
    IN_PROCESS,
    STREAM,
    STREAMING,
    Mode,
    Selection,
    Settings,
)
from tests.slt.script import Record, fill, read_records
from tests.slt.tables import count_micro_batches, create_table
from tests.unstarted import NeedsSparkError

_Errors = (AssertionError, ValueError, sqlwin.SqlwinError, duckdb.Error)
_SET = re.compile(r"SET '([^']*)' = '([^']*)'$")
_RESET = re.compile(r"RESET '([^']*)'$")
# A new table or view: waiting queries do not read it
_CREATE = re.compile(r"CREATE (?:TEMPORARY )?(?:TABLE|VIEW) (\w+)", re.I)
# A section of EXPLAIN, and the sections that do not describe what runs
_SECTION = re.compile(r"^(?=== )", re.M)
_BEFORE_PROGRAM = ("== Abstract Syntax Tree", "== Optimized Logical Plan", "== Rules")
# Sections of EXPLAIN, whether the query is a statement of its own, whether it reads streams
_Program = tuple[tuple[str, ...], bool, bool]
# Target table or view of a statement
_TARGET = re.compile(r"\b(?:INTO|TABLE|VIEW) \"?((?<=\")[^\"]+|\w+)", re.I)


@dataclass(frozen=True)
class Way:
    """A mode, and the settings with which a query runs in it."""

    mode: Mode
    settings: Settings
    is_stream_record: bool = False

    @property
    def group_size(self) -> int:
        """Maximum number of queries in one UNION ALL."""
        return min(self.mode.group_size, STREAM.group_size if self.is_streaming else 99)

    @property
    def is_streaming(self) -> bool:
        """Whether tables are read as streams."""
        return STREAMING in self.settings


@dataclass
class FileRun:
    """One run of a file.

    Attributes:
        session: A session without tables.
        duck: DuckDB with the rows of `data`, for `oracle` records.
        directory: A directory for the files of tables and for checkpoints.
        selection: Which queries run, and in which modes.
        failures: Messages of the records that fail.
        results: Rows of `query` and `stream` records by line, as lines of text.
        n_run: Number of runs of queries, by mode.
        left_out: Numbers of queries that do not run.
        ran: Numbers of queries that ran in process and whose plans need no check.
        n_same_program: Number of runs that are left out because the query has run that program.
        on_spark: Number of queries that do not run in process, by reason.
    """

    session: sqlwin.Session
    duck: duckdb.DuckDBPyConnection
    directory: Path
    selection: Selection
    failures: list[str] = field(default_factory=list)
    results: dict[int, list[str]] = field(default_factory=dict)
    n_run: Counter[str] = field(default_factory=Counter)
    left_out: Set[int] = frozenset()
    ran: set[int] = field(default_factory=set)
    n_same_program: int = 0
    on_spark: Counter[str] = field(default_factory=Counter)
    _waiting: dict[Way, list[Record]] = field(default_factory=dict)
    _n_batches: dict[str, int] = field(default_factory=dict)
    _stream_names: set[str] = field(default_factory=lambda: {"data"})
    _missing_names: set[str] = field(default_factory=set)
    _set_by_file: dict[str, str] = field(default_factory=dict)
    _n_streams: int = 0
    _n_queries: int = 0

    def run(self, path: Path) -> None:
        """Run the records in order and collect failures and results."""
        self._n_batches["data"] = 2
        for record in read_records(path):
            record = replace(record, sql=record.sql.replace("{directory}", str(self.directory)))
            try:
                if record.kind == "table":
                    self._create_table(record)
                elif record.kind == "file":
                    self._flush()
                    write_file(fill(record), self.directory)
                elif record.kind == "statement":
                    self._run_statement(record)
                else:
                    self._run_query(record)
            except NeedsSparkError:
                targets = (
                    [record.words.split()[0]]
                    if record.kind == "table"
                    else _TARGET.findall(sql_of(record)[0])
                )
                self._missing_names.update(name.lower() for name in targets)
            except _Errors as error:
                self._fail(record, error)
        self._flush()

    # -- statements and tables --------------------------------------------------------------------

    def _create_table(self, record: Record) -> None:
        name = record.words.split()[0].lower()
        self._n_batches[name] = count_micro_batches(record)
        self._stream_names.add(name)
        self.session.execute(create_table(record, self.directory))

    def _run_statement(self, record: Record) -> None:
        sql, _ = sql_of(record)
        outcome, _, words = record.words.partition(" ")
        if outcome == "error":
            self._check_error(sql, words)
            return
        if self._reads_missing(sql):
            self._missing_names.update(name.lower() for name in _TARGET.findall(sql))
            return
        created = _CREATE.match(sql)
        if created is None:
            self._flush()
        elif self._reads_stream(sql):
            self._stream_names.add(created[1].lower())
            self._n_batches[created[1].lower()] = self._count_batches([sql])
        report = self._report(sql)
        assert report is None, report
        if change := _SET.match(sql):
            self._set_by_file[change[1]] = change[2]
        elif change := _RESET.match(sql):
            self._set_by_file.pop(change[1], None)

    def _check_error(self, sql: str, words: str) -> None:
        """Check how a statement fails, on Spark and without it."""
        if not {BATCH, IN_PROCESS} & set(self.selection.modes) or self._reads_missing(sql):
            return
        try:
            report = self._report(sql)
        except NeedsSparkError:
            self.on_spark["Spark finds the error"] += 1
            return
        assert report is not None, "it does not fail"
        assert has_words(report, words), report

    def _report(self, sql: str) -> str | None:
        """Return the report of a script that fails, None if it succeeds."""
        try:
            for result in self.session.execute(sql):
                assert result.rows is not None
        except NeedsSparkError:
            raise
        except sqlwin.SqlwinError as error:
            return str(error)
        return None

    # -- choice of modes --------------------------------------------------------------------------

    def _run_query(self, record: Record) -> None:
        """Run a query in the selected modes, or let it wait for others to run with it."""
        turn = self._n_queries
        self._n_queries += 1
        if turn % self.selection.every or turn in self.left_out:
            return
        modes = self.selection.modes
        if not self.selection.is_in_turn:
            n_before = self.n_run[IN_PROCESS.name]
            for way in self.ways(record, modes):
                self._wait(record, way)
            # it never waits for others
            if self.n_run[IN_PROCESS.name] > n_before:
                self.ran.add(turn)
            return
        for step in range(len(modes)):
            mode = modes[(turn + step) % len(modes)]
            if ways := self.ways(record, (mode,)):
                self._wait(record, ways[turn // len(modes) % len(ways)])
                return

    def ways(self, record: Record, modes: Sequence[Mode]) -> list[Way]:
        """Return the ways in which a query runs in modes, each with another program."""
        done = [way for mode in self.selection.done for way in self._ways(record, mode)]
        ways = [way for mode in modes for way in self._ways(record, mode)]
        if len(ways) + len(done) == 1:
            return ways
        programs = {self._program(record, way) for way in done}
        chosen = []
        for way in ways:
            program = self._program(record, way)
            if program is not None and program not in programs:
                programs.add(program)
                chosen.append(way)
        self.n_same_program += len(ways) - len(chosen)
        return chosen

    def _ways(self, record: Record, mode: Mode) -> list[Way]:
        """Return the ways in which a query runs in a mode. Empty: the mode does not fit."""
        is_stream = record.kind == "stream"
        sql, _ = sql_of(record)
        if is_stream and mode != BATCH and not mode.rules:
            return []
        if mode.is_in_process and self._reads_missing(sql):
            self.on_spark["a statement before it needs Spark"] += 1
            return []
        if mode.is_stream and ("batch" in record.flags or not self._reads_stream(sql)):
            return []
        settings = mode.settings
        if is_stream and not mode.is_stream:
            settings = (*settings, STREAMING)
        if not mode.rules:
            return [Way(mode, settings, is_stream)]
        with self._settings(settings):
            documents = self.session.explain_queries(sql)  # none for SHOW TABLES
        applied = {entry["rule"] for d in documents for entry in d["rules"]["applied"]}
        return [
            Way(mode, (*settings, (DISABLED, rule)), is_stream)
            for rule in mode.rules
            if rule in applied
        ]

    def _program(self, record: Record, way: Way) -> _Program | None:
        """Return what runs for a query. None: it is refused, because it needs a rule."""
        sql, _ = sql_of(record)
        with self._settings(way.settings):
            try:
                documents = self.session.explain_queries(sql)
            except AnalysisError:
                return None
        parts = [part for d in documents for part in _SECTION.split(d["text"])]
        plans = tuple(part for part in parts if not part.startswith(_BEFORE_PROGRAM))
        return plans, is_alone(record, way), way.is_streaming

    def _reads_missing(self, sql: str) -> bool:
        """Return whether SQL needs a table or view that only Spark could create or fill."""
        words = _words(sql)
        return bool(self._missing_names) and (
            "show" in words
            or not self._missing_names.isdisjoint(words)
            or any(f'"{name}"' in sql.lower() for name in self._missing_names)
        )

    def _reads_stream(self, sql: str) -> bool:
        """Return whether a query or a view mentions a `table` record, or a view of one."""
        return not self._stream_names.isdisjoint(_words(sql))

    # -- groups of queries ------------------------------------------------------------------------

    def _wait(self, record: Record, way: Way) -> None:
        if is_alone(record, way):
            self._compare([record], way)
            return
        group = self._waiting.setdefault(way, [])
        group.append(record)
        if len(group) >= way.group_size:
            self._compare(self._waiting.pop(way), way)

    def _flush(self) -> None:
        """Run the waiting queries."""
        waiting, self._waiting = self._waiting, {}
        for way, group in waiting.items():
            self._compare(group, way)

    def _compare(self, group: list[Record], way: Way) -> None:
        """Run queries and compare their rows with the file."""
        with self._settings(way.settings):
            try:
                answers = self._execute(group, way)
            except NeedsSparkError:
                self.on_spark[self._reason_for_spark(group[0])] += 1
                return
            except (sqlwin.SqlwinError, AssertionError) as error:
                if len(group) == 1:
                    self._fail(group[0], error, way)
                    return
                n_failures = len(self.failures)
                for record in group:  # to know which one fails
                    self._compare([record], way)
                if len(self.failures) == n_failures:
                    together = AssertionError(f"{len(group)} queries fail together: {error}")
                    self._fail(group[0], together, way)
                return
            n_batches = self._count_batches([sql_of(record)[0] for record in group])
            for record, answer in zip(group, answers, strict=True):
                self.n_run[way.mode.name] += 1
                try:
                    if record.operators and way.mode in (BATCH, ALONE, IN_PROCESS):
                        check_plan(self.session, record)
                    if record.kind != "oracle":
                        self.results.setdefault(record.line, texts_of(record, answer, n_batches))
                    check_rows(record, answer, n_batches, self.duck)
                except _Errors as error:
                    self._fail(record, error, way)

    def _execute(self, group: list[Record], way: Way) -> list[Answer]:
        """Return the rows of each query, by micro-batch."""
        sqls = [sql_of(record)[0] for record in group]
        sql = sqls[0] if len(group) == 1 else union(sqls)
        (result,) = self.session.execute(sql)
        if way.mode.is_in_process and isinstance(result, RowsResult):
            # others, of DESCRIBE, are of the catalog
            if not isinstance(result.data, InProcessRows):
                raise NeedsSparkError(sql)
        if way.is_stream_record:
            emitted = list(self._streamed(result))
        else:
            emitted = [(1, [tuple(row) for row in result.rows])]
        if len(group) == 1:
            return [Answer(emitted, result.notes)]
        return [
            Answer(
                [
                    (number, [tuple(row[1 + place]) for row in rows if row[0] == place])
                    for number, rows in emitted
                ]
            )
            for place in range(len(group))
        ]

    def _streamed(self, result: Result) -> Iterator[tuple[int, QueryRows]]:
        """Run a stream and yield the rows of each micro-batch with its number."""
        assert isinstance(result, RowsResult)
        assert isinstance(result.data, StreamedRows), "the query reads no stream"
        self._n_streams += 1
        checkpoints = self.directory / f"checkpoints_{self._n_streams}"
        tables: list[tuple[int, pa.Table]] = []

        def take(table: pa.Table) -> None:
            # Spark writes the offsets of a micro-batch before it runs
            numbers = [int(file.name) for file in checkpoints.glob("*/spark/offsets/[0-9]*")]
            tables.append((max(numbers) + 1, table))

        with self._settings((("execution.checkpointing.dir", str(checkpoints)),)):
            stream = result.data.opened.start(take)
            assert not isinstance(stream, Refusal), stream
            stream.wait()
        for number, table in tables:
            batches = [cast_to_schema(batch, result.data.schema) for batch in table.to_batches()]
            yield number, [tuple(row) for batch in batches for row in python_rows(batch)]

    def _count_batches(self, sqls: Sequence[str]) -> int:
        """Return the number of micro-batches in which a stream reads the tables of queries."""
        mentioned = set.union(*map(_words, sqls))
        return max((n for name, n in self._n_batches.items() if name in mentioned), default=1)

    def _reason_for_spark(self, record: Record) -> str:
        """Return the reason that EXPLAIN gives for running a query on Spark."""
        try:
            (document,) = self.session.explain_queries(sql_of(record)[0])
        except (NeedsSparkError, ValueError):
            return "Spark has to describe it"
        return str(document["text"]).rpartition("on Spark: ")[2].strip()

    def _fail(self, record: Record, error: Exception, way: Way | None = None) -> None:
        settings = () if way is None else way.settings
        where = ", ".join(f"{key} = {value}" for key, value in settings)
        self.failures.append(f"{record.title}{f' ({where})' if where else ''}: {error}")

    @contextmanager
    def _settings(self, values: Settings) -> Iterator[None]:
        """Change settings for the block, and restore the file's settings afterwards."""
        for key, value in values:
            self.session.execute(f"SET '{key}' = '{value}'")
        try:
            yield
        finally:
            for key, _ in values:
                self.session.execute(
                    f"SET '{key}' = '{self._set_by_file[key]}'"
                    if key in self._set_by_file
                    else f"RESET '{key}'"
                )


def is_alone(record: Record, way: Way) -> bool:
    """Return whether a query runs as a statement of its own."""
    return bool({"alone", "ordered", "notes"} & record.flags) or way.group_size == 1


def union(sqls: Sequence[str]) -> str:
    """Return one query for several: the place of the query, then a column for each one's rows."""

    def branch(place: int, sql: str) -> str:
        columns = ("STRUCT(*)" if other == place else "NULL" for other in range(len(sqls)))
        named = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
        return f"SELECT {place} AS place, {named} FROM (\n{sql}\n)"

    return "\nUNION ALL\n".join(branch(place, sql) for place, sql in enumerate(sqls))


def _words(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.lower()))
