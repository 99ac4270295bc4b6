"""ClientWriter of a client's query: the rules spell PostgreSQL's constructs as sqlwin does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from sqlglot import exp

from planner.sql.render import SparkSqlGenerator
from runtime.errors import Position
from sqlwin.server.postgres.errors import unsupported
from sqlwin.server.postgres.inference import Types
from sqlwin.server.postgres.reader import SPAN, PostgresQueries

# Returns the SQL of a node, None to keep it
Rule = Callable[["ClientWriter", Any], str | None]


class ClientWriter(SparkSqlGenerator):
    """Generator of sqlwin's SQL. A node with a rule is written by it.

    Attributes:
        types: Types of the expressions.
        text: The text that was parsed.
        rules: Rules by type of node.
    """

    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: transform
        for kind, transform in SparkSqlGenerator.TRANSFORMS.items()
        if kind is not exp.Select
    }
    types: Types
    text: str
    rules: Mapping[type[exp.Expr], Rule]

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        """Return the SQL of a node or, with `key`, of a part of it."""
        node = expression.args.get(key) if key and isinstance(expression, exp.Expr) else expression
        if isinstance(node, exp.Expr) and (text := self.changed(node)) is not None:
            return text
        return str(super().sql(expression, key, comment))

    def changed(self, node: exp.Expr) -> str | None:
        """Return the translation of a node, None if it needs none."""
        rule = self.rules.get(type(node))
        return None if rule is None else rule(self, node)

    def unchanged(self, node: exp.Expr) -> str:
        """Return the SQL of a node whose rule does not apply to itself."""
        return str(super().sql(node))

    def type_of(self, node: exp.Expr, what: str) -> str:
        """Return the type of an operand.

        Raises:
            UntranslatableError: It is not known.
        """
        kind = self.types.of(node)
        if kind is None:
            self.refuse(
                node,
                f"the type of {shown(node)}, on which {what} depends, is not known",
                "cast it, for example CAST(... AS INT)",
            )
        return kind

    def refuse(
        self, node: exp.Expr, message: str, hint: str | None = None, sqlstate: str = "0A000"
    ) -> NoReturn:
        """Refuse a node.

        Raises:
            UntranslatableError: Always.
        """
        span = node.meta.get(SPAN)
        position = None if span is None else Position.at(self.text, span[0], span[1] - span[0])
        raise unsupported(message, position, hint=hint, sqlstate=sqlstate)


def shown(node: exp.Expr) -> str:
    """Return a node's text for messages."""
    return f"`{node.sql(dialect=PostgresQueries, comments=False)}`"


def writer_of(types: Types, text: str, rules: Mapping[type[exp.Expr], Rule]) -> ClientWriter:
    """Return a writer."""
    writer = ClientWriter(dialect=PostgresQueries(), comments=False)
    writer.types, writer.text, writer.rules = types, text, rules
    return writer
