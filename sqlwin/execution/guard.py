"""The judge of statements from someone who may not do everything: a client of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlwin.statements.nodes import Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Guard(Protocol):
    """Judges a statement before anything of it is planned or run."""

    def check_statement(self, statement: Statement) -> None:
        """Judge the tree of a statement, with the values of its parameters.

        Raises:
            ReadOnlyError: The statement is not allowed.
        """

    def check_text(self, spark: SparkSession, text: str) -> None:
        """Judge a text that Spark parses itself, which may read it differently.

        Raises:
            ReadOnlyError: The text is not allowed.
        """
