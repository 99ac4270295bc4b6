"""The logical plan: frozen nodes, each with its inputs and its output columns.

Expressions inside nodes are sqlglot trees over the input's column names; nobody changes them once
they are in a node. A change to a plan makes new nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from sqlglot import exp

from planner.catalog import Schema
from runtime.spec import Window


@dataclass(frozen=True)
class Node:
    """A node of a plan. `schema` is what it yields."""

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes below."""
        return ()

    def with_inputs(self, *inputs: Node) -> Self:
        """The same node over other inputs."""
        assert not inputs
        return self

    @property
    def column_names(self) -> frozenset[str]:
        """Names of the output columns, in lower case."""
        return frozenset(column.name.lower() for column in self.schema)


@dataclass(frozen=True)
class UnaryNode(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same node over another input."""
        (only,) = inputs
        return replace(self, input=only)


@dataclass(frozen=True)
class NamedExpr:
    """An expression and the name of the column it becomes."""

    name: str
    expr: exp.Expr

    @property
    def is_plain_column(self) -> bool:
        """Whether this only hands a column on under its own name."""
        return (
            isinstance(self.expr, exp.Column)
            and not self.expr.table
            and self.expr.name.lower() == self.name.lower()
        )


@dataclass(frozen=True)
class TableScan(Node):
    """A table as it stands in a catalog.

    `query` reads it (`SELECT * FROM name`); `connector` is None for tables of Spark's own.
    """

    table: str
    query: exp.Query
    connector: str | None = None


@dataclass(frozen=True)
class SqlQuery(Node):
    """A query that Spark SQL carries out as it is, over the relations named in `relations`."""

    query: exp.Query
    relations: tuple[tuple[str, Node], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The relations, in order."""
        return tuple(node for _, node in self.relations)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same query over other relations of the same names."""
        names = [name for name, _ in self.relations]
        return replace(self, relations=tuple(zip(names, inputs, strict=True)))


@dataclass(frozen=True)
class Filter(UnaryNode):
    """Rows for which all of `conjuncts` are true."""

    conjuncts: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Project(UnaryNode):
    """The columns `items`, computed from the input's."""

    items: tuple[NamedExpr, ...]


@dataclass(frozen=True)
class WindowColumns:
    """Names of the three columns that a window table function adds."""

    start: str
    end: str
    time: str

    def role_of(self, name: str) -> str | None:
        """`start`, `end` or `time` if `name` is a window column, else None."""
        folded = name.lower()
        for role in ("start", "end", "time"):
            if getattr(self, role).lower() == folded:
                return role
        return None


@dataclass(frozen=True)
class WindowTableFunction(UnaryNode):
    """Each row once for every window it belongs to, with the window's columns."""

    window: Window
    time_column: str
    time_type: str
    columns: WindowColumns


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate in a query.

    Attributes:
        name: the output column.
        function: the function's name in capitals.
        expr: the whole call as Spark computes it on rows, FILTER included.
        args: the arguments.
        condition: the FILTER's condition.
        distinct: whether DISTINCT stands before the arguments.
        order: for functions that pick a value by time, the column that orders, else None.
        arg_types: Spark's types of the arguments of a call with DISTINCT; empty where a * stands
            among them, and for other calls.
        text: the call as the person wrote it.
        type: Spark's type of the result.
    """

    name: str
    function: str
    expr: exp.Expr
    args: tuple[exp.Expr, ...]
    text: str
    type: str
    condition: exp.Expr | None = None
    distinct: bool = False
    order: str | None = None
    arg_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Aggregate(UnaryNode):
    """GROUP BY over the rows of the input."""

    keys: tuple[NamedExpr, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Expand(UnaryNode):
    """Each row once for every grouping set, with NULL for the keys that the set leaves out.

    `keys` are the group keys, `ids` the ids of the sets in the column `id_column`; the set at a
    position keeps the keys whose names are at that position of `kept`. All other columns are
    those of the input.
    """

    keys: tuple[NamedExpr, ...]
    ids: tuple[int, ...]
    kept: tuple[frozenset[str], ...]
    id_column: str


@dataclass(frozen=True)
class WindowKey:
    """A window column among the group keys: `role` is start, end or time."""

    name: str
    role: str


@dataclass(frozen=True)
class WindowAggregate(UnaryNode):
    """GROUP BY keys and windows, over rows that carry no window columns yet."""

    window: Window
    time_column: str
    time_type: str
    keys: tuple[NamedExpr, ...]
    window_keys: tuple[WindowKey, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Sink(UnaryNode):
    """INSERT INTO a table."""

    table: str
    overwrite: bool
