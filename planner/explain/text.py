"""EXPLAIN: plans as text, in Flink's shape. The text depends on the query and settings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.explain.operator_text import Operator
from planner.explain.operators import drawn_inputs, logical_operators, physical_operators
from planner.explain.windows import window_uses
from planner.nodes.logical import Node
from planner.nodes.physical import SharedExchange
from planner.plan import Plan

Describe = Callable[[Node], list[Operator]]


def explain(plan: Plan, drawn: set[int] | None = None) -> str:
    """The whole explanation of a plan: trees, windows, rules.

    Args:
        plan: the plan.
        drawn: numbers of the shared exchanges that were drawn before, and where to add those that
            are drawn now. In place of one that was stands a reference to it.
    """
    drawn = set() if drawn is None else drawn
    sections = [
        ("Abstract Syntax Tree", tree(plan.bound, logical_operators, drawn)),
        ("Optimized Logical Plan", tree(plan.logical, logical_operators, drawn)),
        ("Optimized Physical Plan", tree(plan.physical, physical_operators, drawn)),
        ("Windows", [line for use in window_uses(plan.physical) for line in use.lines]),
        ("Rules", list(_rules(plan))),
    ]
    return "\n".join(
        f"== {title} ==\n" + "\n".join(lines) + "\n" for title, lines in sections if lines
    )


def physical_text(plan: Plan) -> str:
    """The physical plan, one operator a line."""
    return "\n".join(tree(plan.physical, physical_operators, set()))


def tree(node: Node, describe: Describe, drawn: set[int]) -> list[str]:
    """A plan drawn with `+-`, `:-` and `:`; a node may take several lines, one above the other."""
    lines: list[str] = []

    def draw(node: Node, head: str, margin: str) -> None:
        if isinstance(node, SharedExchange):
            if node.number in drawn:
                lines.append(f"{head}Reused(reference_id=[{node.number}])")
                return
            drawn.add(node.number)
        operators = describe(node)
        for depth, each in enumerate(operators):
            lines.append((head if depth == 0 else margin + "   " * (depth - 1) + "+- ") + str(each))
        margin += "   " * (len(operators) - 1)
        inputs = drawn_inputs(node)
        for position, child in enumerate(inputs):
            last = position == len(inputs) - 1
            draw(child, margin + ("+- " if last else ":- "), margin + ("   " if last else ":  "))

    draw(node, "", "")
    return lines


def _rules(plan: Plan) -> Iterator[str]:
    applied = [e for e in plan.trace.entries if e.reason is None]
    refused = [e for e in plan.trace.entries if e.reason is not None]
    if applied:
        yield "applied:"
        yield from (f"  {entry.rule} on {entry.node}" for entry in applied)
    if refused or plan.notes:
        yield "not applied:"
        yield from (f"  {entry.rule} on {entry.node}: {entry.reason}" for entry in refused)
        yield from (f"  window block left to Spark: {note}" for note in plan.notes)
    rest = idle_rules(plan)
    if rest:
        yield f"nothing to do: {', '.join(rest)}"


def idle_rules(plan: Plan) -> list[str]:
    """The rules that found no node that they are meant for."""
    tried = {entry.rule for entry in plan.trace.entries}
    return [name for name in plan.rule_names if name not in tried]
