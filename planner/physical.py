"""The physical plan: what runs, node by node, under the names that EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass

from planner.aggregates import AggregatePlan
from planner.logical import (
    AggregateCall,
    Filter,
    NamedExpr,
    Project,
    Sink,
    SqlQuery,
    TableScan,
    UnaryNode,
    WindowKey,
    WindowTableFunction,
)
from runtime.spec import Window

__all__ = [
    "Exchange",
    "Filter",
    "GlobalWindowAggregate",
    "LocalWindowAggregate",
    "OnePhaseWindowAggregate",
    "Project",
    "Sink",
    "SqlQuery",
    "TableScan",
    "WindowTableFunction",
]


@dataclass(frozen=True)
class OnePhaseWindowAggregate(UnaryNode):
    """Rows are copied into their windows and Spark aggregates them there."""

    window: Window
    time_column: str
    time_type: str
    keys: tuple[NamedExpr, ...]
    window_keys: tuple[WindowKey, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class LocalWindowAggregate(UnaryNode):
    """Rows into partials, one for each key and slice, before the exchange."""

    window: Window
    time_column: str
    time_type: str
    keys: tuple[NamedExpr, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str


@dataclass(frozen=True)
class Exchange(UnaryNode):
    """Partials to the task that owns their key; `keys` empty means one task."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class GlobalWindowAggregate(UnaryNode):
    """Partials of slices into windows."""

    window: Window
    time_type: str
    keys: tuple[str, ...]
    window_keys: tuple[WindowKey, ...]
    plans: tuple[AggregatePlan, ...]
    slice_end: str
