"""EXPLAIN as data: one JSON document, from which the diagrams and the page are drawn.

The schema is in docs/explain.md; `DOCUMENT_VERSION` grows when something in it changes meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from planner.explain.format import Operator
from planner.explain.operators import drawn_inputs, logical_operators, physical_operators
from planner.explain.text import explain, idle_rules
from planner.explain.window_uses import window_uses
from planner.explain.windows import months_parameters, window_parameters
from planner.nodes.logical import Node
from planner.nodes.physical import SharedExchange
from planner.optimizer import TraceEntry
from planner.plan import Plan
from planner.rules import LOGICAL_STAGES, PHYSICAL_STAGES, SCAN_STAGES, SHARING_RULE
from runtime.spec.windows import window_kind

DOCUMENT_VERSION = 1

Json = dict[str, Any]


def document(queries: Sequence[Json]) -> Json:
    """The document of some statements, each as `query_document` or `foreign_document` made it."""
    return {"version": DOCUMENT_VERSION, "queries": list(queries)}


def query_document(
    plan: Plan, statement: str, time_zone: str, drawn: set[int] | None = None
) -> Json:
    """One statement's plan: text, trees, windows, rules; JSON values only.

    Args:
        plan: the plan.
        statement: the SQL text.
        time_zone: the session's zone, on whose clock windows over TIMESTAMP_LTZ are.
        drawn: which shared exchanges other plans' texts show already, as `explain` takes it.
    """
    ids = operator_ids(plan.physical)
    return {
        "statement": statement,
        "text": explain(plan, drawn),
        "time_zone": time_zone,
        "trees": {
            "bound": _tree(plan.bound, logical_operators, "b"),
            "logical": _tree(plan.logical, logical_operators, "l"),
            "physical": _tree(plan.physical, physical_operators, "p"),
        },
        "windows": _windows(plan.physical, ids),
        "rules": _rules(plan),
        "analysis": None,
    }


def foreign_document(statement: str, text: str) -> Json:
    """A statement of Spark's alone: only the text of Spark's own EXPLAIN."""
    return {
        "statement": statement,
        "text": text,
        "time_zone": None,
        "trees": None,
        "windows": [],
        "rules": {"applied": [], "refused": [], "left_to_spark": [], "idle": []},
        "analysis": None,
    }


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


def _tree(root: Node, describe: Callable[[Node], list[Operator]], prefix: str) -> Json:
    operators: list[Json] = []
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
        for i, each in enumerate(chain):
            operators.append(
                {
                    "id": f"{prefix}{first + i}",
                    "name": each.name,
                    "attributes": {key: list(values) for key, values in each.attributes},
                    "text": str(each),
                    "inputs": [f"{prefix}{first + i + 1}"] if i < len(chain) - 1 else [],
                    "columns": _columns(node) if i == 0 else None,
                }
            )
        last = operators[-1]
        last["inputs"] = [add(child) for child in drawn_inputs(node)]
        return f"{prefix}{first}"

    root_id = add(root)
    return {"root": root_id, "operators": operators}


def _columns(node: Node) -> list[Json]:
    return [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in node.schema]


def _windows(physical: Node, ids: dict[int, list[str]]) -> list[Json]:
    found = []
    for use in window_uses(physical):
        window = use.window
        found.append(
            {
                "operator": ids[id(use.node)][0],
                "kind": window_kind(window),
                "parameters_us": window_parameters(window),
                "parameters_months": months_parameters(window),
                "time_column": use.time_column,
                "time_type": getattr(use.node, "time_type", None),
                "slice_widths_us": list(use.slice_widths_us),
                "slices_per_window": (
                    getattr(window, "slices_per_window", None) if use.slice_widths_us else None
                ),
                "copies": use.copies,
                "text": list(use.lines),
            }
        )
    return found


def _rules(plan: Plan) -> Json:
    entries = plan.trace.entries
    return {
        "applied": [_entry(entry) for entry in entries if entry.reason is None],
        "refused": [_entry(entry) for entry in entries if entry.reason is not None],
        "left_to_spark": list(plan.notes),
        "idle": [{"rule": name, "summary": rule_summary(name)} for name in idle_rules(plan)],
    }


def _entry(entry: TraceEntry) -> Json:
    found = {"rule": entry.rule, "summary": rule_summary(entry.rule), "node": entry.node}
    return found if entry.reason is None else {**found, "reason": entry.reason}


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
