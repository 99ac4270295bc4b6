"""EXPLAIN as data, from which every form of it is made; as JSON its schema is in docs/explain.md.

Fields have the names and the order of the JSON. `DOCUMENT_VERSION` grows when something in it
changes meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, cast

DOCUMENT_VERSION = 2


@dataclass(frozen=True)
class Document:
    """What some statements would do or did."""

    version: int = field(default=DOCUMENT_VERSION, kw_only=True)
    queries: tuple[QueryDocument, ...]

    @property
    def text(self) -> str:
        """The explanations of all statements as text."""
        return "\n".join(query.text for query in self.queries)


@dataclass(frozen=True)
class QueryDocument:
    """One query or INSERT.

    Attributes:
        statement: the SQL text.
        text: the same explanation as text.
        time_zone: the session's zone, on whose wall clock windows over TIMESTAMP_LTZ are.
        trees: the plans; None for a statement of Spark's alone.
        windows: where the physical plan makes windows.
        rules: what rules did.
        analysis: what a run measured, with EXPLAIN ANALYZE.
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
    """The plan as the query says it, after the rules, and as it runs."""

    bound: Tree
    logical: Tree
    physical: Tree


@dataclass(frozen=True)
class Tree:
    """A plan; operators from the top, the first is the root."""

    root: str
    operators: tuple[OperatorEntry, ...]

    @property
    def by_id(self) -> dict[str, OperatorEntry]:
        """The operators by their ids, from the top."""
        return {each.id: each for each in self.operators}


@dataclass(frozen=True)
class OperatorEntry:
    """An operator of a plan.

    Attributes:
        id: such as `p3`.
        name: such as `Exchange`.
        attributes: what it does.
        text: the line of the text.
        inputs: ids of the operators below.
        columns: what it yields; None inside of a step of several operators.
    """

    id: str
    name: str
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    inputs: tuple[str, ...] = ()
    columns: tuple[ColumnEntry, ...] | None = None


@dataclass(frozen=True)
class ColumnEntry:
    """A column, with Spark's type."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class WindowEntry:
    """A window where the physical plan uses it.

    Attributes:
        operator: id of the operator that makes windows.
        kind: TUMBLE, HOP, CUMULATE, SESSION.
        parameters_us: in microseconds.
        parameters_months: those of calendar windows.
        time_column: the column that windows are put on.
        time_type: its type.
        slice_widths_us: in turn; none where rows are copied.
        slices_per_window: at most.
        copies: windows that a row is copied into at most; None where slices are merged.
        text: lines of the text.
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
    """What rules did; `left_to_spark` says why window blocks are not planned here."""

    applied: tuple[AppliedRule, ...] = ()
    refused: tuple[RefusedRule, ...] = ()
    left_to_spark: tuple[str, ...] = ()
    idle: tuple[RuleEntry, ...] = ()


@dataclass(frozen=True)
class RuleEntry:
    """A rule, by the name that sqlwin.optimizer.disabled-rules takes."""

    rule: str
    summary: str


@dataclass(frozen=True)
class AppliedRule(RuleEntry):
    """A rule that rewrote a node."""

    node: str


@dataclass(frozen=True)
class RefusedRule(AppliedRule):
    """A rule that left a node as it was, and why."""

    reason: str


# -- EXPLAIN ANALYZE -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Analysis:
    """What a run measured.

    Attributes:
        seconds: how long it took.
        rows_out: rows of the result.
        operators: by id of the physical operator.
        stages: of a stream, those of all micro-batches that ran the same operators as one.
        spark_ui: the address of Spark's UI, which has its own operators; None: it is off.
        stream: what a stream did beside that.
    """

    seconds: float
    rows_out: int | None
    operators: Mapping[str, Figures]
    stages: tuple[StageEntry, ...]
    spark_ui: str | None
    stream: StreamAnalysis | None = None


@dataclass(frozen=True)
class Figures:
    """What was measured at an operator; None where nothing was.

    Attributes:
        rows_in: rows that it took.
        rows_out: rows, partials or windows that it gave.
        unit_out: which of these.
        reduction: rows in a partial of a local aggregate, those left out not counted.
        blobs_out: Arrow blobs that it gave.
        bytes_out: their size, compressed as they travel.
        seconds: in the operator's own code, all tasks added up.
        peak_memory_bytes: resident set of the largest Python worker.
        counters: rows that were left out, by reason.
        task_rows_in: how rows fell to tasks.
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
    task_rows_in: TaskRows | None = None

    @property
    def rows_aggregated(self) -> int | None:
        """How many of the rows that a local aggregate took it has aggregated."""
        if self.rows_in is None:
            return None
        # a scan counts what it reads; elsewhere rows that a filter leaves out do not come in
        filtered = self.counters.get("rows_filtered_out", 0) if self._is_scan else 0
        return self.rows_in - filtered - self.counters.get("rows_without_time", 0)

    @property
    def _is_scan(self) -> bool:
        return "rows_scanned" in self.counters


@dataclass(frozen=True)
class TaskRows:
    """Rows that tasks took."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class StageEntry:
    """A stage of Spark's in which Python operators ran, or those of several micro-batches.

    Attributes:
        id: Spark's number, of the first one.
        operators: ids of the operators that ran in it, in the order of the data.
        tasks: how many.
        seconds: in the operators' own code, all tasks added up.
        median_seconds: of a task.
        slowest_seconds: of a task.
        skew: the slowest task against the median one.
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
    """What a stream did while it ran; `ended` says why the run ended."""

    ended: StreamEnd
    rows_in: int
    micro_batches: MicroBatches
    window_operators: tuple[WindowOperatorEntry, ...]


StreamEnd = Literal["input", "time", "interrupt"]


@dataclass(frozen=True)
class MicroBatches:
    """The micro-batches of a run.

    Attributes:
        count: how many.
        seconds: of all.
        median_seconds: of one.
        slowest_seconds: of one.
        phases: seconds by what Spark did in them.
        state_commit_seconds: writing the state, all tasks added up.
    """

    count: int
    seconds: float
    median_seconds: float | None
    slowest_seconds: float | None
    phases: Mapping[str, float]
    state_commit_seconds: float


@dataclass(frozen=True)
class SourceEntry:
    """The watermark of a source, in microseconds since 1970 on the windows' wall clock."""

    name: str
    watermark_us: int | None
    is_at_end_of_input: bool
    is_idle: bool


@dataclass(frozen=True)
class WindowOperatorEntry:
    """A window operator of a stream at the end of a run.

    Attributes:
        number: in the order of the data's way, as in the text.
        watermark_us: microseconds since 1970 on the windows' wall clock; None before the first row.
        is_at_end_of_input: the watermark is beyond all times.
        sources: the watermarks that it follows.
        late_rows: dropped.
        rows_without_time: dropped.
        state_rows: partials in state in the end.
        state_bytes: their size.
        most_state_rows: the most after any micro-batch.
        most_state_bytes: likewise.
        next_window_end_us: the end of the next window to close.
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


# -- what is secret in it -------------------------------------------------------------------------


def masked_document(document: QueryDocument, mask: Callable[[str], str]) -> QueryDocument:
    """A document in which every text is what `mask` makes of it."""
    return cast(QueryDocument, _masked(document, mask))


def _masked(value: object, mask: Callable[[str], str]) -> object:
    match value:
        case str():
            return mask(value)
        case tuple():
            return tuple(_masked(each, mask) for each in value)
        case Mapping():
            return {key: _masked(each, mask) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _masked(getattr(value, each.name), mask) for each in fields(value)}
        return replace(value, **parts)
    return value


# -- JSON ----------------------------------------------------------------------------------------


def to_json(part: Document | QueryDocument) -> dict[str, Any]:
    """A document, or one statement's, as values that `json` writes."""
    return cast(dict[str, Any], _json(part))


def _json(value: object) -> object:
    if is_dataclass(value):
        return {each.name: _json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return value
