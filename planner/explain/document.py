"""EXPLAIN as data, from which all output formats are made.

The JSON schema is documented in docs/explain.md: fields have the names and the order of the JSON.
`DOCUMENT_VERSION` increases when a field changes its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, cast

DOCUMENT_VERSION = 2


@dataclass(frozen=True)
class Document:
    """Explanation of one or more statements."""

    version: int = field(default=DOCUMENT_VERSION, kw_only=True)
    queries: tuple[QueryDocument, ...]

    @property
    def text(self) -> str:
        """Return the explanations of all statements as text."""
        return "\n".join(query.text for query in self.queries)


@dataclass(frozen=True)
class QueryDocument:
    """Explanation of one query or INSERT.

    Attributes:
        statement: SQL text.
        text: The explanation as text.
        time_zone: The session's time zone, on whose wall clock windows over TIMESTAMP_LTZ are
            computed.
        trees: The plans. None for a statement that Spark runs alone.
        windows: Windows that the physical plan computes.
        rules: Rules applied and refused.
        analysis: Measurements of a run, with EXPLAIN ANALYZE.
    """

    statement: str
    text: str
    time_zone: str | None = None
    trees: Trees | None = None
    windows: tuple[WindowEntry, ...] = ()
    rules: Rules = field(default_factory=lambda: Rules())
    analysis: Analysis | None = None


@dataclass(frozen=True)
class Trees:
    """The plan before and after the logical rules, and the physical plan."""

    bound: Tree
    logical: Tree
    physical: Tree


@dataclass(frozen=True)
class Tree:
    """A plan as operators from the top. The first is the root."""

    root: str
    operators: tuple[OperatorEntry, ...]

    @property
    def by_id(self) -> dict[str, OperatorEntry]:
        """Return the operators by id, from the top."""
        return {entry.id: entry for entry in self.operators}


@dataclass(frozen=True)
class OperatorEntry:
    """An operator of a plan.

    Attributes:
        id: Id such as `p3`.
        name: Name such as `Exchange`.
        attributes: Properties of the operator.
        text: Line in the text.
        inputs: Ids of the operators below.
        columns: Output columns. None within a step of several operators.
    """

    id: str
    name: str
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    inputs: tuple[str, ...] = ()
    columns: tuple[ColumnEntry, ...] | None = None


@dataclass(frozen=True)
class ColumnEntry:
    """A column with its Spark type."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class WindowEntry:
    """A window that the physical plan computes.

    Attributes:
        operator: Id of the operator that computes the windows.
        kind: TUMBLE, HOP, CUMULATE or SESSION.
        parameters_us: Parameters in microseconds.
        parameters_months: Parameters of calendar windows in months.
        time_column: Time column of the windows.
        time_type: Type of the time column.
        slice_widths_us: Slice widths in cyclic order. Empty if rows are copied.
        slices_per_window: Maximum number of slices per window.
        copies: Maximum number of windows that a row is copied into. None if slices are merged.
        text: Lines of the text.
    """

    operator: str
    kind: str
    parameters_us: Mapping[str, int]
    parameters_months: Mapping[str, int]
    time_column: str | None
    time_type: str | None
    slice_widths_us: tuple[int, ...]
    slices_per_window: int | None
    copies: int | None
    text: tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """Rules applied and refused. `left_to_spark` says why window blocks are left to Spark."""

    applied: tuple[AppliedRule, ...] = ()
    refused: tuple[RefusedRule, ...] = ()
    left_to_spark: tuple[str, ...] = ()
    idle: tuple[RuleEntry, ...] = ()


@dataclass(frozen=True)
class RuleEntry:
    """A rule, named as in sqlwin.optimizer.disabled-rules."""

    rule: str
    summary: str


@dataclass(frozen=True)
class AppliedRule(RuleEntry):
    """A rule that rewrote a node."""

    node: str


@dataclass(frozen=True)
class RefusedRule(AppliedRule):
    """A rule that left a node unchanged, and the reason."""

    reason: str


# -- EXPLAIN ANALYZE -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Analysis:
    """Measurements of a run.

    Attributes:
        seconds: Duration of the run.
        rows_out: Number of result rows.
        operators: Measurements by id of the physical operator.
        stages: Spark stages. For a stream, stages of all micro-batches with the same operators are
            combined.
        spark_ui: URL of Spark's UI, which shows Spark's operators. None if it is off.
        stream: Measurements that only streams have.
        tree: Operators that sqlwin's process ran, to whose ids `operators` refers. None if Spark
            ran the physical plan.
    """

    seconds: float
    rows_out: int | None
    operators: Mapping[str, Figures]
    stages: tuple[StageEntry, ...]
    spark_ui: str | None
    stream: StreamAnalysis | None = None
    tree: Tree | None = None


@dataclass(frozen=True)
class Figures:
    """Measurements of an operator. Unmeasured fields hold None.

    Attributes:
        rows_in: Input rows.
        rows_out: Output rows, partials or windows.
        unit_out: Unit of `rows_out`.
        reduction: Aggregated rows per partial of a local aggregate. Dropped rows do not count.
        blobs_out: Arrow blobs sent.
        bytes_out: Compressed size of the blobs. In sqlwin's process, bytes of the rows.
        seconds: Time in the operator's own code, summed over all tasks. In sqlwin's process,
            wall-clock time without the operators below.
        peak_memory_bytes: Resident set size of the largest Python worker.
        counters: Dropped rows by reason.
        task_rows_in: Distribution of input rows over tasks.
    """

    rows_in: int | None = None
    rows_out: int | None = None
    unit_out: Literal["rows", "partials", "windows"] = "rows"
    reduction: float | None = None
    blobs_out: int | None = None
    bytes_out: int | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    task_rows_in: TaskRowCounts | None = None

    @property
    def rows_aggregated(self) -> int | None:
        """Return how many input rows a local aggregate aggregated."""
        if self.rows_in is None:
            return None
        # A scan counts the rows it reads. Other operators never see filtered rows.
        filtered = self.counters.get("rows_filtered_out", 0) if self._is_scan else 0
        return self.rows_in - filtered - self.counters.get("rows_without_time", 0)

    @property
    def _is_scan(self) -> bool:
        return "rows_scanned" in self.counters


@dataclass(frozen=True)
class TaskRowCounts:
    """Input rows per task."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class StageEntry:
    """A Spark stage that ran Python operators, combined over micro-batches.

    Attributes:
        id: Spark's number of the first such stage.
        operators: Ids of the operators that ran in it, in data flow order.
        tasks: Number of tasks.
        seconds: Time in the operators' own code, summed over all tasks.
        median_seconds: Time of the median task.
        slowest_seconds: Time of the slowest task.
        skew: Ratio of the slowest to the median task.
    """

    id: int
    operators: tuple[str, ...]
    tasks: int
    seconds: float
    median_seconds: float
    slowest_seconds: float
    skew: float | None


@dataclass(frozen=True)
class StreamAnalysis:
    """Measurements of a stream. `ended` says why the run ended."""

    ended: StreamEnd
    rows_in: int
    micro_batches: MicroBatches
    window_operators: tuple[WindowOperatorEntry, ...]


StreamEnd = Literal["input", "time", "interrupt"]


@dataclass(frozen=True)
class MicroBatches:
    """Micro-batches of a run.

    Attributes:
        count: Number of micro-batches.
        seconds: Total duration.
        median_seconds: Duration of the median micro-batch.
        slowest_seconds: Duration of the slowest micro-batch.
        phases: Seconds by Spark's phases of a micro-batch.
        state_commit_seconds: Time to write the state, summed over all tasks.
    """

    count: int
    seconds: float
    median_seconds: float | None
    slowest_seconds: float | None
    phases: Mapping[str, float]
    state_commit_seconds: float


@dataclass(frozen=True)
class SourceEntry:
    """Watermark of a source, in microseconds since 1970 on the windows' wall clock."""

    name: str
    watermark_us: int | None
    is_at_end_of_input: bool
    is_idle: bool


@dataclass(frozen=True)
class WindowOperatorEntry:
    """A window operator of a stream at the end of a run.

    Attributes:
        number: Position in data flow order, as in the text.
        watermark_us: Microseconds since 1970 on the windows' wall clock. None before the first row.
        is_at_end_of_input: Whether the watermark is past all times.
        sources: Watermarks of the sources that the operator follows.
        late_rows: Late rows dropped.
        rows_without_time: Rows dropped because their time is NULL.
        state_rows: Partials in state at the end.
        state_bytes: Size of the state at the end.
        most_state_rows: Maximum of `state_rows` after any micro-batch.
        most_state_bytes: Maximum of `state_bytes` after any micro-batch.
        next_window_end_us: End of the next window to close.
    """

    number: int
    watermark_us: int | None
    is_at_end_of_input: bool
    sources: tuple[SourceEntry, ...]
    late_rows: int
    rows_without_time: int
    state_rows: int
    state_bytes: int
    most_state_rows: int
    most_state_bytes: int
    next_window_end_us: int | None


# -- masking secrets ------------------------------------------------------------------------------


def mask_document(document: QueryDocument, mask: Callable[[str], str]) -> QueryDocument:
    """Return a copy of a document in which `mask` has been applied to every text."""
    return cast(QueryDocument, _mask(document, mask))


def _mask(value: object, mask: Callable[[str], str]) -> object:
    match value:
        case str():
            return mask(value)
        case tuple():
            return tuple(_mask(part, mask) for part in value)
        case Mapping():
            return {key: _mask(part, mask) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: _mask(getattr(value, part.name), mask) for part in fields(value)}
        return replace(value, **parts)
    return value


# -- JSON ----------------------------------------------------------------------------------------


def to_json(part: Document | QueryDocument) -> dict[str, Any]:
    """Return a document as values that `json` can serialise."""
    return cast(dict[str, Any], _json(part))


def _json(value: object) -> object:
    if is_dataclass(value):
        return {part.name: _json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {key: _json(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    return value
