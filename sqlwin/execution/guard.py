"""The judge of statements from someone who may not do everything: a client of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sqlwin.statements.nodes import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Guard(Protocol):
    """Judges a statement, first before anything of it is planned or run."""

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

    def check_plan(self, rows: Callable[[], DataFrame]) -> None:
        """Judge the plan of a query as Spark has analysed it, before any of it runs.

        Raises:
            ReadOnlyError: The plan is not allowed.
        """


class AllowsAll:
    """The guard of statements that may do everything."""

    def check_statement(self, statement: Statement) -> None:
        """Allow a statement."""

    def check_text(self, spark: SparkSession, text: str) -> None:
        """Allow a text."""

    def check_plan(self, rows: Callable[[], DataFrame]) -> None:
        """Allow a query, which need not be analysed for that."""


ALLOWS_ALL = AllowsAll()
