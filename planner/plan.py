"""Plan a query: bind, optimise, choose phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.binder.binder import bind
from planner.binder.fill.clause import FillOptions
from planner.binder.strict_flink import check_plan
from planner.materialized.unanswered import check_inserted_rows, too_wide
from planner.nodes.logical import Node, Sink
from planner.nodes.physical import SharedExchange, to_physical
from planner.optimizer import Options, Trace, optimize, optimize_together
from planner.parallelism import set_parallelism
from planner.rules import (
    CHANGES_RULE_NAMES,
    LOGICAL_STAGES,
    PHYSICAL_STAGES,
    RULE_NAMES,
    SCAN_STAGES,
    SHARING_RULE,
    SLICES_RULE_NAMES,
    STREAM_RULE_NAMES,
)
from planner.streams.tables import read_exclusive_tables_once, streams_of
from runtime.refusal import Refusal


@dataclass(frozen=True)
class Draft:
    """A query planned as far as possible without knowing the other queries.

    Attributes:
        bound: Logical plan before the rules.
        logical: Logical plan after the rules.
        physical: Physical plan, before window aggregates share slices.
        trace: Outcome of each rule.
        notes: Reasons why window blocks were left to Spark.
        is_rewritten: False if Spark can run the user's text unchanged.
        sql: Text of the statement, to which source positions in nodes refer.
        sink: For INSERT, the target table and whether it is overwritten.
        apart: Reason why its stream cannot be shared with another query. None if it can.
    """

    bound: Node
    logical: Node
    physical: Node
    trace: Trace
    notes: tuple[Refusal, ...]
    is_rewritten: bool
    sql: str = ""
    sink: tuple[str, bool] | None = None
    apart: str | None = None


@dataclass(frozen=True)
class Plan(Draft):
    """A planned query. `physical` is the plan that runs, and the plans include the sink.

    Attributes:
        rule_names: All rules that apply to this kind of query, in order.
        alone: For a stream that shares slices, the plan that would run if it did not.
    """

    rule_names: tuple[str, ...] = RULE_NAMES
    alone: Node | None = None


def plan_query(query: exp.Query, sql: str, options: Options) -> Plan:
    """Plan a query.

    Args:
        query: Tree in sqlwin's dialect.
        sql: Text from which the tree was parsed.
        options: Catalog and settings of the planner.

    Raises:
        AnalysisError: The query does not match the catalog, or a window is invalid.
    """
    (plan,) = plan_together([draft_plan(query, sql, options)], options)
    return plan


def draft_plan(
    query: exp.Query, sql: str, options: Options, sink: tuple[str, bool] | None = None
) -> Draft:
    """Run the first half of `plan_query`, for queries that are then planned together.

    `sink` is the target table of an INSERT and whether it is overwritten. It is only shown in
    plans.
    """
    fill = FillOptions(options.time_zone, options.fill_max_windows, options.fill_keep_us)
    bound = bind(
        query,
        sql,
        options.catalog,
        options.strict_flink,
        fill,
        emits_updates=options.emits_updates,
        state_ttl_us=options.state_ttl_us or None,
    )
    trace = Trace()
    logical = optimize(bound.plan, LOGICAL_STAGES, options, trace)
    if options.strict_flink:
        check_plan(logical, is_stream=bool(streams_of(logical, options.catalog)))
    physical = optimize(to_physical(logical), PHYSICAL_STAGES, options, trace)
    return Draft(bound.plan, logical, physical, trace, bound.notes, bound.is_rewritten, sql, sink)


def plan_together(drafts: Sequence[Draft], options: Options) -> list[Plan]:
    """Plan queries that run one after another, so that they can share slices."""
    traces = [draft.trace for draft in drafts]
    plans = [draft.physical for draft in drafts]
    if SHARING_RULE.__name__ in options.disabled_rules:
        for trace in traces:
            trace.add_disabled(SHARING_RULE.__name__)
    else:
        plans = SHARING_RULE(plans, traces, options, [draft.apart for draft in drafts])
    plans = _add_scans(plans, options, traces)
    for draft, plan in zip(drafts, plans, strict=True):
        check_inserted_rows(plan, draft.trace)
    plans = set_parallelism(plans, options.parallelism)
    alone = set_parallelism([draft.physical for draft in drafts], options.parallelism)
    return [
        _finish(draft, plan, by_itself, options)
        for draft, plan, by_itself in zip(drafts, plans, alone, strict=True)
    ]


def _add_scans(plans: Sequence[Node], options: Options, traces: Sequence[Trace]) -> list[Node]:
    """Add the scans of the plans' tables.

    Materialized slices are read at the coarsest level that suffices.
    """
    before = [list(trace.entries) for trace in traces]
    while True:
        scanned = optimize_together(plans, SCAN_STAGES, options, traces)
        refused = tuple(refusal for plan in scanned for refusal in too_wide(plan))
        if not refused:
            return scanned
        options = replace(options, refused_slices=(*options.refused_slices, *refused))
        for trace, entries in zip(traces, before, strict=True):
            trace.entries[:] = entries


def _finish(draft: Draft, physical: Node, alone: Node, options: Options) -> Plan:
    physical = read_exclusive_tables_once(physical, options.catalog)
    shared = (node for node in physical.walk_up() if isinstance(node, SharedExchange))
    shares_stream = any(streams_of(node, options.catalog) for node in shared)
    trees = {"bound": draft.bound, "logical": draft.logical, "physical": physical}
    if draft.sink is not None:
        trees = {name: Sink(tree.schema, tree, *draft.sink) for name, tree in trees.items()}
    tried = {entry.rule for entry in draft.trace.entries}
    left_out = (SLICES_RULE_NAMES | CHANGES_RULE_NAMES) - tried
    if not streams_of(draft.bound, options.catalog):
        left_out |= STREAM_RULE_NAMES
    names = tuple(name for name in RULE_NAMES if name not in left_out)
    parts = vars(draft) | trees
    return Plan(**parts, rule_names=names, alone=alone if shares_stream else None)
