"""The physical plan: what runs, node by node, under the names that EXPLAIN prints."""

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
from runtime.spec.aggregates import Accumulator
from runtime.spec.exchange import SliceLevel
from runtime.spec.local import SliceRows, TaskScan
from runtime.spec.ranks import FirstRows
from runtime.spec.scan import ScanSource
from runtime.spec.slices import SliceTable
from runtime.spec.windows import Window


@dataclass(frozen=True)
class OnePhaseWindowAggregate(WindowAggregate):
    """Rows are copied into their windows and Spark aggregates them there."""


@dataclass(frozen=True)
class LocalWindowAggregate(WindowedNode):
    """Rows into partials, one for each key and slice, before the exchange.

    With `first` the keys are rows of a stream, of which only those are buffered that can be wanted.
    """

    keys: tuple[NamedExpr, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str
    first: FirstRows | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ScanLocalWindowAggregate(LocalWindowAggregate):
    """A local aggregate that reads the files of its table itself, those of a stream as they come.

    What it reads in place of is still its input: which streams there are is seen there. `scan` is
    what it evaluates; `conditions` are the filters as the query says them, for EXPLAIN. The
    watermark of a row of a stream is `delay_us` before its time.
    """

    table: str = field(kw_only=True)
    scan: TaskScan = field(kw_only=True)
    conditions: tuple[exp.Expr, ...] = field(kw_only=True)
    delay_us: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class SliceScan(LocalWindowAggregate):
    """A local aggregate that is answered from the slices of a materialized table.

    What it stands in place of is still its input. `rows` is what is read; `conditions` are the
    filters as the query says them, for EXPLAIN. `n_bytes` is the size of the slices' files,
    `tail_files` the number of files that are read beside them.
    """

    table: SliceTable = field(kw_only=True)
    rows: SliceRows = field(kw_only=True)
    conditions: tuple[exp.Expr, ...] = field(kw_only=True)
    n_bytes: int = field(kw_only=True)
    tail_files: int = field(kw_only=True)

    @property
    def sources(self) -> tuple[ScanSource, ...]:
        """What is read: the slices, and the files beside them."""
        tail = self.rows.tail
        return (self.rows.files,) if tail is None else (self.rows.files, tail.files)


@dataclass(frozen=True)
class Exchange(UnaryNode):
    """Partials to the task that owns their key; `keys` empty means one task.

    `partitions` tasks work on `buckets` buckets of keys, one after the other; None where the
    runtime decides.
    """

    keys: tuple[str, ...]
    partitions: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class SharedExchange(UnaryNode):
    """Partials that several window aggregates read, brought to the task that owns their key.

    One node with several parents: in a plan, or in the plans of a statement set. `number`
    identifies it in a statement. `accumulators` say how partials are rolled up to wider slices,
    `windows` are those of the aggregates. `partitions` and `buckets` are as in `Exchange`.
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
    """The slices of one level of a `SharedExchange`, and of its columns those that are needed.

    `columns` holds the name of each column there, and the one it has here.
    """

    level: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GlobalWindowAggregate(UnaryNode):
    """Partials of slices into windows."""

    window: Window
    time_type: str
    keys: tuple[str, ...]
    window_keys: tuple[WindowKey, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str


def attributes(node: Node, of: type[Node]) -> dict[str, Any]:
    """What a node has of the attributes of a class that it is of, for a node of a related class."""
    return {each.name: getattr(node, each.name) for each in fields(of)}


def with_rows_by_spark(node: Node) -> Node:
    """A plan over streams in which Spark reads all files: what it computes is the same."""
    node = node.with_each_input(with_rows_by_spark)
    if not isinstance(node, ScanLocalWindowAggregate) or node.delay_us is None:
        return node
    return LocalWindowAggregate(**attributes(node, LocalWindowAggregate))


def to_physical(node: Node) -> Node:
    """The physical plan: window aggregates in one phase, everything else as it is."""
    node = node.with_each_input(to_physical)
    if isinstance(node, WindowAggregate):
        return OnePhaseWindowAggregate(**attributes(node, WindowAggregate))
    return node
