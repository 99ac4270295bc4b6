"""The logical plan: frozen nodes, each with its inputs and its output columns.

Expressions inside nodes are sqlglot trees over the input's column names; nobody changes them once
they are in a node. A change to a plan makes new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.build import column
from planner.sql.nodes import TextSpan
from runtime.spec.aggregates import UserAggregate
from runtime.spec.windows import CalendarCumulate, Cumulate, Window

AnyNode = TypeVar("AnyNode", bound="Node")


@dataclass(frozen=True)
class Node:
    """A node of a plan.

    Attributes:
        schema: what it yields.
        place: what of the statement's text it stands for, where errors may point; None for a node
            that no words of it stand for, or those of a view.
    """

    schema: Schema
    place: TextSpan | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes below."""
        return ()

    def with_inputs(self, *inputs: Node) -> Self:
        """The same node over other inputs."""
        assert not inputs
        return self

    def with_each_input(self, change: Callable[[Node], Node]) -> Self:
        """The same over changed inputs; the very node if none of them changes."""
        inputs = tuple(map(change, self.inputs))
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        return self.with_inputs(*inputs)

    def walk(self) -> Iterator[Node]:
        """The node and all below it, from the top, each once."""
        met: set[int] = set()
        pending: list[Node] = [self]
        while pending:
            node = pending.pop()
            if id(node) not in met:
                met.add(id(node))
                yield node
                pending += reversed(node.inputs)

    def walk_up(self) -> Iterator[Node]:
        """The node and all below it, each behind its inputs, and as often as it is read."""
        for child in self.inputs:
            yield from child.walk_up()
        yield self

    def find_all(self, kind: type[AnyNode]) -> Iterator[AnyNode]:
        """Those of a kind."""
        return (node for node in self.walk() if isinstance(node, kind))

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
class LeftToSpark:
    """Why a block about windows stays in the text of a SqlQuery.

    Attributes:
        reason: what is in its way.
        consequence: what Spark does then; empty if that is in the reason.
    """

    reason: str
    consequence: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.consequence}" if self.consequence else self.reason


@dataclass(frozen=True)
class SqlQuery(Node):
    """A query that Spark SQL runs as it is, over the relations named in `relations`."""

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


def columns_of(node: Node, schema: Schema, names: Iterable[str] | None = None) -> Project:
    """The columns `schema` of a node, which are called `names` in it, or the same."""
    old_names = (c.name for c in schema) if names is None else names
    pairs = zip(schema, old_names, strict=True)
    return Project(schema, node, tuple(NamedExpr(c.name, column(old)) for c, old in pairs))


def below_choices(node: Node) -> tuple[Node, tuple[exp.Expr, ...]]:
    """The node below conditions and choices of columns, and the conditions."""
    conditions: tuple[exp.Expr, ...] = ()
    while isinstance(node, Filter | Project):
        if isinstance(node, Filter):
            conditions = (*node.conjuncts, *conditions)
        elif not all(item.is_plain_column for item in node.items):
            break
        node = node.input
    return node, conditions


def with_needed_columns(node: Node, needed: Collection[str]) -> Node:
    """The columns of a node whose names in lower case are needed; the node if it is all or none."""
    kept = tuple(c for c in node.schema if c.name.lower() in needed)
    return columns_of(node, kept) if 0 < len(kept) < len(node.schema) else node


@dataclass(frozen=True)
class WindowColumns:
    """Names of the three columns that a window table function adds."""

    start: str
    end: str
    time: str

    def role_of(self, name: str) -> str | None:
        """`start`, `end` or `time` if `name` is a window column, else None."""
        return next((role for role, own in vars(self).items() if own.lower() == name.lower()), None)


@dataclass(frozen=True)
class WindowedNode(UnaryNode):
    """A node that puts windows on a time column of its input.

    `time_place` is where the time column is named.
    """

    window: Window
    time_column: str
    time_type: str
    time_place: TextSpan | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class WindowTableFunction(WindowedNode):
    """Each row once for every window it belongs to, with the window's columns."""

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
        arg_types: Spark's types of the arguments of a call with DISTINCT, of MIN_BY and MAX_BY, and
            of the first one of APPROX_COUNT_DISTINCT; empty where a * stands among them, and for
            other calls.
        user: the aggregate, if it is user-defined.
        text: the call as the user wrote it.
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
    user: UserAggregate | None = None


@dataclass(frozen=True)
class Aggregate(UnaryNode):
    """GROUP BY over the rows of the input."""

    keys: tuple[NamedExpr, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Expand(UnaryNode):
    """Each row once for every grouping set, with NULL for the keys that the set leaves out.

    `keys` are the group keys, `ids` the ids of the sets in the column `id_column`; the set at a
    position keeps the keys whose names are at that position of `kept`. An id has a bit for each
    key that its set leaves out, the last key the lowest. All other columns are those of the input.
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
class WindowAggregate(WindowedNode):
    """GROUP BY keys and windows, over rows that carry no window columns yet."""

    keys: tuple[NamedExpr, ...]
    window_keys: tuple[WindowKey, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class WindowRows(UnaryNode):
    """Rows of windows of a stream, emitted when the windows close.

    The input's rows, each as often as its column `copies` says, without that column.
    """

    copies: str


def is_identified(window: Window, roles: Collection[str]) -> bool:
    """Whether columns of these roles identify a window.

    The end of a window does; the start does for all but CUMULATE, whose windows share it.
    """
    if "end" in roles or "time" in roles:
        return True
    return "start" in roles and not isinstance(window, Cumulate | CalendarCumulate)


@dataclass(frozen=True)
class AttachedWindow:
    """Windows that rows carry already, in columns of these names; None for one that is lost.

    `times` are the columns that are still times on the window's wall clock: the time column that
    windows were put on, and the window's own time. `others` are roles and names of further columns
    that say the same as `start`, `end` and `time`: those of the other side of an inner join.
    """

    spec: Window
    start: str | None
    end: str | None
    time: str | None
    times: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all these columns."""
        return tuple(dict.fromkeys((*(name for _, name in self.roles), *self.times)))

    @property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """The roles and names of the window columns: first `start`, `end` and `time`."""
        named = (("start", self.start), ("end", self.end), ("time", self.time))
        return (*((role, name) for role, name in named if name is not None), *self.others)

    def role_of(self, name: str) -> str | None:
        """`start`, `end` or `time` if `name` is a window column, else None."""
        return next((role for role, own in self.roles if own.lower() == name.lower()), None)


@dataclass(frozen=True)
class WindowRank(UnaryNode):
    """Window Top-N: rows of each window and key whose rank is in a range.

    The input's columns, then `rank_column` (INT). No state outlives a window: whoever has all the
    rows of a window can rank them.

    Attributes:
        attached: the windows of the input's rows.
        rank_type: ROW_NUMBER, RANK or DENSE_RANK.
        rank_start: the first rank that is kept, from 1.
        rank_end: the last one.
        window_columns: the window columns in PARTITION BY.
        partition_by: the other columns in PARTITION BY, by name.
        order_by: what ranks rows, over the input's columns.
        rank_column: the name of the rank.
    """

    attached: AttachedWindow
    rank_type: str
    rank_start: int
    rank_end: int
    window_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order_by: tuple[exp.Ordered, ...]
    rank_column: str


@dataclass(frozen=True)
class WindowDeduplicate(UnaryNode):
    """Window deduplication: of each window and key the first or the last row by time.

    The input's columns, then `rank_column` (INT), which is 1.

    Attributes:
        attached: the windows of the input's rows.
        window_columns: the window columns among the keys.
        partition_by: the other keys, by name.
        order_key: the time column that orders.
        keep: `FirstRow` or `LastRow`.
        rank_column: the name of the rank.
    """

    attached: AttachedWindow
    window_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order_key: str
    keep: str
    rank_column: str


@dataclass(frozen=True)
class WindowJoin(Node):
    """A join of rows in the same window; the names of the two sides are disjoint.

    Yields the columns of the left, then of the right; LeftSemi and LeftAnti the left alone.

    Attributes:
        left: the left side.
        right: the right side.
        join_type: Inner, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti.
        left_window: the windows of the left side's rows.
        right_window: those of the right; the same windows.
        window_keys: pairs of equal window columns, left and right.
        keys: pairs of other columns that must be equal, left and right, by name.
        condition: the rest of ON, over the columns of both sides; None if there is none.
        key_places: where each pair of `keys` is compared.
    """

    left: Node
    right: Node
    join_type: str
    left_window: AttachedWindow
    right_window: AttachedWindow
    window_keys: tuple[tuple[str, str], ...]
    keys: tuple[tuple[str, str], ...]
    condition: exp.Expr | None
    key_places: tuple[TextSpan | None, ...] = field(
        default=(), compare=False, repr=False, kw_only=True
    )

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left side and the right side."""
        return (self.left, self.right)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same join of other sides."""
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True)
class Sink(UnaryNode):
    """INSERT INTO a table."""

    table: str
    overwrite: bool
