"""GROUP BY and DISTINCT in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in, canonical, read_call
from planner.aggregates.functions import args_to_type, plan_aggregate
from planner.aggregates.shared_partials import share_partials
from planner.arrow.scan_rows import (
    RowsOfScan,
    result_columns,
)
from planner.lowering.clauses import Item, meant_by
from planner.lowering.relation import Relation, RelationLowering, renamed
from planner.nodes.logical import AggregateCall
from planner.scalars.output_schema import output_schema
from planner.sql.build import (
    alias,
    column,
    has_only,
    relation,
    select_items,
    to_sql,
)
from runtime.refusal import refuse


def aggregated(
    lowering: RelationLowering,
    select: exp.Select,
    below: Relation,
    items: Sequence[Item],
    clauses: Sequence[exp.Expr],
) -> tuple[Relation, Callable[[exp.Expr], exp.Expr]]:
    """Return the groups of a SELECT, and a function that rewrites a clause to read them."""
    group = select.args.get("group")
    if group is not None and not has_only(group, {"expressions"}):
        refuse("Spark computes grouping sets without windows")
    keys: dict[str, tuple[str, exp.Expr]] = {}
    for part in group.expressions if group else ():
        key = meant_by(part, items, below.scan.schema, is_key=True)
        if aggregates_in(key):
            refuse("GROUP BY contains an aggregate")
        keys.setdefault(canonical(key), (f"$key{len(keys)}", key))
    calls: dict[str, AggregateCall] = {}
    for clause in clauses:
        for call in aggregates_in(clause):
            if (text := canonical(call)) not in calls:
                calls[text] = _read_call(call, f"$call{len(calls)}", below.scan)
    plans = share_partials(tuple(map(plan_aggregate, calls.values())))
    made = tuple(
        (name, below.scan.expression(key, has_tables=False)) for name, key in keys.values()
    )
    results = {text: plan.finish for text, plan in zip(calls, plans, strict=True)}
    results |= {text: column(name) for text, (name, _) in keys.items()}

    def above(clause: exp.Expr) -> exp.Expr:
        def read(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Identifier):
                return node
            result = results.get(canonical(node))
            return node if result is None else exp.Paren(this=result.copy())

        return clause.copy().transform(read).unnest()

    return lowering.grouped(below, made, plans, is_total=group is None), above


def distinct_rows(lowering: RelationLowering, made: Relation) -> Relation:
    """Return the distinct rows of a relation."""
    keys = result_columns(made.scan, made.scan.schema)
    groups = lowering.grouped(made, tuple((f"$key{i}", key) for i, (_, key) in enumerate(keys)))
    return renamed(groups, made.scan.schema)


def _read_call(node: exp.Expr, name: str, scan: RowsOfScan) -> AggregateCall:
    """Return an aggregate call with its arguments and Spark's types."""
    call = read_call(node, name, "")
    if call.order is not None:
        refuse(f"{call.function} without windows has no defined order")
    table = relation("t")
    typed = select_items([alias(node, "c")], table)
    schema = output_schema(typed, {"t": scan.schema})
    if schema is None:
        refuse(f"{to_sql(node)} is not supported by the scan")
    call = replace(call, type=schema[0].type)
    types = (scan.expression(arg, has_tables=False).type for arg in args_to_type(call))
    return replace(call, arg_types=tuple(types))
