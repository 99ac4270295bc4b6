"""From a query's tree to a plan: bind, optimise, choose phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.binder.binder import bind
from planner.binder.strict_flink import check_plan
from planner.materialized.unanswered import check_kept_rows, too_wide
from planner.nodes.logical import LeftToSpark, Node, Sink
from planner.nodes.physical import SharedExchange, to_physical
from planner.optimizer import Options, Trace, optimize, optimize_together
from planner.parallelism import with_parallelism
from planner.rules import (
    LOGICAL_STAGES,
    PHYSICAL_STAGES,
    RULE_NAMES,
    SCAN_STAGES,
    SHARING_RULE,
    SLICES_RULE_NAMES,
    STREAM_RULE_NAMES,
)
from planner.streams.tables import streams_of, with_one_reading


@dataclass(frozen=True)
class Draft:
    """A query that is planned as far as it can be by itself.

    Attributes:
        bound: the logical plan as the query says it.
        logical: the same after the rules.
        physical: what runs, before window aggregates share anything.
        trace: which rule did what, and which did not and why.
        notes: why window blocks were left to Spark as they are.
        is_rewritten: False if Spark can be given the text as the user wrote it.
        sql: the statement's text, which places in nodes are of.
        sink: for INSERT, the table and whether it is overwritten.
        apart: why its stream, if it is one, cannot be another's too; None: it can.
    """

    bound: Node
    logical: Node
    physical: Node
    trace: Trace
    notes: tuple[LeftToSpark, ...]
    is_rewritten: bool
    sql: str = ""
    sink: tuple[str, bool] | None = None
    apart: str | None = None


@dataclass(frozen=True)
class Plan(Draft):
    """A query that is planned: `physical` is what runs, and the sink is part of the plans.

    Attributes:
        rule_names: all rules there are for such a query, in order.
        alone: of a stream that shares slices with others, what would run if it did not.
    """

    rule_names: tuple[str, ...] = RULE_NAMES
    alone: Node | None = None


def plan_query(query: exp.Query, sql: str, options: Options) -> Plan:
    """Plan a query.

    Args:
        query: the tree, in sqlwin's dialect.
        sql: the text it was parsed from.
        options: the catalog, and the settings that matter here.

    Raises:
        AnalysisError: the query does not fit the catalog, or a window makes no sense.
    """
    (plan,) = plan_together([draft_plan(query, sql, options)], options)
    return plan


def draft_plan(
    query: exp.Query, sql: str, options: Options, sink: tuple[str, bool] | None = None
) -> Draft:
    """The first part of `plan_query`, for queries that are then planned together.

    `sink` is for INSERT the table and whether it is overwritten; it is only shown in plans.
    """
    bound = bind(query, sql, options.catalog, options.strict_flink)
    trace = Trace()
    logical = optimize(bound.plan, LOGICAL_STAGES, options, trace)
    if options.strict_flink:
        check_plan(logical, is_stream=bool(streams_of(logical, options.catalog)))
    physical = optimize(to_physical(logical), PHYSICAL_STAGES, options, trace)
    return Draft(bound.plan, logical, physical, trace, bound.notes, bound.is_rewritten, sql, sink)


def plan_together(drafts: Sequence[Draft], options: Options) -> list[Plan]:
    """Plan queries that run one after another, so that they share what they can."""
    traces = [draft.trace for draft in drafts]
    plans = [draft.physical for draft in drafts]
    if SHARING_RULE.__name__ in options.disabled_rules:
        for trace in traces:
            trace.add_disabled(SHARING_RULE.__name__)
    else:
        plans = SHARING_RULE(plans, traces, options, [draft.apart for draft in drafts])
    plans = _read(plans, options, traces)
    for draft, plan in zip(drafts, plans, strict=True):
        check_kept_rows(plan, draft.trace)
    plans = with_parallelism(plans, options.parallelism)
    alone = with_parallelism([draft.physical for draft in drafts], options.parallelism)
    return [
        _finished(draft, plan, by_itself, options)
        for draft, plan, by_itself in zip(drafts, plans, alone, strict=True)
    ]


def _read(plans: Sequence[Node], options: Options, traces: Sequence[Trace]) -> list[Node]:
    """Plans with what reads their tables: of slices, those that are as fine as is needed."""
    before = [list(trace.entries) for trace in traces]
    while True:
        found = optimize_together(plans, SCAN_STAGES, options, traces)
        refused = tuple(each for plan in found for each in too_wide(plan))
        if not refused:
            return found
        options = replace(options, refused_slices=(*options.refused_slices, *refused))
        for trace, entries in zip(traces, before, strict=True):
            trace.entries[:] = entries


def _finished(draft: Draft, physical: Node, alone: Node, options: Options) -> Plan:
    physical = with_one_reading(physical, options.catalog)
    shared = (node for node in physical.walk_up() if isinstance(node, SharedExchange))
    shares_stream = any(streams_of(node, options.catalog) for node in shared)
    trees = {"bound": draft.bound, "logical": draft.logical, "physical": physical}
    if draft.sink is not None:
        trees = {name: Sink(tree.schema, tree, *draft.sink) for name, tree in trees.items()}
    tried = {entry.rule for entry in draft.trace.entries}
    left_out = SLICES_RULE_NAMES - tried
    if not streams_of(draft.bound, options.catalog):
        left_out |= STREAM_RULE_NAMES
    names = tuple(name for name in RULE_NAMES if name not in left_out)
    parts = vars(draft) | trees
    return Plan(**parts, rule_names=names, alone=alone if shares_stream else None)
