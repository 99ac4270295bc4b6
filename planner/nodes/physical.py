"""Physical plan: the nodes that run, under the names that EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from sqlglot import exp

from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import (
    NamedExpr,
    Node,
    UnaryNode,
    WindowAggregate,
    WindowedNode,
    WindowKey,
)
from runtime.plan.exchange import SliceLevel
from runtime.plan.local import SliceRows, TaskScan
from runtime.spec.aggregates import Accumulator
from runtime.spec.expressions import FirstRows
from runtime.spec.filling import GapFilling, VersionJoining
from runtime.spec.materialized import SliceTable
from runtime.spec.text import FileSource
from runtime.windows import Window


@dataclass(frozen=True)
class OnePhaseWindowAggregate(WindowAggregate):
    """Spark aggregates rows that were copied into their windows."""


@dataclass(frozen=True)
class LocalWindowAggregate(WindowedNode):
    """Aggregates rows into partials, one per key and slice, before the exchange.

    With `first`, the keys are rows of a stream, and only rows that can be in the result are
    buffered. Rows are exchanged by the keys in `by`, or by all keys if it is None.
    """

    keys: tuple[NamedExpr, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str
    first: FirstRows | None = field(default=None, kw_only=True)
    by: tuple[str, ...] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ScanLocalWindowAggregate(LocalWindowAggregate):
    """A local aggregate that reads the files or messages of its table itself.

    Its input is still the plan it replaces, so that the streams in it can be found. `scan` holds
    the expressions to evaluate, `conditions` the filters as written in the query, for EXPLAIN. On a
    stream, the watermark of a row is `delay_us` before its time.
    """

    table: str = field(kw_only=True)
    scan: TaskScan = field(kw_only=True)
    conditions: tuple[exp.Expr, ...] = field(kw_only=True)
    delay_us: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SliceScan(LocalWindowAggregate):
    """A local aggregate that is answered from the slices of a materialized table.

    Its input is still the plan it replaces. `rows` is what to read, `conditions` the filters as
    written in the query, for EXPLAIN. `tail_files` is the number of base files read in addition.
    """

    table: SliceTable = field(kw_only=True)
    rows: SliceRows = field(kw_only=True)
    conditions: tuple[exp.Expr, ...] = field(kw_only=True)
    tail_files: int = field(kw_only=True)

    @property
    def sources(self) -> tuple[FileSource, ...]:
        """Sources to read: the slices and the additional base files."""
        tail = self.rows.tail
        return (self.rows.files,) if tail is None else (self.rows.files, tail.files)


@dataclass(frozen=True)
class Exchange(UnaryNode):
    """Exchange of partials to the task that owns their key. Empty `keys` means one task.

    `partitions` tasks process `buckets` buckets of keys, one after another. None leaves the number
    to the runtime.
    """

    keys: tuple[str, ...]
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SharedExchange(UnaryNode):
    """Exchange of partials that several window aggregates read.

    A node with several parents, within a plan or across the plans of a statement set. `number`
    identifies it in a statement. `accumulators` say how partials are rolled up to wider slices,
    `windows` are the windows of the aggregates. `partitions` and `buckets` are as in `Exchange`.
    """

    number: int
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    levels: tuple[SliceLevel, ...]
    windows: tuple[Window, ...]
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SharedSlices(UnaryNode):
    """Slices of one level of a `SharedExchange`, with the needed columns only.

    `columns` pairs the name of each column in the exchange with its name here.
    """

    level: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GlobalWindowAggregate(UnaryNode):
    """Merge of the partials of slices into windows."""

    window: Window
    time_type: str
    keys: tuple[str, ...]
    window_keys: tuple[WindowKey, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str


@dataclass(frozen=True)
class StreamGapFill(GlobalWindowAggregate):
    """Windows of a stream, to which windows without rows are added.

    `fill` describes their values, as in FILL.
    """

    filling: GapFilling = field(kw_only=True)
    fill: tuple[str, ...] = field(kw_only=True)


@dataclass(frozen=True)
class StreamVersionJoin(GlobalWindowAggregate):
    """Rows of a stream and versions as keys, whose rows are joined with the versions."""

    versions: VersionJoining = field(kw_only=True)


@dataclass(frozen=True)
class StreamRank(GlobalWindowAggregate):
    """First rows of each key of a stream, over all time, whose keys are whole rows.

    The count of each row is replaced by its rank, from `first_rank` on. `ttl_us` is as in
    `runtime.plan.streams.StreamRankStep`.
    """

    first: FirstRows = field(kw_only=True)
    first_rank: int = field(kw_only=True)
    ttl_us: int | None = field(default=None, kw_only=True)


def attributes(node: Node, of: type[Node]) -> dict[str, Any]:
    """Return a node's values of the attributes of class `of`, to build a related node."""
    return {field.name: getattr(node, field.name) for field in fields(of)}


def with_rows_by_spark(node: Node) -> Node:
    """Return an equivalent plan over streams in which Spark reads all files."""
    node = node.with_each_input(with_rows_by_spark)
    if not isinstance(node, ScanLocalWindowAggregate) or node.delay_us is None:
        return node
    return LocalWindowAggregate(**attributes(node, LocalWindowAggregate))


def to_physical(node: Node) -> Node:
    """Return the physical plan, with window aggregates in one phase."""
    node = node.with_each_input(to_physical)
    if isinstance(node, WindowAggregate):
        return OnePhaseWindowAggregate(**attributes(node, WindowAggregate))
    return node
