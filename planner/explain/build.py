"""Plans as documents of EXPLAIN, and as text in Flink's format.

The text depends only on the query and the settings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
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
from planner.explain.window_texts import window_entries
from planner.nodes.logical import Node
from planner.nodes.physical import SharedExchange
from planner.plan import Plan
from planner.rules import LOGICAL_STAGES, PHYSICAL_STAGES, SCAN_STAGES, SHARING_RULE

Describe = Callable[[Node], list[Operator]]


def query_document(
    plan: Plan, statement: str, time_zone: str, drawn: set[int] | None = None
) -> QueryDocument:
    """Build the document of one statement: text, trees, windows, rules.

    Args:
        plan: The plan.
        statement: SQL text.
        time_zone: The session's time zone, on whose wall clock windows over TIMESTAMP_LTZ are
            computed.
        drawn: Numbers of the shared exchanges already shown by other plans, which are drawn as
            references. This plan's exchanges are added.
    """
    windows = tuple(window_entries(plan.physical, operator_ids(plan.physical)))
    rules = _rules(plan)
    return QueryDocument(
        statement,
        _text(plan, windows, rules, set() if drawn is None else drawn),
        time_zone,
        Trees(
            _tree(plan.bound, logical_operators, "b"),
            _tree(plan.logical, logical_operators, "l"),
            _tree(plan.physical, physical_operators, "p"),
        ),
        windows,
        rules,
    )


def operator_ids(plan: Node) -> dict[int, list[str]]:
    """Return the operator ids of each node of a physical plan by `id(node)`, as in the document.

    A node that occurs twice in the plan has the ids of its first occurrence.
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


def _tree(root: Node, describe: Describe, prefix: str) -> Tree:
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
        for i, op in enumerate(chain, first):
            operators.append(
                OperatorEntry(
                    f"{prefix}{i}",
                    op.name,
                    dict(op.attributes),
                    str(op),
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


def _rules(plan: Plan) -> Rules:
    applied, refused = [], []
    for entry in plan.trace.entries:
        summary = rule_summary(entry.rule)
        if entry.reason is None:
            applied.append(AppliedRule(entry.rule, summary, entry.node))
        else:
            refused.append(RefusedRule(entry.rule, summary, entry.node, entry.reason))
    tried = {entry.rule for entry in plan.trace.entries}
    idle = tuple(RuleEntry(n, rule_summary(n)) for n in plan.rule_names if n not in tried)
    return Rules(tuple(applied), tuple(refused), tuple(map(str, plan.notes)), idle)


def rule_summary(name: str) -> str:
    """Return a one-sentence description of a rule."""
    return _SUMMARIES[name]


def _summary(rule: Callable[..., object]) -> str:
    """Return the first paragraph of a rule's docstring."""
    return (inspect.getdoc(rule) or "").split("\n\n")[0].replace("\n", " ")


_SUMMARIES = {
    **{
        rule.__name__: _summary(rule)
        for stage in (*LOGICAL_STAGES, *PHYSICAL_STAGES, *SCAN_STAGES)
        for rule in stage.rules
    },
    SHARING_RULE.__name__: _summary(SHARING_RULE),
}


# -- as text -------------------------------------------------------------------------------------


def _text(plan: Plan, windows: Iterable[WindowEntry], rules: Rules, drawn: set[int]) -> str:
    sections = [
        ("Abstract Syntax Tree", tree(plan.bound, logical_operators, drawn)),
        ("Optimized Logical Plan", tree(plan.logical, logical_operators, drawn)),
        ("Optimized Physical Plan", tree(plan.physical, physical_operators, drawn)),
        ("Windows", [line for window in windows for line in window.text]),
        ("Rules", list(_rule_lines(rules))),
    ]
    return "\n".join(
        f"== {title} ==\n" + "\n".join(lines) + "\n" for title, lines in sections if lines
    )


def physical_text(plan: Plan) -> str:
    """Return the physical plan as text, one operator per line."""
    return "\n".join(tree(plan.physical, physical_operators, set()))


def tree(node: Node, describe: Describe, drawn: set[int]) -> list[str]:
    """Draw a plan with `+-`, `:-` and `:`.

    A node may take several lines, the last operator first.
    """
    lines: list[str] = []

    def draw(node: Node, head: str, margin: str) -> None:
        if isinstance(node, SharedExchange):
            if node.number in drawn:
                lines.append(f"{head}Reused(reference_id=[{node.number}])")
                return
            drawn.add(node.number)
        operators = describe(node)
        for depth, line in enumerate(operators):
            lines.append((head if depth == 0 else margin + "   " * (depth - 1) + "+- ") + str(line))
        margin += "   " * (len(operators) - 1)
        inputs = drawn_inputs(node)
        for position, child in enumerate(inputs):
            last = position == len(inputs) - 1
            draw(child, margin + ("+- " if last else ":- "), margin + ("   " if last else ":  "))

    draw(node, "", "")
    return lines


def _rule_lines(rules: Rules) -> Iterator[str]:
    if rules.applied:
        yield "applied:"
        yield from (f"  {entry.rule} on {entry.node}" for entry in rules.applied)
    if rules.refused or rules.left_to_spark:
        yield "not applied:"
        yield from (f"  {entry.rule} on {entry.node}: {entry.reason}" for entry in rules.refused)
        yield from (f"  left to Spark: {note}" for note in rules.left_to_spark)
    if rules.idle:
        yield f"nothing to do: {', '.join(entry.rule for entry in rules.idle)}"
