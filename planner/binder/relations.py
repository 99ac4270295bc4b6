"""Placeholder names for nodes in the text of a query, and nodes made of such text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from planner.catalog import Catalog, Schema
from planner.nodes.logical import Node, SqlQuery
from planner.sql.build import has_only, is_whole_star, relation, select_items
from planner.sql.names import with_ctes
from planner.sql.nodes import STATE_TTL
from planner.sql.parts import lone_source
from planner.streams.tables import streams_of

# CTEs in scope, by lower-case name
Scope = Mapping[str, exp.CTE]

_PLACEHOLDER = "__sqlwin_input_{}__"


class Relations:
    """Nodes of a query that is being bound, by placeholder name.

    Args:
        sql: Text of the statement, for error positions.
        catalog: Catalog that resolves names.

    Attributes:
        rewritten: Whether Spark cannot run the user's text unchanged.
        emits_updates: Whether streams emit windows more than once.
        state_ttl_us: Time-to-live of the state of streams. None: forever.
    """

    emits_updates = False
    state_ttl_us: int | None = None

    def __init__(self, sql: str, catalog: Catalog) -> None:
        self.sql = sql
        self.catalog = catalog
        self.rewritten = False
        self._nodes: dict[str, Node] = {}

    def windows_change(self, node: Node) -> bool:
        """Return whether windows in a node are emitted more than once."""
        return self.emits_updates and bool(streams_of(node, self.catalog))

    def ttl_us_of(self, select: exp.Query) -> int | None:
        """Return the time-to-live of a SELECT's state. None: forever."""
        ttl_us: int | None = select.meta.get(STATE_TTL, self.state_ttl_us)
        return ttl_us or None

    def placeholder(self, node: Node) -> str:
        """Return a name that represents `node` in SQL text."""
        for name, registered in self._nodes.items():
            if registered is node:
                return name
        self.rewritten = True
        name = _PLACEHOLDER.format(len(self._nodes))
        self._nodes[name] = node
        return name

    def is_placeholder(self, name: str) -> bool:
        """Return whether a name represents a node."""
        return name in self._nodes

    def select(
        self, items: Iterable[exp.Expr], node: Node, **clauses: exp.Expr | None
    ) -> exp.Select:
        """Build `SELECT items FROM node`, with further clauses."""
        return select_items(items, relation(self.placeholder(node)), **clauses)

    def whole_relation(self, query: exp.Expr) -> Node | None:
        """Return the node behind a query that is just `SELECT * FROM placeholder`, else None."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or len(select.selects) != 1:
            return None
        is_all = has_only(select, ("from_", "expressions", "with_"))
        if not is_all or not is_whole_star(select.selects[0]):
            return None
        below = lone_source(select)
        if isinstance(below, exp.Subquery) and not below.alias_column_names:
            return self.whole_relation(below.this)
        return self._nodes.get(below.name) if isinstance(below, exp.Table) else None

    def relations_in(self, query: exp.Expr) -> tuple[tuple[str, Node], ...]:
        """Return the placeholders in a query and their nodes."""
        names = dict.fromkeys(table.name for table in query.find_all(exp.Table))
        return tuple((name, self._nodes[name]) for name in names if name in self._nodes)

    def sql_query(self, query: exp.Query, scope: Scope, schema: Schema | None = None) -> SqlQuery:
        """Return a node for a query whose window blocks are placeholders, with its CTEs."""
        query = with_ctes(query, scope)
        relations = self.relations_in(query)
        schema = schema or self.catalog.analyze(query, {n: node.schema for n, node in relations})
        return SqlQuery(schema, query, relations)

    def node_of(self, query: exp.Query, scope: Scope) -> Node:
        """Return a node for such a query, reusing an existing node that equals the whole query."""
        return self.whole_relation(query) or self.sql_query(query, scope)
