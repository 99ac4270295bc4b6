"""Relations of a text: CTEs and the SELECTs over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.lowering.sql.names import TextNames
from planner.lowering.sql.target import Target
from planner.lowering.sql.text import number, where


@dataclass(frozen=True)
class Source:
    """A relation that others read.

    Attributes:
        name: Table or CTE. None for a SELECT without FROM.
        columns: Expression of each column, by its name in the plan.
    """

    name: exp.Table
    columns: Mapping[str, exp.Expr]


class Ctes:
    """CTEs of a text, in order.

    Attributes:
        names: Names of the text.
        target: Engine.
        all: Finished CTEs.
    """

    def __init__(self, names: TextNames, target: Target) -> None:
        self.names = names
        self.target = target
        self.all: list[exp.CTE] = []

    def add(
        self, name: str, query: exp.Query, comment: str = "", *, is_computed_once: bool = False
    ) -> exp.Table:
        """Add a CTE and return it as a table.

        Args:
            name: Name, to which a number is added if it is taken.
            query: Rows.
            comment: Comment about the rows.
            is_computed_once: Whether an engine must not copy its expressions to where they are
                read, because copies of copies would be too many.
        """
        unused = self.names.relation(name)
        alias = exp.TableAlias(this=exp.to_identifier(unused))
        materialized = True if is_computed_once and self.target.copies_expressions else None
        cte = exp.CTE(this=query, alias=alias, materialized=materialized)
        if comment:
            cte.add_comments([f" {comment}"])
        self.all.append(cte)
        return exp.to_table(unused)

    def items(self, *names: str) -> list[exp.Expr]:
        """Return columns by their names in the plan."""
        return [self.names.column(name) for name in names]

    def named(self, value: exp.Expr, name: str) -> exp.Expr:
        """Return an item of a select list, with an alias unless it is the column itself."""
        identifier = self.names.identifier(name)
        if isinstance(value, exp.Column) and value.this == identifier:
            return value.copy()
        return exp.Alias(this=value.copy(), alias=identifier)


def select(
    items: Sequence[exp.Expr],
    source: exp.Table | None,
    condition: exp.Expr | None = None,
    n_keys: int = 0,
    keys: Sequence[exp.Expr] = (),
) -> exp.Select:
    """Build a SELECT that groups by its first items.

    Args:
        items: Items of the select list.
        source: Relation. None without FROM.
        condition: Condition of WHERE.
        n_keys: Number of items to group by.
        keys: Further keys, which need not be items.
    """
    clauses: dict[str, object] = {"expressions": list(items), "where": where(condition)}
    if source is not None:
        clauses["from_"] = exp.From(this=source.copy())
    if n_keys or keys:
        clauses["group"] = exp.Group(expressions=[*(number(i + 1) for i in range(n_keys)), *keys])
    return exp.Select(**clauses)


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """Return the rows of several queries with the same columns."""
    whole = queries[0]
    for query in queries[1:]:
        whole = exp.Union(this=whole, expression=query, distinct=False)
    return whole


def over(
    function: exp.Expr,
    partition: Sequence[exp.Expr],
    order: Sequence[exp.Expr] = (),
    frame: exp.WindowSpec | None = None,
) -> exp.Expr:
    """Build a window function, which orders by columns without NULLs."""
    ordered = exp.Order(expressions=[part.copy() for part in order]) if order else None
    return exp.Window(
        this=function.copy(),
        partition_by=[part.copy() for part in partition],
        order=ordered,
        spec=frame,
    )


def rows_before(first: int | None, last: int = 0) -> exp.WindowSpec:
    """Return a frame of rows before the current one, None for all, up to a number before it."""
    return exp.WindowSpec(
        kind="ROWS",
        start="UNBOUNDED" if first is None else number(first),
        start_side="PRECEDING",
        end=number(last) if last else "CURRENT ROW",
        end_side="PRECEDING" if last else None,
    )
