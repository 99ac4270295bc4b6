"""What the binder of a whole query lends to the binding of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlglot import exp

from planner.catalog import Catalog, Schema
from planner.nodes.logical import Node, SqlQuery


class Relations(Protocol):
    """What the binder of a whole query lends to the binding of a block."""

    catalog: Catalog
    sql: str

    def placeholder(self, node: Node) -> str:
        """A name that stands for `node` in texts."""

    def whole_relation(self, query: exp.Query) -> Node | None:
        """The node behind `SELECT * FROM placeholder`, if the query is no more than that."""

    def relations_in(self, query: exp.Expr) -> tuple[tuple[str, Node], ...]:
        """The placeholders that a text mentions and what they stand for."""

    def sql_query(
        self,
        query: exp.Query,
        scope: Mapping[str, exp.CTE],
        schema: Schema | None = None,
    ) -> SqlQuery:
        """A node for text that has been lifted, with the CTEs it needs."""
