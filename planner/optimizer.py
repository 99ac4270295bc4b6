"""The driver of the rules: walks the plan, tries each rule at each node, keeps a trace.

A rule is a function of one node. It returns a new node, a `Refusal` that says why it does not apply
to a node it is meant for, or None for any other node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.catalog import Catalog
from planner.nodes.logical import Node
from runtime.spec.windows import window_kind


@dataclass(frozen=True)
class ParallelismOptions:
    """What decides on the parallelism of exchanges beside the data.

    Attributes:
        partitions: `sqlwin.exchange.partitions`; None: from the data.
        buckets: `sqlwin.exchange.buckets`; None: from the data.
        most_partitions: the parallelism that Spark would give any exchange.
    """

    partitions: int | None = None
    buckets: int | None = None
    most_partitions: int = 200


@dataclass(frozen=True)
class Options:
    """The settings of the planner.

    Attributes:
        catalog: where names are looked up.
        agg_phase_strategy: AUTO, ONE_PHASE or TWO_PHASE.
        disabled_rules: names of rules that are not tried.
        time_zone: the session's time zone.
        parallelism: what decides on the parallelism of exchanges.
        strict_flink: whether to refuse what Flink does not take.
        rewrites_to_slices: whether slices of materialized tables answer queries over their bases.
        reads_stale: whether slices answer without the rows that are not in them yet.
        refused_slices: name of a materialized table, and why it does not answer this query.
    """

    catalog: Catalog
    agg_phase_strategy: str = "AUTO"
    disabled_rules: frozenset[str] = frozenset()
    time_zone: str = "UTC"
    parallelism: ParallelismOptions = ParallelismOptions()
    strict_flink: bool = False
    rewrites_to_slices: bool = True
    reads_stale: bool = False
    refused_slices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a rule does not apply to a node that it is meant for."""

    reason: str


@dataclass(frozen=True)
class TraceEntry:
    """What one rule did at one node: `refusal` is None where it applied."""

    rule: str
    node: str
    refusal: Refusal | None = None

    @property
    def reason(self) -> str | None:
        """Why the rule did not apply, in words."""
        return None if self.refusal is None else self.refusal.reason


@dataclass
class Trace:
    """What the rules did, each event once, in order."""

    entries: list[TraceEntry] = field(default_factory=list)

    def add(self, rule: str, node: Node, refusal: Refusal | None = None) -> None:
        """Record an event, unless it is there already."""
        window = getattr(node, "window", None)
        kind = f"({window_kind(window)})" if window is not None else ""
        entry = TraceEntry(rule, type(node).__name__ + kind, refusal)
        if entry not in self.entries or refusal is None:
            self.entries.append(entry)

    def add_disabled(self, rule: str) -> None:
        """Record that a setting has a rule left out."""
        refusal = Refusal("disabled by sqlwin.optimizer.disabled-rules")
        self.entries.append(TraceEntry(rule, "any node", refusal))


Rule = Callable[[Node, Options], Node | Refusal | None]


@dataclass(frozen=True)
class Stage:
    """Rules that are applied together, bottom-up, until none of them changes anything."""

    name: str
    rules: Sequence[Rule]


class SchemaChangedError(Exception):
    """A rule changed what a node yields: a fault in the rule, never in a query."""


# More passes than any plan needs: a plan that still changes after them has rules that undo
# each other.
_MAX_PASSES = 50


def optimize(plan: Node, stages: Sequence[Stage], options: Options, trace: Trace) -> Node:
    """Apply the stages in order.

    Raises:
        SchemaChangedError: a rule changed the names or types of a node's columns.
    """
    (optimized,) = optimize_together([plan], stages, options, [trace])
    return optimized


def optimize_together(
    plans: Sequence[Node], stages: Sequence[Stage], options: Options, traces: Sequence[Trace]
) -> list[Node]:
    """Apply the stages to plans that may have nodes in common, and still have them afterwards.

    What is done to a common node is in the trace of the first plan that has it.

    Raises:
        SchemaChangedError: a rule changed the names or types of a node's columns.
    """
    for stage in stages:
        rules = [rule for rule in stage.rules if rule.__name__ not in options.disabled_rules]
        for rule in stage.rules:
            if rule not in rules:
                for trace in traces:
                    trace.add_disabled(rule.__name__)
        for _ in range(_MAX_PASSES):
            refusals: list[tuple[Trace, Rule, Node, Refusal]] = []
            after = _walked(plans, rules, options, traces, refusals)
            if all(new is old for new, old in zip(after, plans, strict=True)):
                break
            plans = after
        else:
            raise SchemaChangedError(f"stage {stage.name} has no fixed point")
        # only what was refused in the final plan is of interest
        for trace, rule, node, refusal in refusals:
            trace.add(rule.__name__, node, refusal)
    return list(plans)


def _walked(
    plans: Sequence[Node],
    rules: Sequence[Rule],
    options: Options,
    traces: Sequence[Trace],
    refusals: list[tuple[Trace, Rule, Node, Refusal]],
) -> list[Node]:
    """The plans after one walk, bottom-up, in which at most one rule is applied to each node."""
    done: dict[int, Node] = {}  # what became of the nodes met so far, by identity

    def walked(node: Node, trace: Trace) -> Node:
        if id(node) not in done:
            done[id(node)] = applied(node.with_each_input(lambda n: walked(n, trace)), trace)
        return done[id(node)]

    def applied(node: Node, trace: Trace) -> Node:
        for rule in rules:
            result = rule(node, options)
            if isinstance(result, Refusal):
                refusals.append((trace, rule, node, result))
            elif result is not None:
                _check_schema(rule, node, result)
                trace.add(rule.__name__, node)
                return result
        return node

    return [walked(plan, trace) for plan, trace in zip(plans, traces, strict=True)]


def _check_schema(rule: Rule, before: Node, after: Node) -> None:
    old = [(c.name, c.type) for c in before.schema]
    new = [(c.name, c.type) for c in after.schema]
    if old != new:
        raise SchemaChangedError(
            f"{rule.__name__} turned the columns {old} of {type(before).__name__} into {new}"
        )
