"""Rule driver: walks the plan, tries each rule at each node and records a trace.

A rule is a function of one node. It returns a new node, a `Refusal` with the reason why it does not
apply to a node of the right type, or None for any other node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.catalog import Catalog
from planner.nodes.logical import Node
from runtime.refusal import Refusal
from runtime.spec.aggregates import DEFAULT_MAX_VALUES
from runtime.spec.filling import DEFAULT_KEEP_US, DEFAULT_MAX_WINDOWS


@dataclass(frozen=True)
class ParallelismOptions:
    """Settings that determine the parallelism of exchanges, in addition to the amount of data.

    Attributes:
        partitions: `sqlwin.exchange.partitions`. None to derive it from the data.
        buckets: `sqlwin.exchange.buckets`. None to derive it from the data.
        most_partitions: Maximum partitions of an exchange, from Spark's configuration.
    """

    partitions: int | None = None
    buckets: int | None = None
    most_partitions: int = 200


@dataclass(frozen=True)
class Options:
    """Settings of the planner.

    Attributes:
        catalog: Catalog that resolves names.
        agg_phase_strategy: AUTO, ONE_PHASE or TWO_PHASE.
        disabled_rules: Names of rules to skip.
        time_zone: The session's time zone.
        parallelism: Settings for the parallelism of exchanges.
        strict_flink: Whether to reject SQL that Flink rejects.
        rewrites_to_slices: Whether materialized slices may answer queries over their base tables.
        reads_stale: Whether slices may answer without the base rows that they do not cover yet.
        fill_max_windows: Maximum windows that FILL makes for a key.
        fill_keep_us: On a stream, how long after its last row windows of a key are added.
        max_values: Maximum values that a stream keeps for a key and window; 0: no limit.
        state_ttl_us: On a stream, for how long after its time the first row of a key hides later
            ones. 0 means forever.
        emits_updates: Whether streams emit windows more than once.
        refused_slices: Name of a materialized table and why it cannot answer this query.
    """

    catalog: Catalog
    agg_phase_strategy: str = "AUTO"
    disabled_rules: frozenset[str] = frozenset()
    time_zone: str = "UTC"
    parallelism: ParallelismOptions = ParallelismOptions()
    strict_flink: bool = False
    rewrites_to_slices: bool = True
    reads_stale: bool = False
    fill_max_windows: int = DEFAULT_MAX_WINDOWS
    fill_keep_us: int = DEFAULT_KEEP_US
    max_values: int = DEFAULT_MAX_VALUES
    state_ttl_us: int = 0
    emits_updates: bool = False
    refused_slices: tuple[tuple[str, Refusal], ...] = ()


@dataclass(frozen=True)
class TraceEntry:
    """Outcome of one rule at one node. `refusal` is only set if the rule did not apply."""

    rule: str
    node: str
    refusal: Refusal | None = None

    @property
    def reason(self) -> str | None:
        """Return the reason why the rule did not apply, or None."""
        return None if self.refusal is None else self.refusal.reason


@dataclass
class Trace:
    """Rule outcomes in order, without duplicates."""

    entries: list[TraceEntry] = field(default_factory=list)

    def add(self, rule: str, node: Node, refusal: Refusal | None = None) -> None:
        """Record an outcome unless it is already recorded."""
        window = getattr(node, "window", None)
        kind = f"({window.function})" if window is not None else ""
        entry = TraceEntry(rule, type(node).__name__ + kind, refusal)
        if entry not in self.entries or refusal is None:
            self.entries.append(entry)

    def add_disabled(self, rule: str) -> None:
        """Record that a setting disables a rule."""
        refusal = Refusal("disabled by sqlwin.optimizer.disabled-rules")
        self.entries.append(TraceEntry(rule, "any node", refusal))


Rule = Callable[[Node, Options], Node | Refusal | None]


@dataclass(frozen=True)
class Stage:
    """Rules that are applied together, bottom-up, until none of them changes the plan."""

    name: str
    rules: Sequence[Rule]


class SchemaChangedError(Exception):
    """A rule changed the columns that a node returns: a bug in the rule, not in the query."""


# No plan needs this many passes. If the plan still changes afterwards, two rules undo each other.
_MAX_PASSES = 50


def optimize(plan: Node, stages: Sequence[Stage], options: Options, trace: Trace) -> Node:
    """Apply the stages in order.

    Raises:
        SchemaChangedError: A rule changed the names or types of a node's columns.
    """
    (optimized,) = optimize_together([plan], stages, options, [trace])
    return optimized


def optimize_together(
    plans: Sequence[Node], stages: Sequence[Stage], options: Options, traces: Sequence[Trace]
) -> list[Node]:
    """Apply the stages to plans that may share nodes, and keep those nodes shared.

    Changes to a shared node are recorded in the trace of the first plan that contains it.

    Raises:
        SchemaChangedError: A rule changed the names or types of a node's columns.
    """
    for stage in stages:
        rules = [rule for rule in stage.rules if rule.__name__ not in options.disabled_rules]
        for rule in stage.rules:
            if rule not in rules:
                for trace in traces:
                    trace.add_disabled(rule.__name__)
        for _ in range(_MAX_PASSES):
            refusals: list[tuple[Trace, Rule, Node, Refusal]] = []
            after = _walk_once(plans, rules, options, traces, refusals)
            if all(new is old for new, old in zip(after, plans, strict=True)):
                break
            plans = after
        else:
            raise SchemaChangedError(f"stage {stage.name} has no fixed point")
        # Report only refusals at nodes of the final plan.
        for trace, rule, node, refusal in refusals:
            trace.add(rule.__name__, node, refusal)
    return list(plans)


def _walk_once(
    plans: Sequence[Node],
    rules: Sequence[Rule],
    options: Options,
    traces: Sequence[Trace],
    refusals: list[tuple[Trace, Rule, Node, Refusal]],
) -> list[Node]:
    """Walk the plans once, bottom-up, and apply at most one rule to each node."""
    rewritten: dict[int, Node] = {}  # rewritten nodes by the identity of the original

    def rewrite(node: Node, trace: Trace) -> Node:
        if id(node) not in rewritten:
            rewritten[id(node)] = apply_rules(
                node.with_each_input(lambda n: rewrite(n, trace)), trace
            )
        return rewritten[id(node)]

    def apply_rules(node: Node, trace: Trace) -> Node:
        for rule in rules:
            result = rule(node, options)
            if isinstance(result, Refusal):
                refusals.append((trace, rule, node, result))
            elif result is not None:
                _check_schema(rule, node, result)
                trace.add(rule.__name__, node)
                return result
        return node

    return [rewrite(plan, trace) for plan, trace in zip(plans, traces, strict=True)]


def _check_schema(rule: Rule, before: Node, after: Node) -> None:
    old = [(c.name, c.type) for c in before.schema]
    new = [(c.name, c.type) for c in after.schema]
    if old != new:
        raise SchemaChangedError(
            f"{rule.__name__} turned the columns {old} of {type(before).__name__} into {new}"
        )
