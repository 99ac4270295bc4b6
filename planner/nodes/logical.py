"""Logical plan: frozen nodes with inputs and output columns.

Expressions inside nodes are sqlglot trees over the input's column names. They must not be modified;
changing a plan creates new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.build import column
from planner.sql.nodes import TextSpan
from runtime.spec.filling import GapFilling, VersionJoining
from runtime.spec.table import Column
from runtime.spec.user_aggregates import UserAggregate
from runtime.windows import Window

AnyNode = TypeVar("AnyNode", bound="Node")


@dataclass(frozen=True)
class Node:
    """A node of a plan.

    Attributes:
        schema: Output columns.
        place: Part of the statement's text that the node corresponds to, for error positions. None
            if unknown or in a view.
    """

    schema: Schema
    place: TextSpan | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes below."""
        return ()

    def with_inputs(self, *inputs: Node) -> Self:
        """Return a copy with other inputs."""
        assert not inputs
        return self

    def with_each_input(self, change: Callable[[Node], Node]) -> Self:
        """Return a copy with changed inputs, or the node itself if none changes."""
        inputs = tuple(map(change, self.inputs))
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        return self.with_inputs(*inputs)

    def walk(self) -> Iterator[Node]:
        """Yield the node and all nodes below, from the top, each once."""
        met: set[int] = set()
        pending: list[Node] = [self]
        while pending:
            node = pending.pop()
            if id(node) not in met:
                met.add(id(node))
                yield node
                pending += reversed(node.inputs)

    def walk_up(self) -> Iterator[Node]:
        """Yield the node and all nodes below, inputs first, as often as they are read."""
        for child in self.inputs:
            yield from child.walk_up()
        yield self

    def find_all(self, kind: type[AnyNode]) -> Iterator[AnyNode]:
        """Yield the nodes of a kind, from the top, each once."""
        return (node for node in self.walk() if isinstance(node, kind))

    @property
    def column_names(self) -> frozenset[str]:
        """Lower-case names of the output columns."""
        return frozenset(column.name.lower() for column in self.schema)


@dataclass(frozen=True)
class UnaryNode(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The only input."""
        return (self.input,)

    def with_inputs(self, *inputs: Node) -> Self:
        """Return a copy with another input."""
        (only,) = inputs
        return replace(self, input=only)


@dataclass(frozen=True)
class NamedExpr:
    """An expression and the name of its output column."""

    name: str
    expr: exp.Expr

    @property
    def is_plain_column(self) -> bool:
        """Return whether this passes a column on under its own name."""
        return (
            isinstance(self.expr, exp.Column)
            and not self.expr.table
            and self.expr.name.lower() == self.name.lower()
        )


@dataclass(frozen=True)
class TableScan(Node):
    """A table of a catalog.

    `query` reads it (`SELECT * FROM name`). Spark's own tables have no `connector`.
    """

    table: str
    query: exp.Query
    connector: str | None = None


@dataclass(frozen=True)
class SqlQuery(Node):
    """A query that Spark SQL runs unchanged, over the relations named in `relations`."""

    query: exp.Query
    relations: tuple[tuple[str, Node], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The relations, in order."""
        return tuple(node for _, node in self.relations)

    def with_inputs(self, *inputs: Node) -> Self:
        """Return the same query over other relations of the same names."""
        names = [name for name, _ in self.relations]
        return replace(self, relations=tuple(zip(names, inputs, strict=True)))


@dataclass(frozen=True)
class Filter(UnaryNode):
    """Rows that satisfy all `conjuncts`."""

    conjuncts: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Project(UnaryNode):
    """The columns `items`, computed from the input's columns."""

    items: tuple[NamedExpr, ...]


def columns_of(node: Node, schema: Schema, names: Iterable[str] | None = None) -> Project:
    """Project a node to `schema`. `names` are the node's names of these columns, if different."""
    old_names = (c.name for c in schema) if names is None else names
    pairs = zip(schema, old_names, strict=True)
    return Project(schema, node, tuple(NamedExpr(c.name, column(old)) for c, old in pairs))


def plain_items(schema: Schema) -> tuple[NamedExpr, ...]:
    """Return the columns as items that pass them on."""
    return tuple(NamedExpr(c.name, column(c.name)) for c in schema)


def with_column(node: Node, added: Column, value: exp.Expr) -> Project:
    """Add a computed column to the columns of a node."""
    return Project(
        (*node.schema, added), node, (*plain_items(node.schema), NamedExpr(added.name, value))
    )


def below_choices(node: Node) -> tuple[Node, tuple[exp.Expr, ...]]:
    """Return the node below filters and column selections, and the filters."""
    conditions: tuple[exp.Expr, ...] = ()
    while isinstance(node, Filter | Project):
        if isinstance(node, Filter):
            conditions = (*node.conjuncts, *conditions)
        elif not all(item.is_plain_column for item in node.items):
            break
        node = node.input
    return node, conditions


def with_needed_columns(node: Node, needed: Collection[str]) -> Node:
    """Project a node to its needed columns (lower case); return it unchanged for all or none."""
    columns = tuple(c for c in node.schema if c.name.lower() in needed)
    return columns_of(node, columns) if 0 < len(columns) < len(node.schema) else node


@dataclass(frozen=True)
class WindowColumns:
    """Names of the three columns that a window table function adds."""

    start: str
    end: str
    time: str

    def role_of(self, name: str) -> str | None:
        """Return `start`, `end` or `time` if `name` is a window column, else None."""
        return _role_of(name, vars(self).items())


def _role_of(name: str, roles: Iterable[tuple[str, str]]) -> str | None:
    return next((role for role, own in roles if own.lower() == name.lower()), None)


# Columns of the windows that join two streams within an interval
INTERVAL_COLUMNS = WindowColumns("$interval_start", "$interval_end", "$interval_time")

# Columns of the windows in which the rows of a temporal join wait for the watermark
VERSION_COLUMNS = WindowColumns("$wait_start", "$wait_end", "$wait_time")


@dataclass(frozen=True)
class WindowedNode(UnaryNode):
    """A node that assigns windows by a time column of its input.

    `time_place` is the source position of the time column. With `emits_untimed`, a stream emits
    rows at UNTIMED at once.
    """

    window: Window
    time_column: str
    time_type: str
    emits_untimed: bool = field(default=False, kw_only=True)
    time_place: TextSpan | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class WindowTableFunction(WindowedNode):
    """Each row once per window it belongs to, with the window columns."""

    columns: WindowColumns


def in_windows(
    node: Node, window: Window, time: Column, columns: WindowColumns, *places: TextSpan | None
) -> WindowTableFunction:
    """Return the rows of a node in windows by its column `time`.

    `places` are the source positions of the windows and of the time column.
    """
    added = (
        Column(columns.start, "timestamp_ntz", False),
        Column(columns.end, "timestamp_ntz", False),
        Column(columns.time, time.type, False),
    )
    return WindowTableFunction(
        (*(c for c in node.schema if c.name != window.row_length), *added),
        node,
        window,
        time.name,
        time.type,
        columns,
        place=places[0],
        time_place=places[-1],
    )


@dataclass(frozen=True)
class RangeRows(Node):
    """Each row of `data` once per row of `bounds` whose range contains its time.

    Yields the columns of both, without hidden ones of the bounds.

    Attributes:
        data: Rows with a time.
        bounds: Ranges with the window columns. No range is empty or has a NULL.
        window: The ranges.
        time_column: Time column of the data.
        time_type: `timestamp_ntz` or `timestamp`.
        columns: Window columns of the bounds.
        starts: Column of the bounds that the time is compared with. It is a window column, or a
            hidden one of type `timestamp`, with which instants are compared.
        ends: The same for the ends.
        time_place: Source position of the time column.
    """

    data: Node
    bounds: Node
    window: Window
    time_column: str
    time_type: str
    columns: WindowColumns
    starts: str
    ends: str
    time_place: TextSpan | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The data and the bounds."""
        return (self.data, self.bounds)

    def with_inputs(self, *inputs: Node) -> Self:
        """Return the same ranges over other data and bounds."""
        data, bounds = inputs
        hidden = {self.starts, self.ends} - set(vars(self.columns).values())
        schema = (*data.schema, *(c for c in bounds.schema if c.name not in hidden))
        return replace(self, schema=schema, data=data, bounds=bounds)

    @property
    def is_on_wall_clock(self) -> bool:
        """Whether a time that is an instant is compared on the wall clock of the time zone."""
        return self.time_type == "timestamp" and self.starts == self.columns.start


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate call of a query.

    Attributes:
        name: Name of the output column.
        function: Function name in upper case.
        expr: The call, including FILTER, as Spark computes it on rows.
        args: The arguments.
        condition: Condition of the FILTER clause.
        distinct: Whether the call has DISTINCT.
        order: Ordering column of a function that picks a value by time, else None.
        is_descending: Whether WITHIN GROUP orders the first argument from the largest value.
        arg_types: Spark types of the arguments, for calls with DISTINCT, MIN_BY and MAX_BY, and the
            type of the first argument of APPROX_COUNT_DISTINCT. Empty for other calls and if an
            argument is *.
        user: The aggregate, if user-defined.
        change: Number by which a row changes the number of equal rows, if rows may be deleted.
        text: The call as the user wrote it.
        type: Spark type of the result.
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
    is_descending: bool = False
    change: exp.Expr | None = None


@dataclass(frozen=True)
class Aggregate(UnaryNode):
    """GROUP BY over the input rows."""

    keys: tuple[NamedExpr, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Expand(UnaryNode):
    """Each row once per grouping set, with NULL for the keys outside the set.

    `keys` are the group keys. `ids` are the values of `id_column`, one per set; `key_names` are the
    keys in the set at the same position. An id has a bit for each omitted key, with the last key as
    the lowest bit. The input's other columns are unchanged.
    """

    keys: tuple[NamedExpr, ...]
    ids: tuple[int, ...]
    key_names: tuple[frozenset[str], ...]
    id_column: str


@dataclass(frozen=True)
class WindowKey:
    """A window column among the group keys. `role` is start, end or time."""

    name: str
    role: str


@dataclass(frozen=True)
class WindowAggregate(WindowedNode):
    """GROUP BY keys and windows, over rows without window columns."""

    keys: tuple[NamedExpr, ...]
    window_keys: tuple[WindowKey, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class WindowRows(UnaryNode):
    """Rows of windows of a stream, emitted when the windows close.

    Yields each input row as often as its column `COPIES` says, without that column.
    """


# Number of equal rows
COPIES = "$copies"


def repeated(node: Node, place: TextSpan | None) -> WindowRows:
    """Return the rows of a node as often as its column `COPIES` says."""
    return WindowRows(tuple(c for c in node.schema if c.name != COPIES), node, place=place)


# Change of a row's number of occurrences: 1 if it is inserted, -1 if it is deleted
CHANGE = "$change"
# Kind of a change: +I, -U, +U or -D
CHANGE_KIND = "$change_kind"


@dataclass(frozen=True)
class ChangelogTable(UnaryNode):
    """A table that a stream of changes describes.

    Its input projects the rows with their `CHANGE`, as last column. Windows, groups and ranks read
    that; nothing else can, because the table is never complete.

    Attributes:
        kind: Expression of the rows' `CHANGE_KIND`, over the input of that projection.
        keys: Columns of its PRIMARY KEY. Empty if it declares none.
    """

    kind: exp.Expr
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResultChanges(UnaryNode):
    """The changes of results of a stream that change.

    The last column is `CHANGE`, which windows, groups and ranks read, or `CHANGE_KIND`, which
    TO_CHANGELOG reads. The input is groups or ranks without a window, or windows that are emitted
    more than once.
    """

    @property
    def mark(self) -> str:
        """Name of the last column."""
        return self.schema[-1].name


@dataclass(frozen=True)
class NetRows(WindowRows):
    """The rows that remain after all changes of a table, or of one of its windows.

    The input counts them in its column `COPIES`, without rows that do not remain.
    """


def is_identified(window: Window, roles: Collection[str]) -> bool:
    """Return whether columns with these roles identify a window.

    The end does, also for RANGES: those that share it are emitted together. The start does except
    for CUMULATE and RANGES, whose windows share it. All time is one window.
    """
    if not window.closes:
        return True
    if "end" in roles or "time" in roles:
        return True
    return "start" in roles and window.start_identifies


@dataclass(frozen=True)
class AttachedWindow:
    """Windows that rows already carry, in the named columns. None for a dropped column.

    `times` are the columns that still hold times on the window's wall clock: the windows' time
    column and the window's own time. `others` are roles and names of further columns equal to
    `start`, `end` and `time`: the columns of the other side of an inner join.
    """

    spec: Window
    start: str | None
    end: str | None
    time: str | None
    times: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all these columns."""
        return tuple(dict.fromkeys((*(name for _, name in self.roles), *self.times)))

    @property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """Roles and names of the window columns, beginning with `start`, `end` and `time`."""
        named = (("start", self.start), ("end", self.end), ("time", self.time))
        return (*((role, name) for role, name in named if name is not None), *self.others)

    def role_of(self, name: str) -> str | None:
        """Return `start`, `end` or `time` if `name` is a window column, else None."""
        return _role_of(name, self.roles)


@dataclass(frozen=True)
class WindowRank(UnaryNode):
    """Window Top-N: rows of each window and key whose rank is in a range.

    Yields the input's columns, then `rank_column` (INT). Ranking needs only the rows of one window,
    so no state outlives it.

    Attributes:
        attached: Windows of the input rows.
        rank_type: ROW_NUMBER, RANK or DENSE_RANK.
        rank_start: First rank to keep, from 1.
        rank_end: Last rank to keep.
        window_columns: Window columns in PARTITION BY.
        partition_by: Names of the other columns in PARTITION BY.
        order_by: Ordering over the input's columns.
        rank_column: Name of the rank column.
        ttl_us: Time-to-live of the state of keys that are ranked over all time. None: forever.
    """

    attached: AttachedWindow
    rank_type: str
    rank_start: int
    rank_end: int
    window_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order_by: tuple[exp.Ordered, ...]
    rank_column: str
    ttl_us: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class WindowDeduplicate(UnaryNode):
    """Window deduplication: the first or last row by time of each window and key.

    Yields the input's columns, then `rank_column` (INT), which is 1.

    Attributes:
        attached: Windows of the input rows.
        window_columns: Window columns among the keys.
        partition_by: Names of the other keys.
        order_key: Time column that orders the rows.
        keep: `FirstRow` or `LastRow`.
        rank_column: Name of the rank column.
        ttl_us: See `WindowRank`.
    """

    attached: AttachedWindow
    window_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    order_key: str
    keep: str
    rank_column: str
    ttl_us: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class GapFill(UnaryNode):
    """The input's rows, with a row added for every window of a key without rows.

    Attributes:
        filling: Columns, windows and values.
        texts: Column and value of each filled column, as in FILL.
    """

    filling: GapFilling
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class VersionJoin(UnaryNode):
    """Rows of a stream, each with the version of its key that holds at its time.

    The input has the rows and the versions, in windows.

    Attributes:
        versions: Columns of the input.
        texts: Equalities of ON, for EXPLAIN.
    """

    versions: VersionJoining
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sink(UnaryNode):
    """INSERT INTO a table."""

    table: str
    overwrite: bool
