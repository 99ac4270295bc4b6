"""Runs random queries in several ways and compares their rows with their definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from planner.rules import RULE_NAMES
from runtime.compute.arrow.types import spark_type
from runtime.errors import ErrorKind, SqlwinError
from runtime.plan.exchange import MergedWindows
from runtime.plan.local import ArrowBuffer, FileScan, is_local
from runtime.refusal import Refusal
from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.compare import Row, difference, final_rows
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.simulated import stream_over
from sqlwin.testing.tables import GivenTable, create_tables, rows_by_name
from tests.fuzz.choices import Choices, shrink_choices
from tests.fuzz.outcome import LIMIT_S, HangError, limited
from tests.fuzz.queries import Input, RandomQuery, draw_input, draw_query
from tests.fuzz.values import COLUMNS, SECOND_US, table_of
from tests.fuzz.windows import draw_window
from tests.slt.modes import BATCH_RULES, DISABLED
from tests.unstarted import NeedsSparkError, unstarted_spark

# Name and setting of a way to run a query
Variant = tuple[str, tuple[str, str]]

ONE_PHASE = ("table.optimizer.agg-phase-strategy", "ONE_PHASE")


class FaultError(Exception):
    """A query has other rows than its definition."""


class Roads:
    """Runs random queries in every way that needs no Spark.

    The class attribute `limit_s` is the number of seconds after which a draw counts as hung, and
    `n_shrinks` is the maximum number of runs that shrink a fault.

    Args:
        directory: Directory for files.
        runs_all: Whether each query runs in all ways. Otherwise one history of the stream runs,
            and one variant of a third of the queries. A variant has another plan: a rule that does not
            apply is not switched off.

    Attributes:
        counts: Number of results compared, by way.
    """

    limit_s: float = LIMIT_S
    n_shrinks = 1_500

    def __init__(self, directory: Path, *, runs_all: bool = False) -> None:
        self.directory = directory
        self.runs_all = runs_all
        self.session = Session(unstarted_spark(), settings={})
        self.control = SessionControl(self.session)
        self.counts: Counter[str] = Counter()
        # first way that ran a query of the current draw, and its schema, by SQL
        self.schemas: dict[str, tuple[str, pa.Schema]] = {}
        self._n_sets = 0

    def check(self, seed: int) -> str | None:
        """Return the fault of the query with a seed, shrunk, or None."""
        draw = Choices(seed)
        fault = self.fault_of(draw)
        if fault is None:
            return None
        words = fault.split(":")[0]

        def fails(made: Sequence[int]) -> Sequence[int] | None:
            again = Choices(seed, made)
            text = self.fault_of(again)
            return again.made if text is not None and text.split(":")[0] == words else None

        smallest = shrink_choices(draw.made, fails, self.n_shrinks)
        return f"seed {seed}: {self.fault_of(Choices(seed, smallest)) or fault}"

    def fault_of(self, draw: Choices) -> str | None:
        """Return the fault of a draw, or None."""
        given = draw_input(draw)
        queries = [draw_query(draw, given)]
        if draw.chance(20):
            window = given.window if given.is_extreme else draw_window(draw)
            queries.append(draw_query(draw, given, window))
        before = self.counts.copy()
        self.schemas.clear()
        try:
            with limited(self.limit_s):
                self.run(draw, given, queries)
            return None
        except NeedsSparkError:
            self.counts["spark"] += 1
            return None
        except FaultError as error:
            fault = str(error)
        except (Exception, HangError) as error:
            if given.is_extreme and isinstance(error, SqlwinError) and _is_limit(error):
                self.counts["limit"] += 1
                return None
            fault = f"{type(error).__name__}: {error}"
        tables = "\n".join(f"{name}: {_shown(rows)}" for name, rows in given.tables.items())
        listed = ";\n".join(query.sql for query in queries)
        passed = ", ".join(self.counts - before)
        return f"{fault}\npassed: {passed}\nzone {given.zone}\n{listed}\n{tables}"

    def check_histories(self, seed: int, count: int) -> str | None:
        """Return the fault of the first random history of a query that has one, or None."""
        draw = Choices(seed)
        given = draw_input(draw)
        query = draw_query(draw, given)
        tables = self.prepare(draw, given, query)
        simulated = None if given.is_extreme else self._simulated(query)
        if simulated is None:
            self.counts["no stream"] += 1
            return None
        stream = stream_over(simulated, tables)
        expected = query.expected
        for number in range(count):
            outcome = stream.run(stream.history(seed * count + number))
            rows = final_rows(rows_of(output.rows for output in outcome.batches))
            self.counts["histories"] += 1
            mismatch = difference(expected, rows)
            if mismatch is not None:
                shown = f"{_shown(mismatch.missing)}\nunexpected {_shown(mismatch.unexpected)}"
                place = f"seed {seed}, history {seed * count + number}, zone {given.zone}"
                return f"{place}: missing {shown}\n{query.sql}"
        return None

    def prepare(self, draw: Choices, given: Input, query: RandomQuery) -> Mapping[str, pa.Table]:
        """Set the zone and create the tables of a query."""
        self._set_up(given)
        return self.create_tables(draw, given, query)

    def run(self, draw: Choices, given: Input, queries: Sequence[RandomQuery]) -> None:
        """Run queries over the same tables, and raise `FaultError` if rows differ."""
        self._set_up(given)
        schemas = [self.run_query(draw, given, query) for query in queries]
        if len(queries) > 1:
            self.run_set(queries, schemas)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Sessions that get the tables and the zone."""
        return (self.session,)

    def _set_up(self, given: Input) -> None:
        for session in self.sessions:
            set_up(session, given)

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        """Run a query and return the columns of its result."""
        rows_of_tables = self.create_tables(draw, given, query)
        return self.run_in_process(draw, query, rows_of_tables)

    def run_in_process(
        self, draw: Choices, query: RandomQuery, tables: Mapping[str, pa.Table]
    ) -> pa.Schema:
        """Run a query in every way that needs no Spark, and return the columns of its result.

        Raises:
            NeedsSparkError: Only Spark can run the query.
        """
        seed = draw.pick(1 << 30)
        schema = self._run_batch("in process", query)
        self._compare_windows(query)
        rules = self._run_stream("stream", query, tables, seed) if query.is_stream else None
        if not self.runs_all and draw.chance(67):
            return schema
        # one variant is drawn before EXPLAIN, which takes as long as a run
        is_batch = self.runs_all or not rules or draw.chance(50)
        variants = self._batch_variants(query) if is_batch else []
        if rules and (self.runs_all or not is_batch):
            variants += [(f"stream, rule off ({rule})", (DISABLED, rule)) for rule in rules]
        for name, setting in variants if self.runs_all else [draw.one_of(variants)]:
            try:
                with self._setting(*setting):
                    if name.startswith("stream"):
                        self._run_stream(name, query, tables, seed)
                    else:
                        self._run_batch(name, query)
            except NeedsSparkError:
                self.counts[f"{name} on Spark"] += 1
        return schema

    def create_tables(
        self, draw: Choices, given: Input, query: RandomQuery
    ) -> Mapping[str, pa.Table]:
        """Create the tables with a watermark delay for which no row is late.

        Returns:
            Rows by table, by time if the delay is shorter than the time between any two rows.
        """
        part = draw.one_of([1, 1, 3, 10, 0])
        tables = []
        for name, rows in given.tables.items():
            times = [row["ts"] for row in rows if row["ts"] is not None]
            span = max(times, default=0) - min(times, default=0)
            if part != 1:
                rows = sorted(rows, key=lambda row: row["ts"] or 0)
            delay = (span // part if part else 0) // SECOND_US + 1
            mark = (query.time, f"`{query.time}` - INTERVAL '{delay}' SECOND")
            tables.append(GivenTable(name, table_of(rows), COLUMNS, mark))
        for session in self.sessions:
            create_tables(session, tables, self.directory)
        return rows_by_name(tables)

    # -- ways of running -------------------------------------------------------------------------

    def _run_batch(self, way: str, query: RandomQuery) -> pa.Schema:
        (result,) = self.session.execute(query.sql)
        table = result.to_arrow()
        compare(way, query, rows_of([table]))
        self.compare_schemas(way, query, result.schema, table.schema)
        for field, column in zip(table.schema, table.columns, strict=True):
            if column.null_count and not field.nullable:
                raise FaultError(f"{way}: {field.name} is NULL, but declared NOT NULL")
        self.counts[way.split(" (")[0]] += 1
        return table.schema

    def _compare_windows(self, query: RandomQuery) -> None:
        """Raise `FaultError` unless this process merges the windows of files that Spark merges."""
        plans, statement = self.session._runner.plans, parse_statement(query.sql)
        with plans.lock:
            plans.begin(query.sql)
            try:
                plan = plans.plan(statement.ast, query.sql)
                here, on_spark = plans.in_process(plan), plans.lower_batch(plan)
            finally:
                plans.end()
        if isinstance(here, Refusal):
            return
        merged = [node for node in here.rows.walk() if isinstance(node, MergedWindows)]
        for node in on_spark.walk():
            if not isinstance(node, MergedWindows):
                continue
            if not is_local(node.partials, FileScan, ArrowBuffer):
                continue
            if node not in merged:
                raise FaultError(f"this process merges {merged}, and Spark {node}\n{query.sql}")
            self.counts["windows"] += 1

    def compare_schemas(self, way: str, query: RandomQuery, *schemas: pa.Schema) -> None:
        """Raise `FaultError` unless a query has one schema in every way, to the nullability."""
        for schema in schemas:
            first_way, first = self.schemas.setdefault(query.sql, (way, schema))
            if not schema.equals(first):
                raise FaultError(f"{way} has the columns\n{schema}\n{first_way} has\n{first}")

    def _run_stream(
        self, way: str, query: RandomQuery, tables: Mapping[str, pa.Table], seed: int
    ) -> list[str] | None:
        """Run a query as a stream.

        Returns:
            Rules that change its plan, or None if only Spark can run it.
        """
        simulated = self._simulated(query)
        if simulated is None:
            self.counts["no stream"] += 1
            return None
        for operator in simulated.query.operators:
            if operator.windows.aggregation != operator.step.aggregation:
                raise FaultError(f"{way}: other windows are simulated than run\n{query.sql}")
        stream = stream_over(simulated, tables)
        histories = [cut_at_every_row(stream.order, stream.shape), stream.history(seed)]
        if not self.runs_all or way != "stream":
            histories = [histories[seed % 2]]
        for history in histories:
            rows = final_rows(rows_of(output.rows for output in stream.run(history).batches))
            compare(way, query, rows)
            self.counts["histories"] += 1
        self.counts[way.split(" (")[0]] += 1
        assert simulated.lowered is not None
        traces = [plan.trace for plan in simulated.lowered.plans]
        applied = {entry.rule for trace in traces for entry in trace.entries if not entry.reason}
        return [rule for rule in RULE_NAMES if rule in applied]

    def _simulated(self, query: RandomQuery) -> Simulated | None:
        """Return a query as a stream, or None if only Spark can run it."""
        try:
            simulated = self.control.simulated(parse_statement(query.sql))
        except NeedsSparkError:
            return None
        except SqlwinError as error:
            if error.kind is ErrorKind.STREAM:
                return None
            raise
        return None if isinstance(simulated, Refusal) else simulated

    def _batch_variants(self, query: RandomQuery) -> list[Variant]:
        """Return settings under which the batch query has another plan."""
        documents = self.session.explain_queries(query.sql)
        applied = {entry["rule"] for d in documents for entry in d["rules"]["applied"]}
        off = [rule for rule in BATCH_RULES if rule in applied]
        return [
            ("one phase", ONE_PHASE),
            *((f"rule off ({rule})", (DISABLED, rule)) for rule in off),
        ]

    @contextmanager
    def _setting(self, name: str, value: str) -> Iterator[None]:
        self.session.execute(f"SET '{name}' = '{value}'")
        try:
            yield
        finally:
            self.session.execute(f"RESET '{name}'")

    def run_set(
        self,
        queries: Sequence[RandomQuery],
        schemas: Sequence[pa.Schema | None],
        way: str = "statement set",
    ) -> None:
        """Run the queries as INSERTs of one statement set, and read the files."""
        self._n_sets += 1
        paths = [self.directory / f"set{self._n_sets}_{i}" for i in range(len(queries))]
        inserts = []
        for number, (query, schema, path) in enumerate(zip(queries, schemas, paths, strict=True)):
            columns = ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)
            self.session.execute(
                f"CREATE OR REPLACE TABLE o{number} ({columns}) WITH ('connector' = 'filesystem', "
                f"'path' = '{path}', 'format' = 'parquet')"
            )
            inserts.append(f"INSERT INTO o{number} {query.sql};")
        self.session.execute(f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
        for query, path in zip(queries, paths, strict=True):
            tables = [pq.read_table(file) for file in sorted(path.glob("*.parquet"))]
            compare(way, query, rows_of(tables))
        self.counts[way] += 1


def set_up(session: Session, given: Input) -> None:
    """Set the zone, and let streams fill gaps of any length, as batch does."""
    session.execute(f"SET 'table.local-time-zone' = '{given.zone}'")
    session.execute("SET 'sqlwin.fill.keep' = '1000000 d'")


def compare(way: str, query: RandomQuery, rows: list[Row]) -> None:
    """Raise `FaultError` if rows are not the expected ones, in any order."""
    mismatch = difference(query.expected, rows)
    if mismatch is not None:
        missing, unexpected = _shown(mismatch.missing), _shown(mismatch.unexpected)
        raise FaultError(f"{way}: missing {missing}\nunexpected {unexpected}")


def _is_limit(error: SqlwinError) -> bool:
    return "the window of the time" in error.message


def rows_of(tables: Iterable[pa.Table]) -> list[Row]:
    """Return rows with times in microseconds, which need not fit Python's datetime."""
    result: list[Row] = []
    for table in tables:
        columns = [
            column.cast(pa.timestamp("us")).cast(pa.int64())
            if pa.types.is_timestamp(column.type)
            else column
            for column in table.columns
        ]
        result += pa.table(columns, names=table.schema.names).to_pylist()
    return result


def _shown(rows: Iterable[Row]) -> str:
    listed = list(rows)
    return "\n  ".join([f"{len(listed)} rows", *map(str, listed[:6])])
