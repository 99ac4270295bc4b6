"""Rewrite LATERAL subqueries that pick the last row before a time as a merge.

    l LEFT JOIN LATERAL (SELECT v FROM r WHERE r.k = l.k AND r.ts <= l.ts
                         ORDER BY r.ts DESC LIMIT 1) AS x ON TRUE

Spark would join each row of `l` with all earlier rows of `r` and rank them. Instead, the rows of
both sides are sorted by key and time together, and each row of `l` takes the last row of `r` before
it: one exchange and one sort. The columns of a side are the fields of a struct with the side's
name, so that `l.v` and `x.*` keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.catalog import Schema
from planner.sql.build import (
    MIRRORED,
    alias,
    column,
    conjunction,
    conjuncts,
    function_call,
    has_only,
    identifier,
    is_not_null,
    literal,
    named_query,
    named_struct,
    select_all_from,
    select_items,
    star_leaves_out,
    union_all,
)
from planner.sql.nodes import WindowFunctionCall
from planner.sql.parts import has_other_parts, own_clauses

# Function that returns the columns of a query, or None if they are unknown
SchemaOf = Callable[[exp.Query], Schema | None]

_LEFT, _RIGHT, _TIME, _SIDE = "$left", "$right", "$time", "$side"
_INNER = frozenset({"expressions", "from_", "where", "order", "limit"})
# Comparison of the inner with the outer time, by sort direction: whether the end is included
_COMPARISONS = {
    True: {exp.LTE: True, exp.LT: False},
    False: {exp.GTE: True, exp.GT: False},
}
_OUTER_JOINS = ("LEFT",)


@dataclass(frozen=True)
class _Side:
    """A side of the join.

    Attributes:
        source: Relation in FROM.
        name: Name before its columns, in lower case.
        schema: Its columns.
    """

    source: exp.Expr
    name: str
    schema: Schema

    def has(self, col: exp.Column) -> bool:
        """Return whether a column belongs to this side, by its own or its table's name."""
        if len(col.parts) > 2:
            return False
        if col.table:
            return col.table.lower() == self.name
        return any(part.name.lower() == col.name.lower() for part in self.schema)


@dataclass(frozen=True)
class _Match:
    """Conditions under which rows of the two sides match.

    Attributes:
        keys: Pairs of equal expressions, left and right.
        left_time: Time of a left row.
        right_time: Time of a right row.
        is_before: Whether the last right row before is picked, rather than the first one after.
        is_inclusive: Whether a right row at the same time matches.
        filters: Conditions on right rows.
    """

    keys: tuple[tuple[exp.Expr, exp.Expr], ...]
    left_time: exp.Expr
    right_time: exp.Expr
    is_before: bool
    is_inclusive: bool
    filters: tuple[exp.Expr, ...]


def join_as_of(query: exp.Select, schema_of: SchemaOf) -> bool:
    """Rewrite, in place, the only join of a SELECT if it is a LATERAL for the nearest row.

    Args:
        query: A SELECT over bounded tables.
        schema_of: Function that returns the columns of a query.

    Returns:
        Whether the join was rewritten.
    """
    clause, joins = query.args.get("from_"), query.args.get("joins") or []
    if clause is None or len(joins) != 1 or query.args.get("laterals"):
        return False
    (join,) = joins
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or has_other_parts(clause.this):
        return False
    inner = lateral.this.this if isinstance(lateral.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not _is_plain_join(join):
        return False
    name, left_name = lateral.alias, clause.this.alias_or_name
    if not (name and left_name) or lateral.alias_column_names:
        return False
    left = _side(clause.this, schema_of)
    right = _inner_side(inner, schema_of)
    if left is None or right is None or left.name in (right.name, name.lower()):
        return False
    match = _match(inner, left, right)
    if match is None or not all(_reads_only(i, right) or i.is_star for i in inner.expressions):
        return False
    outputs = schema_of(_right_rows(inner, right, match, names_only=True))
    if outputs is None or not _can_rename(query, left, name, outputs):
        return False
    if not _have_equal_types(left, right, match, schema_of):
        return False
    merged = _merged(inner, left, right, match, keeps_all=join.side == "LEFT", name=name)
    _rename_columns(query, left, name, outputs)
    query.set("joins", None)
    query.set("from_", exp.From(this=named_query(merged, "$as_of")))
    return True


def _is_plain_join(join: exp.Join) -> bool:
    on = join.args.get("on")
    is_true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    others = (join.method, join.args.get("using"), join.args.get("pivots"))
    is_kind = join.side in ("", *_OUTER_JOINS) and join.kind in ("", "CROSS", "INNER", "OUTER")
    return is_true and is_kind and not any(others)


def _side(source: exp.Expr, schema_of: SchemaOf) -> _Side | None:
    if not isinstance(source, exp.Table | exp.Subquery | WindowFunctionCall):
        return None
    schema = schema_of(select_all_from(source.copy()))
    if schema is None or len({c.name.lower() for c in schema}) < len(schema):
        return None
    return _Side(source, source.alias_or_name.lower(), schema)


def _inner_side(inner: exp.Select, schema_of: SchemaOf) -> _Side | None:
    """Return the rows that a subquery reads, if it only filters, orders and picks one."""
    clause, limit = inner.args.get("from_"), inner.args.get("limit")
    if clause is None or has_other_parts(clause.this) or not has_only(inner, _INNER):
        return None
    count = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(count, exp.Literal) or count.name != "1":
        return None
    items = inner.expressions
    if any(aggregates_in(item) or item.find(exp.Window, exp.Query) for item in items):
        return None
    return _side(clause.this, schema_of) if clause.this.alias_or_name else None


def _match(inner: exp.Select, left: _Side, right: _Side) -> _Match | None:
    """Return how the rows match, or None if a condition has another form."""
    order = inner.args.get("order")
    if order is None or len(order.expressions) != 1:
        return None
    (ordered,) = order.expressions
    time = ordered.this
    if not isinstance(time, exp.Column) or not right.has(time):
        return None
    aliases = {i.alias.lower() for i in inner.expressions if isinstance(i, exp.Alias)}
    if not time.table and time.name.lower() in aliases:
        return None  # it is the alias
    is_before = bool(ordered.args.get("desc"))
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    filters: list[exp.Expr] = []
    times: list[tuple[exp.Expr, bool]] = []
    for condition in conjuncts(inner.args.get("where")):
        if condition.find(exp.Query):
            return None
        if _reads_only(condition, right):
            filters.append(condition)
            continue
        pair = _sides_of(condition, left, right)
        if pair is None:
            return None
        of_right, of_left, kind = pair
        if kind is exp.EQ:
            keys.append((of_left, of_right))
        elif kind in _COMPARISONS[is_before] and _is_same(of_right, time):
            times.append((of_left, _COMPARISONS[is_before][kind]))
        else:
            return None
    if len(times) != 1:
        return None
    (left_time, is_inclusive), *_ = times
    return _Match(tuple(keys), left_time, time, is_before, is_inclusive, tuple(filters))


def _sides_of(
    condition: exp.Expr, left: _Side, right: _Side
) -> tuple[exp.Expr, exp.Expr, type[exp.Expr]] | None:
    """Return the right expression, the left one, and the comparison from right to left."""
    kind = type(condition)
    if kind not in MIRRORED:
        return None
    first, second = condition.this, condition.expression
    if _reads_only(first, right) and _reads_only(second, left, but=right):
        return first, second, kind
    if _reads_only(second, right) and _reads_only(first, left, but=right):
        return second, first, MIRRORED[kind]
    return None


def _reads_only(expr: exp.Expr, side: _Side, but: _Side | None = None) -> bool:
    """Return whether an expression reads columns of one side only. Names in `but` go first."""
    columns = list(expr.find_all(exp.Column))
    is_hidden = but is not None and any(but.has(col) for col in columns)
    return not is_hidden and all(side.has(col) for col in columns)


def _is_same(one: exp.Expr, other: exp.Expr) -> bool:
    both = (one.unnest(), other.unnest())
    if not all(isinstance(part, exp.Column) for part in both):
        return False
    return both[0].name.lower() == both[1].name.lower()


def _can_rename(query: exp.Select, left: _Side, name: str, outputs: Schema) -> bool:
    """Return whether all columns of the SELECT can be read from structs.

    Otherwise Spark computes the query or reports its error.
    """
    items = query.expressions
    if not all(isinstance(i, exp.Alias | exp.Column) or i.is_star for i in items):
        return False  # Spark names an expression by its text
    if any(item.is_star and star_leaves_out(item) is None for item in items):
        return False
    right_names = {c.name.lower() for c in outputs}
    if len(right_names) < len(outputs) or any(part.find(exp.Query) for part in _parts(query)):
        return False
    left_names = {c.name.lower() for c in left.schema}
    aliases = {item.alias.lower() for item in items if isinstance(item, exp.Alias)}
    for col in (col for part in _parts(query) for col in part.find_all(exp.Column)):
        lower, table = col.name.lower(), col.table.lower()
        if col.is_star or len(col.parts) > 2:
            if len(col.parts) > 2 or table not in (left.name, name.lower()):
                return False
        elif table:
            names = {left.name: left_names, name.lower(): right_names}.get(table)
            if names is None or lower not in names:
                return False
        elif (lower in left_names) == (lower in right_names) and lower not in aliases:
            return False
    return True


def _parts(query: exp.Select) -> list[exp.Expr]:
    """Return the clauses of a SELECT except its relations."""
    return [part for part in own_clauses(query) if part.arg_key != "joins"]


def _right_rows(
    inner: exp.Select, right: _Side, match: _Match, *, names_only: bool = False
) -> exp.Select:
    """Return the rows of the right side with the columns of the subquery."""
    items = [item.copy() for item in inner.expressions]
    if not names_only:
        items += [alias(of_right, f"$key{n}") for n, (_, of_right) in enumerate(match.keys)]
        items.append(alias(match.right_time, _TIME))
    needed = [match.right_time, *(of_right for _, of_right in match.keys)]
    where = conjunction([*match.filters, *map(is_not_null, needed)])
    clause = None if where is None else exp.Where(this=where)
    return select_items(items, right.source.copy(), where=clause)


def _have_equal_types(left: _Side, right: _Side, match: _Match, schema_of: SchemaOf) -> bool:
    """Return whether keys and times of the sides have the same types."""
    pairs = [*match.keys, (match.left_time, match.right_time)]
    types = []
    for side, place in ((left, 0), (right, 1)):
        items = [alias(pair[place], f"$value{n}") for n, pair in enumerate(pairs)]
        schema = schema_of(select_items(items, side.source.copy()))
        types.append(None if schema is None else [c.type for c in schema])
    return types[0] is not None and types[0] == types[1]


def _merged(
    inner: exp.Select, left: _Side, right: _Side, match: _Match, *, keeps_all: bool, name: str
) -> exp.Select:
    """Return each left row with its right row, both as structs."""
    n_keys = len(match.keys)
    keys = [f"$key{n}" for n in range(n_keys)]
    left_name = left.source.alias_or_name
    of_left = select_items(
        [
            alias(named_struct(**{c.name: column(c.name, left_name) for c in left.schema}), _LEFT),
            alias(exp.Null(), _RIGHT),
            *(alias(expr, key) for key, (expr, _) in zip(keys, match.keys, strict=True)),
            alias(match.left_time, _TIME),
            alias(literal(1), _SIDE),
        ],
        left.source.copy(),
    )
    rows = _right_rows(inner, right, match)
    # the columns of the subquery, without the keys and the time
    whole = function_call("STRUCT", exp.Star(except_=[*map(identifier, keys), identifier(_TIME)]))
    of_right = select_items(
        [
            alias(exp.Null(), _LEFT),
            alias(whole, _RIGHT),
            *map(column, keys),
            column(_TIME),
            # At equal times, sort first the row that the other one may match.
            alias(literal(0 if match.is_inclusive else 2), _SIDE),
        ],
        exp.Subquery(this=rows),
    )
    both = exp.Subquery(this=union_all([of_left, of_right]))
    ordered = [
        exp.Ordered(this=column(_TIME), desc=not match.is_before, nulls_first=True),
        exp.Ordered(this=column(_SIDE), desc=False, nulls_first=True),
    ]
    last = exp.Window(
        this=function_call("LAST", column(_RIGHT), exp.true()),
        partition_by=[column(key) for key in keys],
        order=exp.Order(expressions=ordered),
        spec=exp.WindowSpec(
            kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"
        ),
        over="OVER",
    )
    taken = select_items([column(_LEFT), alias(last, _RIGHT), column(_SIDE)], both)
    conditions: Sequence[exp.Expr] = [exp.EQ(this=column(_SIDE), expression=literal(1))]
    if not keeps_all:
        conditions = [*conditions, is_not_null(column(_RIGHT))]
    items = [alias(column(_LEFT), left_name), alias(column(_RIGHT), name)]
    where = exp.Where(this=conjunction(conditions))
    return select_items(items, exp.Subquery(this=taken), where=where)


def _table_of(name: exp.Expr) -> str:
    """Return the table of a name in EXCEPT, empty without one."""
    return name.table if isinstance(name, exp.Column) else ""


def _rename_columns(query: exp.Select, left: _Side, name: str, outputs: Schema) -> None:
    """Rewrite unqualified columns and stars to read the structs."""
    left_name = left.source.alias_or_name
    left_names = {c.name.lower() for c in left.schema}
    right_names = {c.name.lower() for c in outputs}
    items: list[exp.Expr] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            for side, names in ((left_name, left_names), (name, right_names)):
                left_out = [
                    identifier(out.name)
                    for out in item.args.get("except_") or ()
                    if _table_of(out).lower() in ("", side.lower()) and out.name.lower() in names
                ]
                star = exp.Star(except_=left_out) if left_out else exp.Star()
                items.append(exp.Column(this=star, table=identifier(side)))
        else:
            items.append(item)
    query.set("expressions", items)
    aliases = {item.alias.lower() for item in items if isinstance(item, exp.Alias)}
    for part in _parts(query):
        for col in list(part.find_all(exp.Column)):
            lower = col.name.lower()
            if col.table or isinstance(col.this, exp.Star):
                continue
            if part.arg_key != "expressions" and lower in aliases:
                continue
            if (lower in left_names) != (lower in right_names):
                side = left_name if lower in left_names else name
                col.set("table", identifier(side))
