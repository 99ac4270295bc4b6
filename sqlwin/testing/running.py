"""Run a case: in batch, as a stream cut at every row, and in random histories."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from runtime.errors import ErrorKind, SqlwinError
from runtime.refusal import Refusal
from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.changed_query import ChangedStream
from runtime.simulator.check import (
    Disagreement,
    SimulatedStream,
    difference_from_batch,
    disagreements,
    final_rows_of,
    without_clock,
)
from runtime.simulator.compare import Row, difference, limited_difference, rows_of
from runtime.simulator.run import HistoryOutcome
from runtime.simulator.shrink import shrink
from runtime.simulator.timeline import timeline
from runtime.spark.on_demand import NotStartedError
from runtime.spec.stream import LATE_ROW, ROW_KIND
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.result import Result
from sqlwin.session import Session
from sqlwin.statements.nodes import Query
from sqlwin.testing.cases import Case, ExpectedError
from sqlwin.testing.defining import compare_with_definition
from sqlwin.testing.differences import differences_text, ordered_differences
from sqlwin.testing.documents import CaseFileError, Located
from sqlwin.testing.preparing import PreparedCase, changed_query, prepare, row_of
from sqlwin.testing.simulated import resume, stream_over

# Why a stream and a batch fill other windows
OTHER_WINDOWS = (
    "without TO, a stream also adds the windows after the last row of a key that the watermark "
    "passes; a key without a row for 'sqlwin.fill.keep' ends"
)

ONLY_SPARK_TYPES = Refusal("only Spark knows the types of its expressions")

# Opens a new session
Connect = Callable[[], Session]


@dataclass(frozen=True)
class TestOptions:
    """How cases run.

    Attributes:
        histories: Number of random histories of each case.
        seed: Seed of the first history.
        on_spark: Whether cases also run on Spark, in batch and as a stream.
        starts_spark: Whether queries that only Spark can compute start it.
    """

    __test__ = False

    histories: int = 10
    seed: int = 0
    on_spark: bool = False
    starts_spark: bool = True


@dataclass
class CaseResult:
    """Result of a case.

    Attributes:
        case: Case.
        failures: What differs from the expectation, one text per way of running.
        error: What keeps the case from running: an invalid test file. None if nothing does.
        notes: Ways in which the case could not run, with reasons.
        n_histories: Number of histories that ran.
        seconds: Duration.
        values: Actual values by key of the expectation, for `--update`.
        needs_spark: Whether it did not run because Spark must not start.
    """

    case: Case
    failures: list[str] = field(default_factory=list)
    error: str | None = None
    notes: list[str] = field(default_factory=list)
    n_histories: int = 0
    seconds: float = 0.0
    values: dict[str, object] = field(default_factory=dict)
    needs_spark: bool = False

    @property
    def has_passed(self) -> bool:
        """Whether nothing differs."""
        return not self.failures and self.error is None


def run_case(connect: Connect, case: Case, options: TestOptions) -> CaseResult:
    """Run a case in every way and compare the results.

    Args:
        connect: Opens a new session.
        case: Case.
        options: How it runs.
    """
    result = CaseResult(case)
    begun = time.monotonic()
    with TemporaryDirectory(prefix="sqlwin-test-") as directory, connect() as session:
        try:
            _Run(session, case, options, result, Path(directory)).run()
        except CaseFileError as error:
            result.error = error.message if error.hint is None else f"{error.message}: {error.hint}"
    result.seconds = time.monotonic() - begun
    return result


class _Run:
    """One run of a case."""

    def __init__(
        self,
        session: Session,
        case: Case,
        options: TestOptions,
        result: CaseResult,
        directory: Path,
    ) -> None:
        self._session = session
        self._control = SessionControl(session)
        self._case = case
        self._options = options
        self._result = result
        self._directory = directory
        self._first: Simulated | None = None

    def run(self) -> None:
        expected_error = self._case.expect.error
        try:
            prepared = self._without_spark(
                lambda: prepare(self._session, self._case, self._directory)
            )
            batch = self._batch(prepared)
            stream = self._stream(prepared)
        except CaseFileError:
            raise
        except SqlwinError as error:
            self._check_error(error, expected_error)
            return
        if expected_error is not None:
            try:
                if stream is not None:
                    stream.run(cut_at_every_row(stream.order, stream.shape))
            except SqlwinError as error:
                self._check_error(error, expected_error)
                return
            self._fail("there is no error", f"expected: {expected_error.words}")
            return
        try:
            self._check(prepared, batch, stream)
            if self._case.restart is not None:
                self._check_restart(prepared, stream)
        except CaseFileError:
            raise
        except SqlwinError as error:
            self._fail("the results cannot be compared", error.report())

    # -- ways of running -----------------------------------------------------------------------

    def _without_spark(self, run: Callable[[], PreparedCase]) -> PreparedCase:
        try:
            with self._control.without_start_of_spark():
                return run()
        except NotStartedError:
            self._use_spark("Spark has to read its statements")
            return run()

    def _batch(self, prepared: PreparedCase) -> pa.Table:
        """Run the query in batch and return its rows."""
        self._session.execute("SET 'execution.runtime-mode' = 'batch'")
        try:
            with self._control.without_start_of_spark():
                place = self._control.place_of(prepared.query)
                if not isinstance(place, Refusal):
                    return self._rows(prepared)
        except NotStartedError:
            place = ONLY_SPARK_TYPES
        except SqlwinError as error:
            raise prepared.located(error) from error
        rows = self._of_stream(prepared)
        if rows is not None:
            return rows
        self._use_spark(place.reason)
        return self._rows(prepared)

    def _of_stream(self, prepared: PreparedCase) -> pa.Table | None:
        """Return the batch result as the simulator computes it, or None if only Spark can.

        The simulator joins rows of streams, and has the processing times of the test file. It sorts
        no rows and has all rows in spite of LIMIT.
        """
        try:
            simulated = self._simulated(prepared.query)
        except SqlwinError:
            # the caller runs the query and reports why it fails
            return None
        if isinstance(simulated, Refusal):
            return None
        query = simulated.query
        needs_order = self._case.expect.ordered is not None or query.limit is not None
        if needs_order and not query.depends_on_batches:
            return None
        stream = stream_over(simulated, prepared.rows, prepared.waits)
        return stream.batch_table(stream.order)

    def _use_spark(self, reason: str) -> None:
        """Note that Spark computes the case.

        Raises:
            CaseFileError: Spark must not start.
        """
        if not self._options.starts_spark:
            self._result.needs_spark = True
            case = self._case
            raise CaseFileError(
                f"{case.path}:{case.line}: the case '{case.name}' needs Spark: {reason}"
            )
        self._note(f"ran on Spark: {reason}")

    def _rows(self, prepared: PreparedCase) -> pa.Table:
        try:
            result: Result = self._control.run(prepared.query)
            return result.to_arrow()
        except NotStartedError:
            raise
        except SqlwinError as error:
            raise prepared.located(error) from error

    def _simulated(self, query: Query) -> Simulated | Refusal:
        """Return a query for the simulator, or why it cannot run there."""
        try:
            with self._control.without_start_of_spark():
                return self._control.simulated(query)
        except NotStartedError:
            return ONLY_SPARK_TYPES

    def _stream(self, prepared: PreparedCase) -> SimulatedStream | None:
        """Return the query as a stream over the rows of the case; None if it cannot be one."""
        try:
            simulated = self._simulated(prepared.query)
        except SqlwinError as error:
            if error.kind is not ErrorKind.STREAM or self._case.expect.error is not None:
                raise prepared.located(error) from error
            simulated = Refusal(error.message)
        if isinstance(simulated, Refusal):
            self._note(f"did not run as a simulated stream: {simulated}")
            return None
        self._first = simulated
        return stream_over(simulated, prepared.rows, prepared.waits)

    # -- comparisons ---------------------------------------------------------------------------

    def _check(
        self, prepared: PreparedCase, batch: pa.Table, stream: SimulatedStream | None
    ) -> None:
        expect = self._case.expect
        if stream is not None and stream.query.depends_on_batches:
            batch = stream.batch_table(stream.order)
            if expect.ordered is not None:
                raise CaseFileError(
                    f"{self._case.path}:{expect.ordered.line}: `ordered` is not supported for "
                    "processing time and CURRENT_WATERMARK; use `rows`"
                )
        batch_rows, schema = rows_of([batch]), batch.schema
        final, n_late = batch_rows, 0
        outcome = None
        if stream is not None:
            outcome = stream.run(cut_at_every_row(stream.order, stream.shape))
            final = final_rows_of(outcome)
            n_late = sum(output.n_late for output in outcome.batches)
        self._result.values = {"rows": final, "final": final, "ordered": batch_rows}
        self._result.values |= {"batch": batch_rows, "dropped": n_late}
        for key in ("rows", "final"):
            wanted: Located | None = getattr(expect, key)
            if wanted is not None:
                self._compare(key, self._expected(wanted, schema), final)
        if expect.ordered is not None:
            text = ordered_differences(self._expected(expect.ordered, schema), batch_rows)
            if text:
                self._fail("the rows of batch differ from `ordered`", text)
        if expect.batch is not None:
            self._compare("batch", self._expected(expect.batch, schema), batch_rows)
        if stream is None:
            self._check_needs_stream()
        else:
            assert outcome is not None
            self._check_definition(stream, batch_rows)
            self._check_stream(prepared, stream, outcome, batch_rows, final, n_late, schema)
        if self._options.on_spark:
            depends = stream is not None and stream.query.depends_on_batches
            self._check_spark(prepared, batch_rows, depends_on_batches=depends)

    def _check_definition(self, stream: SimulatedStream, batch_rows: list[Row]) -> None:
        """Compare batch with the definition of the query."""
        # files have the rows of a table in the order of their numbers
        verdict = compare_with_definition(stream, sorted(stream.order), batch_rows)
        if verdict.mismatch is not None:
            self._fail("batch differs from the definition", differences_text(verdict.mismatch))
        if verdict.beyond is not None:
            self._note(f"not compared with the definition: {verdict.beyond}")

    def _check_needs_stream(self) -> None:
        for key in ("changes", "late", "dropped"):
            if getattr(self._case.expect, key) not in (None, 0):
                self._fail(f"`{key}` needs a stream", self._result.notes[-1])

    def _check_stream(
        self,
        prepared: PreparedCase,
        stream: SimulatedStream,
        outcome: HistoryOutcome,
        batch_rows: list[Row],
        final: list[Row],
        n_late: int,
        schema: pa.Schema,
    ) -> None:
        expect = self._case.expect
        changes = rows_of(output.rows for output in outcome.batches)
        kinds = [{ROW_KIND: row.get(ROW_KIND, "+I"), **_without_kind(row)} for row in changes]
        self._result.values["changes"] = kinds
        if expect.changes is not None:
            with_kind = pa.schema([(ROW_KIND, pa.string()), *schema])
            text = ordered_differences(self._expected(expect.changes, with_kind), kinds)
            if text:
                self._fail("the changes differ", text)
        late = _late_rows(stream, outcome)
        self._result.values["late"] = late
        if expect.late is not None:
            self._compare_late(late, expect.late, stream, prepared)
        expects_late = expect.late is not None or expect.dropped is not None
        if expect.dropped is not None and expect.dropped != n_late:
            self._fail(f"{n_late} rows are dropped, not {expect.dropped}", "")
        limit = stream.query.limit
        all_rows = final if limit is None else stream.batch_rows(sorted(stream.order))
        if n_late == 0 and limit is not None:
            self._check_limit(all_rows, batch_rows, limit)
        elif n_late == 0:
            mismatch = (
                difference_from_batch(stream, without_clock(stream.every_row))
                if stream.query.result_clock
                else difference(stream.expected_rows(batch_rows, outcome), final)
            )
            if mismatch is not None:
                self._fail(
                    "the stream cut at every row differs from batch", differences_text(mismatch)
                )
                return
            filled = difference(batch_rows, final) if stream.query.fills_gaps else None
            if filled is not None and expect.batch is None:
                self._fail(
                    "the stream fills other windows than batch",
                    f"{differences_text(filled)}\n  {OTHER_WINDOWS}; add `batch` with the rows of "
                    "batch if that is meant",
                )
                return
        elif not expects_late and expect.batch is None:
            rows = "row is" if n_late == 1 else "rows are"
            self._fail(
                f"{n_late} {rows} late in this order of arrival, so that batch differs",
                f"add `dropped: {n_late}` if that is meant",
            )
            return
        self._check_histories(stream, all_rows)

    def _check_limit(self, all_rows: list[Row], batch_rows: list[Row], limit: int) -> None:
        """Check that batch has as many rows as LIMIT allows, whichever they are."""
        mismatch = limited_difference(all_rows, batch_rows, limit)
        if mismatch is not None:
            self._fail("batch has other rows than its LIMIT allows", differences_text(mismatch))

    def _check_histories(self, stream: SimulatedStream, final: list[Row]) -> None:
        seeds = range(self._options.seed, self._options.seed + self._options.histories)
        for mismatch in disagreements(stream, final, seeds):
            self._result.n_histories += 1
            if mismatch is not None:
                self._fail(*disagreement_text(stream, mismatch))
                return

    def _check_restart(self, prepared: PreparedCase, stream: SimulatedStream | None) -> None:
        """Restart the stream with the SQL of `restart` in each history."""
        if stream is None or self._first is None:
            self._fail("`restart` needs a stream", self._result.notes[-1])
            return
        refused = self._case.expect.refused
        try:
            query = changed_query(self._session, self._case, prepared.query)
            after = self._simulated(query)
        except CaseFileError:
            raise
        except SqlwinError as error:
            self._fail("the query of `restart` fails", error.report())
            return
        if isinstance(after, Refusal):
            self._fail("the query of `restart` cannot run as a simulated stream", after.reason)
            return
        changed = resume(self._first, after, stream, prepared.rows)
        if isinstance(changed, Refusal):
            self._result.values["refused"] = changed.reason
            if refused is None:
                self._fail("the stream cannot resume with the SQL of `restart`", changed.reason)
            elif refused.lower() not in changed.reason.lower():
                self._fail("the reason is another one", f"expected: {refused}\n{changed}")
            return
        if refused is not None:
            self._fail("the stream resumes with the SQL of `restart`", f"expected: {refused}")
            return
        seeds = range(self._options.seed, self._options.seed + self._options.histories)
        self._result.n_histories += len(seeds)
        mismatch = changed.first_disagreement(seeds)
        if mismatch is not None:
            self._fail(*resumed_text(changed, mismatch))

    def _check_spark(
        self, prepared: PreparedCase, batch_rows: list[Row], *, depends_on_batches: bool
    ) -> None:
        """Run the query on Spark in both modes and compare with batch."""
        if depends_on_batches:
            self._note("not compared with Spark, where processing time is the clock of the machine")
            return
        for mode in ("batch", "streaming"):
            self._session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
            self._session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
            try:
                rows = self._rows(prepared)
            except SqlwinError as error:
                self._fail(f"Spark fails in {mode} mode", error.message)
                continue
            own = rows.select(list(batch_rows[0])) if batch_rows else rows
            mismatch = difference(batch_rows, rows_of([own]))
            if mismatch is not None:
                self._fail(f"Spark differs in {mode} mode", differences_text(mismatch))

    def _check_error(self, error: SqlwinError, expected: ExpectedError | None) -> None:
        self._result.values["error"] = error.message
        if expected is None:
            self._fail("the query fails", error.report())
            return
        if expected.words.lower() not in error.message.lower():
            self._fail("the error is another one", f"expected: {expected.words}\n{error.message}")
            return
        place = error.position
        for name in ("line", "column"):
            wanted = getattr(expected, name)
            actual = None if place is None else getattr(place, name)
            if wanted is not None and wanted != actual:
                self._fail(f"the error is in {name} {actual}, not {wanted}", error.report())

    def _compare(self, key: str, wanted: list[Row], rows: Sequence[Row]) -> None:
        mismatch = difference(wanted, rows)
        if mismatch is not None:
            self._fail(f"the rows differ from `{key}`", differences_text(mismatch))

    def _compare_late(
        self,
        late: list[tuple[str, Row]],
        wanted: Located,
        stream: SimulatedStream,
        prepared: PreparedCase,
    ) -> None:
        """Compare late rows; each expected row is one of the only table, or names its columns."""
        schemas = {
            name: pa.schema(
                [f for f in table.rows.schema if f.name in prepared.given[name.lower()]]
            )
            for name, table in stream.tables.items()
        }
        if len(schemas) != 1:
            raise CaseFileError(
                f"{self._case.path}:{wanted.line}: `late` is supported for a single table; use "
                "`dropped`"
            )
        (schema,) = schemas.values()
        rows = [{name: row[name] for name in schema.names} for _, row in late]
        mismatch = difference(self._expected(wanted, schema), rows)
        if mismatch is not None:
            self._fail("the late rows differ", differences_text(mismatch))

    def _expected(self, rows: Located, schema: pa.Schema) -> list[Row]:
        assert isinstance(rows.value, list), "checked by the schema"
        return [row_of(self._case.path, row, schema, "the result") for row in rows.value]

    def _fail(self, title: str, details: str) -> None:
        self._result.failures.append(f"{title}\n{details}".rstrip())

    def _note(self, text: str) -> None:
        if text not in self._result.notes:
            self._result.notes.append(text)


def disagreement_text(stream: SimulatedStream, mismatch: Disagreement) -> tuple[str, str]:
    """Return the title and the details of a history that disagrees, shrunk."""
    small = mismatch
    if not stream.shape.late and not stream.shape.waits:
        small = shrink(stream, mismatch)
    parts = [] if small.difference is None else [differences_text(small.difference)]
    try:
        parts += ["", *timeline(stream, small.history)]
    except SqlwinError as error:
        parts.append(error.message)
    title = f"the history of seed {mismatch.seed} disagrees: {small.reason}"
    return title, "\n".join(parts)


def resumed_text(changed: ChangedStream, mismatch: Disagreement) -> tuple[str, str]:
    """Return the title and the details of a history of a changed query that disagrees."""
    parts = [] if mismatch.difference is None else [differences_text(mismatch.difference)]
    try:
        parts += ["", *timeline(changed.before, mismatch.history, changed.change)]
    except SqlwinError as error:
        parts.append(error.message)
    title = f"the history of seed {mismatch.seed} disagrees: {mismatch.reason}"
    return title, "\n".join(parts)


def _without_kind(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != ROW_KIND}


def _late_rows(stream: SimulatedStream, outcome: HistoryOutcome) -> list[tuple[str, Row]]:
    """Return the late rows with the names of their tables."""
    late: list[tuple[str, Row]] = []
    for number in (number for output in outcome.batches for number in output.late):
        for name, table in stream.tables.items():
            if number in table.numbers:
                (row,) = rows_of([table.of([number])])
                row.pop(LATE_ROW)
                late.append((name, row))
    return late
