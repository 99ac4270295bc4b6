"""Runs the records of a file in one mode.

Queries run in groups, as one UNION ALL with a column for the rows of each query, because a Spark
job or a stream for every query takes too long. A query runs alone if its record says so, or if its
order counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import sqlwin
from runtime.frames.arrow_tables import as_of_schema
from sqlwin.display.python_values import python_rows
from sqlwin.result import Result, RowsResult, StreamedRows
from tests.oracle import same_rows
from tests.slt import definitions
from tests.slt.modes import ALONE, BATCH, SAMPLE, Mode
from tests.slt.script import Record, fill, read_records
from tests.slt.tables import count_micro_batches, create_table
from tests.slt.values import row_text

# Most queries in one UNION ALL
GROUP = {False: 10, True: 6}
QueryRows = list[tuple[Any, ...]]
# Number of the micro-batch, from 1, and the rows that it emitted
Emitted = list[tuple[int, QueryRows]]


@dataclass
class FileRun:
    """One run of a file.

    Attributes:
        session: A session without tables.
        duck: DuckDB with the rows of `data`, for `oracle` records.
        directory: A directory for the files of tables and for checkpoints.
        mode: How queries run.
        is_sample: Whether only the first queries run.
        failures: Messages of the records that fail.
        results: Rows of `query` and `stream` records by line, as lines of text.
        n_run: Number of `query`, `stream` and `oracle` records that ran.
    """

    session: sqlwin.Session
    duck: duckdb.DuckDBPyConnection
    directory: Path
    mode: Mode
    is_sample: bool = False
    failures: list[str] = field(default_factory=list)
    results: dict[int, list[str]] = field(default_factory=dict)
    n_run: int = 0
    _waiting: list[Record] = field(default_factory=list)
    _n_batches: dict[str, int] = field(default_factory=dict)
    _stream_names: set[str] = field(default_factory=lambda: {"data"})
    _n_streams: int = 0

    def run(self, path: Path) -> None:
        """Run the records in order and collect failures and results."""
        for record in read_records(path):
            try:
                self._run(record)
            except (AssertionError, ValueError, sqlwin.SqlwinError, duckdb.Error) as error:
                self._fail(record, error)
        self._flush()

    def _run(self, record: Record) -> None:
        if record.kind in ("statement", "table"):
            self._flush()
            self._run_statement(record)
            return
        if self._is_excluded(record):
            return
        if self._waiting and not _can_share(self._waiting[0], record, self.mode):
            self._flush()
        self._waiting.append(record)
        if len(self._waiting) >= GROUP[self._is_streaming(record)] or self.mode == ALONE:
            self._flush()

    def _is_excluded(self, record: Record) -> bool:
        if record.kind == "stream":
            return self.mode not in (BATCH, *((self.mode,) if self.mode.rules else ()))
        n_run = self.n_run + len(self._waiting)
        if self.is_sample and n_run >= SAMPLE:
            return True
        return self.mode.is_stream and ("batch" in record.flags or not self._reads_stream(record))

    def _reads_stream(self, record: Record) -> bool:
        """Return whether a query or a view mentions a `table` record, or a view of one."""
        return not self._stream_names.isdisjoint(_words(record.sql))

    def _is_streaming(self, record: Record) -> bool:
        return record.kind == "stream" or self.mode.is_stream

    def _run_statement(self, record: Record) -> None:
        if record.kind == "table":
            name = record.words.split()[0].lower()
            self._n_batches[name] = count_micro_batches(record)
            self._stream_names.add(name)
            self.session.execute(create_table(record, self.directory))
            return
        record = fill(record)
        view = re.match(r"CREATE (?:TEMPORARY )?VIEW (\w+)", record.sql, re.I)
        if view is not None and self._reads_stream(record):
            self._stream_names.add(view[1].lower())
            self._n_batches[view[1].lower()] = self._count_batches([record])
        outcome, _, words = record.words.partition(" ")
        report = failure(record.sql, self.session)
        assert (report is None) == (outcome == "ok"), report or "it does not fail"
        assert report is None or _has_words(report, words), report

    def _flush(self) -> None:
        """Run the waiting queries."""
        group, self._waiting = self._waiting, []
        if not group:
            return
        settings = dict(self.mode.settings)
        if self._is_streaming(group[0]):
            settings["execution.runtime-mode"] = "streaming"
        if not self.mode.rules:
            self._compare(group, settings)
            return
        for rule in self.mode.rules:
            affected = self._affected(group, rule, settings)
            if affected:
                self._compare(affected, {**settings, DISABLED: rule})

    def _affected(self, group: list[Record], rule: str, settings: dict[str, str]) -> list[Record]:
        """Return the records whose plan a rule changes, and that can run without it."""
        with _settings(self.session, settings):
            affected = [r for r in group if rule in self._applied_rules(_sqls(r)[0])]
        with _settings(self.session, {**settings, DISABLED: rule}):
            return [r for r in affected if not _needs_rule(self.session, _sqls(r)[0])]

    def _applied_rules(self, sql: str) -> set[str]:
        documents = self.session.explain_queries(sql)  # none for SHOW TABLES
        return {entry["rule"] for d in documents for entry in d["rules"]["applied"]}

    def _compare(self, group: list[Record], settings: dict[str, str]) -> None:
        """Run queries with some settings and compare their rows with the file."""
        with _settings(self.session, settings):
            try:
                emitted = self._execute(group)
            except (sqlwin.SqlwinError, AssertionError) as error:
                if len(group) == 1:
                    self._fail(group[0], error, settings)
                    return
                for record in group:  # to know which one fails
                    self._compare([record], settings)
                return
            n_batches = self._count_batches(group)
            for record, rows in zip(group, emitted, strict=True):
                try:
                    self._check(record, rows, n_batches)
                except (AssertionError, sqlwin.SqlwinError, duckdb.Error) as error:
                    self._fail(record, error, settings)

    def _execute(self, group: list[Record]) -> list[Emitted]:
        """Return the rows of each query, by micro-batch."""
        sqls = [_sqls(record)[0] for record in group]
        sql = sqls[0] if len(group) == 1 else union(sqls)
        (result,) = self.session.execute(sql)
        if group[0].kind == "stream":
            emitted = list(self._streamed(result))
        else:
            emitted = [(1, [tuple(row) for row in result.rows])]
        if len(group) == 1:
            return [emitted]
        return [
            [
                (number, [tuple(row[1 + place]) for row in rows if row[0] == place])
                for number, rows in emitted
            ]
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

        with _settings(self.session, {"execution.checkpointing.dir": str(checkpoints)}):
            stream = result.data.opened.start(take)
            assert not isinstance(stream, str), stream
            stream.wait()
        for number, table in tables:
            batches = [as_of_schema(batch, result.data.schema) for batch in table.to_batches()]
            yield number, [tuple(row) for batch in batches for row in python_rows(batch)]

    def _count_batches(self, records: list[Record]) -> int:
        """Return the number of micro-batches in which a stream reads the records' tables."""
        mentioned = set.union(*(_words(record.sql) for record in records))
        return max((n for name, n in self._n_batches.items() if name in mentioned), default=1)

    def _check(self, record: Record, emitted: Emitted, n_batches: int) -> None:
        """Compare the rows of a query. Micro-batches after `n_batches` are from the end of the input."""
        self.n_run += 1
        rows = [row for _, rows in emitted for row in rows]
        ours, theirs = _sqls(record)
        if record.operators and self.mode in (BATCH, ALONE):
            _check_plan(self.session, record, ours)
        if record.kind == "oracle":
            wanted = self.duck.execute(theirs).fetchall()
            assert wanted, "the oracle has no rows: the record shows nothing"
            same_rows(rows, wanted)
            return
        if record.kind == "stream":
            texts = list(_by_micro_batch(emitted, n_batches))
        else:
            texts = [row_text(row) for row in rows]
            if "ordered" not in record.flags:
                texts.sort()
        wanted_texts = (fill(record).below or "").splitlines()
        self.results.setdefault(record.line, texts)
        assert texts == wanted_texts, _difference(ours, wanted_texts, texts)

    def _fail(
        self, record: Record, error: Exception, settings: dict[str, str] | None = None
    ) -> None:
        where = ", ".join(f"{key} = {value}" for key, value in (settings or {}).items())
        self.failures.append(f"{record.title}{f' ({where})' if where else ''}: {error}")


DISABLED = "sqlwin.optimizer.disabled-rules"


def union(sqls: Sequence[str]) -> str:
    """Return one query for several: the place of the query, then a column for each one's rows."""

    def branch(place: int, sql: str) -> str:
        columns = ("STRUCT(*)" if other == place else "NULL" for other in range(len(sqls)))
        named = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
        return f"SELECT {place} AS place, {named} FROM (\n{sql}\n)"

    return "\nUNION ALL\n".join(branch(place, sql) for place, sql in enumerate(sqls))


def failure(sql: str, session: sqlwin.Session) -> str | None:
    """Return the report of a script that fails, None if it succeeds."""
    try:
        for result in session.execute(sql):
            assert result.rows is not None
    except sqlwin.SqlwinError as error:
        return str(error)
    return None


def _words(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.lower()))


def _can_share(first: Record, record: Record, mode: Mode) -> bool:
    """Return whether two queries may run in one UNION ALL."""
    if (first.kind == "stream") != (record.kind == "stream"):
        return False
    return not any({"alone", "ordered"} & r.flags for r in (first, record))


def _sqls(record: Record) -> tuple[str, str]:
    """Return the query for sqlwin, and for the oracle."""
    window = record.variables.get("window")
    ours = fill(record, window=definitions.in_sqlwin(window)) if window else fill(record)
    theirs = fill(record, window=definitions.in_duckdb(window)) if window else ours
    return ours.sql, theirs.below or theirs.sql


def _has_words(report: str, words: str) -> bool:
    """Return whether a report names the place and has the words, in any case."""
    place, _, rest = words.partition(" ")
    if ":" in place and place.replace(":", "").isdigit():
        line, column = place.split(":")
        if f"line {line}, column {column}\n" not in report:
            return False
        words = rest
    return all(phrase.strip().lower() in report.lower() for phrase in words.split(";"))


def _check_plan(session: sqlwin.Session, record: Record, sql: str) -> None:
    plan = session.explain(sql).partition("== Optimized Physical Plan ==")[2]
    missing = [name for name in record.operators if f" {name}(" not in plan.replace("\n", "\n ")]
    assert not missing, f"no {missing} in\n{plan}"


def _needs_rule(session: sqlwin.Session, sql: str) -> bool:
    """Return whether a query is refused because a rule is switched off."""
    report = None
    try:
        session.explain(sql)
    except sqlwin.SqlwinError as error:
        report = str(error)
    return report is not None and "disabled-rules" in report


def _by_micro_batch(emitted: Emitted, n_batches: int) -> Iterator[str]:
    """Yield the rows of each micro-batch that emitted some, below a line with its number."""
    for number, rows in emitted:
        if rows:
            yield "-- end" if number > n_batches else f"-- {number}"
            yield from sorted(map(row_text, rows))


def _difference(sql: str, wanted: list[str], texts: list[str]) -> str:
    return "\n".join([sql, "wanted:", *wanted, "got:", *texts])


@contextmanager
def _settings(session: sqlwin.Session, values: dict[str, str]) -> Iterator[None]:
    """Change settings for the block."""
    for key, value in values.items():
        session.execute(f"SET '{key}' = '{value}'")
    try:
        yield
    finally:
        for key in values:
            session.execute(f"RESET '{key}'")
