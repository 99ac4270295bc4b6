"""What the binder takes a query apart into, and what it puts together from the parts."""

from __future__ import annotations

from sqlglot import exp

from planner.ast import WindowFunction

# What the rows of a SELECT come from
_INPUT = ("from_", "joins", "laterals", "with_")


def parts_below(query: exp.Query) -> list[exp.Expr]:
    """Tables, window functions and queries inside `query`, those inside of these left out."""

    def is_part(node: exp.Expr) -> bool:
        return node is not query and isinstance(node, exp.Query | WindowFunction | exp.With)

    found = []
    for node in query.walk(prune=is_part):
        if isinstance(node, exp.With):
            continue
        if is_part(node) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)):
            found.append(node)
    return found


def only_window_function(query: exp.Query) -> WindowFunction | None:
    """The window function of a SELECT that reads nothing else."""
    if not isinstance(query, exp.Select):
        return None
    source = query.args.get("from_")
    function = source.this if source is not None else None
    alone = not any(query.args.get(key) for key in ("joins", "laterals", "pivots", "match"))
    if not isinstance(function, WindowFunction) or not alone:
        return None
    extras = ("joins", "laterals", "pivots", "sample")
    return None if any(function.args.get(key) for key in extras) else function


def probe(select: exp.Select, item: exp.Expr) -> exp.Select:
    """`SELECT item` from what a SELECT reads, for Spark to tell names and types."""
    made = exp.Select(expressions=[item])
    for clause in _INPUT:
        value = select.args.get(clause)
        if value:
            made.set(clause, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return made
