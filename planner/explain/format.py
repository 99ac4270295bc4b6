"""What an operator is, and its parts as text for reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from planner.nodes.logical import NamedExpr
from planner.sql.build import to_sql


@dataclass(frozen=True)
class Operator:
    """One line of a plan.

    Attributes:
        name: such as `GlobalWindowAggregate`.
        attributes: what it does: a name, and one text or several.
    """

    name: str
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        """The line as EXPLAIN prints it: `Limit(offset=[5], fetch=[10])`."""
        inside = ", ".join(f"{key}=[{', '.join(values)}]" for key, values in self.attributes)
        return f"{self.name}({inside})"


def operator(name: str, **attributes: str | Iterable[str] | None) -> Operator:
    """An operator; attributes that are None or hold nothing are left out.

    Example:
        >>> str(operator("Limit", offset=None, fetch="10"))
        'Limit(fetch=[10])'
    """
    given: list[tuple[str, tuple[str, ...]]] = []
    for key, value in attributes.items():
        texts = (value,) if isinstance(value, str) else tuple(value or ())
        if texts:
            given.append((key, texts))
    return Operator(name, tuple(given))


def unquoted(expr: exp.Expr) -> str:
    """Text without the back quotes that the planner puts around names, for reading."""

    def bare(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier):
            return exp.Identifier(this=node.name, quoted=False)
        return node

    return to_sql(expr.copy().transform(bare, copy=False))


def item_text(item: NamedExpr) -> str:
    """An expression with its name, unless it is a column of that name."""
    text = unquoted(item.expr)
    return text if text == item.name else f"{text} AS {item.name}"
