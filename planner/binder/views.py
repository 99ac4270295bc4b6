"""Bind tables and views: views become their queries, tables their names in Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from planner.aggregates.calls import has_calls_for_spark, mark_user_aggregates
from planner.binder.joins.temporal_join import is_looked_up
from planner.binder.relations import Relations, Scope
from planner.binder.strict_flink import check_table
from planner.catalog import Catalog
from planner.nodes.logical import Node, TableScan
from planner.sql.build import relation, select_all_from
from planner.sql.flink_functions import rewrite_functions
from planner.sql.flink_meanings import rewrite_meanings
from planner.sql.flink_queries import rewrite_clauses
from planner.sql.names import rename_hidden_ctes
from planner.sql.nodes import name_of_columns
from planner.sql.parts import name_parts, place_window_function, replace_relation
from planner.sql.render import RESPELLED
from planner.sql.table_options import name_with_options, refuse_options
from planner.streams.refusals import current_watermark_in


def rewrite(query: exp.Query, sql: str | None, strict: bool) -> bool:
    """Rewrite, in place, syntax that Spark lacks or interprets differently.

    Returns:
        Whether anything was rewritten.
    """
    is_respelled = any(RESPELLED in cast.meta for cast in query.find_all(exp.Cast))
    has_meanings = strict and rewrite_meanings(query)
    return (
        rewrite_clauses(query, sql)
        | rewrite_functions(query)
        | rename_hidden_ctes(query)
        | is_respelled
        | has_meanings
    )


class ViewBinding(Relations):
    """Binding of the tables and views that a query names.

    Args:
        sql: Text of the statement, for error positions.
        catalog: Catalog that resolves names.
        strict: Whether to reject SQL that Flink rejects.

    Attributes:
        views: Names of the views being bound.
        views_ask_watermark: Whether a view calls CURRENT_WATERMARK.
    """

    def __init__(self, sql: str, catalog: Catalog, *, strict: bool) -> None:
        super().__init__(sql, catalog)
        self.strict = strict
        self.views: list[str] = []
        self.views_ask_watermark = False

    @abstractmethod
    def lift(self, query: exp.Query, scope: Scope) -> exp.Query:
        """Return a query over placeholders of the nodes that its blocks are bound to."""

    @abstractmethod
    def bind_query(self, query: exp.Query, scope: Scope) -> Node:
        """Bind a query, with the CTEs in scope, to a node."""

    def mark_aggregates(self, query: exp.Query) -> None:
        """Mark the user-defined aggregates of a query and its subqueries, once."""
        mark_user_aggregates(query, self.catalog)
        self.rewritten = self.rewritten or has_calls_for_spark(query)

    def scan(self, table: exp.Table, scope: Scope) -> Node:
        """Return the relation that `TABLE name` refers to in a window function."""
        name = name_parts(table)
        if not table.db and table.name.lower() in scope:
            refuse_options(table, "a query", self.sql)
            cte = scope[table.name.lower()]
            full_relation = None if cte.args["alias"].columns else self.whole_relation(cte.this)
            return full_relation or self.sql_query(select_all_from(relation(table.name)), scope)
        view = self._view(name)
        if view is not None:
            self._refuse_options(table, name)
            with self._inside_view(name):
                return self.bind_query(view, {})
        name = name_with_options(table, name, self.catalog, self.sql)
        source = table.copy()
        self._show_to_spark(source, name)
        query = select_all_from(source)
        schema = self.catalog.analyze(query, {})
        return TableScan(schema, ".".join(name), query, self.catalog.connector(name))

    def expand_view(self, table: exp.Table, scope: Scope) -> None:
        """Replace a view by its query, so that windows in it are found."""
        if not table.db and (table.name.lower() in scope or self.is_placeholder(table.name)):
            refuse_options(table, "a query", self.sql)
            return
        name = name_parts(table)
        query = self._view(name)
        if query is None or is_looked_up(table, self.catalog):
            self._show_to_spark(table, name_with_options(table, name, self.catalog, self.sql))
            return
        self._refuse_options(table, name)
        place_window_function(query, table)
        self.rewritten = True
        with self._inside_view(name):
            lifted = self.lift(query, {})
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        replace_relation(table, exp.Subquery(this=lifted, alias=alias))

    def _refuse_options(self, table: exp.Table, name: tuple[str, ...]) -> None:
        is_of_changes = self.catalog.connector(name) is not None
        refuse_options(table, "a table of changes" if is_of_changes else "a view", self.sql)

    def _show_to_spark(self, table: exp.Table, name: tuple[str, ...]) -> None:
        """Refer to a session table by its name in Spark."""
        if self.strict:
            check_table(table, self.sql)
        shown = self.catalog.relation(name)
        if shown is None or (len(name) == 1 and shown == name[0].lower()):
            return
        self.rewritten = True
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name_of_columns(table))))
        table.set("this", exp.to_identifier(shown, quoted=True))
        table.set("db", None)
        table.set("catalog", None)

    def _view(self, name: tuple[str, ...]) -> exp.Query | None:
        if ".".join(name).lower() in self.views:
            return None  # inside a view, its own name refers to the table it hides
        query = self.catalog.view(name)
        if query is not None:
            self.views_ask_watermark |= current_watermark_in(query) is not None
            rewrite(query, None, self.strict)
            self.mark_aggregates(query)
        return query

    @contextmanager
    def _inside_view(self, name: tuple[str, ...]) -> Iterator[None]:
        self.views.append(".".join(name).lower())
        try:
            yield
        finally:
            self.views.pop()
