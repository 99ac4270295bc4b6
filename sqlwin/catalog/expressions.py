"""Trees of computed columns and watermarks of a session's tables."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlwin.parser.parser import parse_query


class Expressions:
    """Trees of expressions in definitions of tables, by their text in Spark SQL.

    CREATE TABLE adds the trees of its statement. Other text, for example from the stored definition
    of a materialized table, is parsed when it is first needed.
    """

    def __init__(self) -> None:
        self._trees: dict[str, exp.Expr] = {}

    def add(self, trees: Mapping[str, exp.Expr]) -> None:
        """Add trees of a statement. They must not be modified."""
        self._trees.update(trees)

    def tree(self, text: str) -> exp.Expr:
        """Return the tree of an expression. The caller must not modify it.

        Raises:
            SqlSyntaxError: The text is not valid SQL.
        """
        tree = self._trees.get(text)
        if tree is None:
            tree = self._trees[text] = parse_query(f"SELECT {text}").expressions[0].pop()
        return tree
