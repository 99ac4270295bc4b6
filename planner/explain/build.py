"""Plans as documents of EXPLAIN."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.explain.document import (
    AppliedRule,
    ColumnEntry,
    OperatorEntry,
    QueryDocument,
    RefusedRule,
    RuleEntry,
    Rules,
    Tree,
    Trees,
    WindowEntry,
)
from planner.explain.operator_text import Operator
from planner.explain.operators import drawn_inputs, logical_operators, physical_operators
from planner.explain.text import explain, idle_rules
from planner.explain.windows import months_parameters, window_parameters, window_uses
from planner.nodes.logical import Node
from planner.nodes.physical import SharedExchange
from planner.plan import Plan
from planner.rules import LOGICAL_STAGES, PHYSICAL_STAGES, SCAN_STAGES, SHARING_RULE
from runtime.spec.windows import window_kind


def query_document(
    plan: Plan, statement: str, time_zone: str, drawn: set[int] | None = None
) -> QueryDocument:
    """One statement's plan: text, trees, windows, rules.

    Args:
        plan: the plan.
        statement: the SQL text.
        time_zone: the session's zone, on whose wall clock windows over TIMESTAMP_LTZ are.
        drawn: which shared exchanges other plans' texts show already, as `explain` takes it.
    """
    return QueryDocument(
        statement,
        explain(plan, drawn),
        time_zone,
        Trees(
            _tree(plan.bound, logical_operators, "b"),
            _tree(plan.logical, logical_operators, "l"),
            _tree(plan.physical, physical_operators, "p"),
        ),
        tuple(_windows(plan.physical, operator_ids(plan.physical))),
        _rules(plan),
    )


def operator_ids(plan: Node) -> dict[int, list[str]]:
    """Ids of the operators of each node of a physical plan, by `id(node)`, as in the document.

    A node that stands in the plan twice has the ids of its first place.
    """
    ids: dict[int, list[str]] = {}
    n_operators = 0

    def walk(node: Node) -> None:
        nonlocal n_operators
        if isinstance(node, SharedExchange) and id(node) in ids:
            return
        count = len(physical_operators(node))
        ids.setdefault(id(node), [f"p{n_operators + i}" for i in range(count)])
        n_operators += count
        for child in drawn_inputs(node):
            walk(child)

    walk(plan)
    return ids


def _tree(root: Node, describe: Callable[[Node], list[Operator]], prefix: str) -> Tree:
    operators: list[OperatorEntry] = []
    shared: dict[int, str] = {}

    def add(node: Node) -> str:
        if isinstance(node, SharedExchange):
            if id(node) not in shared:
                shared[id(node)] = f"{prefix}{len(operators)}"
                added(node)
            return shared[id(node)]
        return added(node)

    def added(node: Node) -> str:
        chain = describe(node)
        first = len(operators)
        last = first + len(chain) - 1
        for i, each in enumerate(chain, first):
            operators.append(
                OperatorEntry(
                    f"{prefix}{i}",
                    each.name,
                    dict(each.attributes),
                    str(each),
                    () if i == last else (f"{prefix}{i + 1}",),
                    _columns(node) if i == first else None,
                )
            )
        inputs = tuple(add(child) for child in drawn_inputs(node))
        operators[last] = replace(operators[last], inputs=inputs)
        return f"{prefix}{first}"

    return Tree(add(root), tuple(operators))


def _columns(node: Node) -> tuple[ColumnEntry, ...]:
    return tuple(ColumnEntry(c.name, c.type, c.nullable) for c in node.schema)


def _windows(physical: Node, ids: dict[int, list[str]]) -> Iterator[WindowEntry]:
    for use in window_uses(physical):
        window = use.window
        yield WindowEntry(
            ids[id(use.node)][0],
            window_kind(window),
            window_parameters(window),
            months_parameters(window),
            use.time_column,
            getattr(use.node, "time_type", None),
            use.slice_widths_us,
            getattr(window, "slices_per_window", None) if use.slice_widths_us else None,
            use.copies,
            use.lines,
        )


def _rules(plan: Plan) -> Rules:
    applied, refused = [], []
    for entry in plan.trace.entries:
        summary = rule_summary(entry.rule)
        if entry.reason is None:
            applied.append(AppliedRule(entry.rule, summary, entry.node))
        else:
            refused.append(RefusedRule(entry.rule, summary, entry.node, entry.reason))
    idle = tuple(RuleEntry(name, rule_summary(name)) for name in idle_rules(plan))
    return Rules(tuple(applied), tuple(refused), tuple(map(str, plan.notes)), idle)


def rule_summary(name: str) -> str:
    """What a rule does, in a sentence."""
    return _SUMMARIES[name]


def _summary(rule: Callable[..., object]) -> str:
    """The first line of a rule's docstring."""
    return (inspect.getdoc(rule) or "").split("\n\n")[0].replace("\n", " ")


_SUMMARIES = {
    **{
        rule.__name__: _summary(rule)
        for stage in (*LOGICAL_STAGES, *PHYSICAL_STAGES, *SCAN_STAGES)
        for rule in stage.rules
    },
    SHARING_RULE.__name__: _summary(SHARING_RULE),
}
