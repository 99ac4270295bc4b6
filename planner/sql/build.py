"""Builders and accessors for Spark SQL as sqlglot trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.render import SparkSql

# Types that the Arrow scan, the exchange and the global stage support. Spark keeps nested types,
# intervals, and strings with a collation, whose equality is not bytewise.
_FLAT_TYPES = frozenset(
    "tinyint smallint int bigint float double string binary boolean date timestamp "
    "timestamp_ntz".split()
)
_MAX_DECIMAL_DIGITS = 38


def is_flat_type(type_: str) -> bool:
    """Return whether Arrow and the exchange support this Spark type."""
    return type_ in _FLAT_TYPES or type_.startswith("decimal")


def decimal_type(node: exp.DataType) -> str | None:
    """Return the Spark type `decimal(p,s)` of a written DECIMAL. None: Spark has no such type."""
    digits = [part.name for part in node.expressions] or ["10"]
    if not all(map(str.isdecimal, digits)):
        return None
    precision, scale = (*map(int, digits), 0)[:2]
    is_valid = precision > 0 and scale <= precision <= _MAX_DECIMAL_DIGITS
    return f"decimal({precision},{scale})" if is_valid else None


def is_timestamp(type_: str) -> bool:
    """Return whether windows can be assigned by a column of this type."""
    return type_ in ("timestamp", "timestamp_ntz")


def item_name(item: exp.Expr) -> str:
    """Return the name of an item of a select list, "" for an expression without one.

    sqlglot names an expression by its first part: `1 + 1` by 1, `MAX(v)` by MAX.

    Example:
        >>> from sqlglot import parse_one
        >>> [item_name(item) for item in parse_one("SELECT t.a, a AS b, 1 + 1").selects]
        ['a', 'b', '']
    """
    has_name = isinstance(item, exp.Alias | exp.Column | exp.Dot | exp.Star)
    return item.alias_or_name if has_name else item.alias


def to_sql(node: exp.Expr) -> str:
    """Render a tree as Spark SQL."""
    return node.sql(dialect=SparkSql)


def identifier(name: str) -> exp.Identifier:
    """Build a quoted identifier, which preserves the name exactly."""
    return exp.Identifier(this=name, quoted=True)


def column(name: str, table: str | None = None) -> exp.Column:
    """Build a column, by default an unqualified one."""
    return exp.Column(this=identifier(name), table=None if table is None else identifier(table))


def literal(value: int | str) -> exp.Expr:
    """Build a number or string literal."""
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)


def is_number_literal(expr: exp.Expr) -> bool:
    """Return whether the expression is an unsigned number literal."""
    return isinstance(expr, exp.Literal) and not expr.is_string


def function_call(name: str, *args: exp.Expr) -> exp.Expr:
    """Build a call of a Spark function."""
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def named_struct(**fields: exp.Expr) -> exp.Expr:
    """Build `NAMED_STRUCT('name', value, ...)`."""
    parts = [part for name, value in fields.items() for part in (literal(name), value)]
    return function_call("NAMED_STRUCT", *parts)


def operand(expr: exp.Expr) -> exp.Expr:
    """Return a copy of an expression as an operand, in parentheses if it may bind more loosely."""
    is_call = isinstance(expr, exp.Func) and not isinstance(expr, exp.Binary)
    is_plain = is_call or isinstance(expr, exp.Column | exp.Literal | exp.Paren)
    return expr.copy() if is_plain else exp.Paren(this=expr.copy())


def is_not_null(value: exp.Expr) -> exp.Expr:
    """Build `NOT value IS NULL`.

    Conditions bind more loosely than IS and get parentheses.
    """
    operand = value.copy()
    if isinstance(operand, exp.Connector | exp.Not | exp.Predicate):
        operand = exp.Paren(this=operand)
    return exp.Not(this=exp.Is(this=operand, expression=exp.Null()))


def alias(expr: exp.Expr, name: str) -> exp.Alias:
    """Build `expr AS name`."""
    return exp.Alias(this=expr.copy(), alias=identifier(name))


def relation(*name: str) -> exp.Table:
    """Build a table reference from name parts: [[catalog,] database,] table."""
    parts = map(identifier, reversed(name))
    return exp.Table(**dict(zip(("this", "db", "catalog"), parts, strict=False)))


def has_only(node: exp.Expr, keys: Collection[str]) -> bool:
    """Return whether a node has no arguments, such as clauses of a SELECT, besides `keys`."""
    return not any(value for key, value in node.args.items() if key not in keys)


def replace_call(call: exp.Expr, new: exp.Expr) -> None:
    """Replace a call by a tree. An unnamed item of a SELECT is aliased by its original text."""
    if isinstance(call.parent, exp.Select) and call.arg_key == "expressions":
        new = alias(new, to_sql(call))
    call.replace(new)


def with_wrappers(call: exp.Expr) -> exp.Expr:
    """Return the outermost of a call's FILTER, RESPECT NULLS and OVER."""
    wrappers = exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.Window
    while isinstance(call.parent, wrappers) and call.arg_key == "this":
        call = call.parent
    return call


def is_whole_star(expr: exp.Expr) -> bool:
    """Return whether the expression is `*` without EXCEPT or the like."""
    return isinstance(expr, exp.Star) and not any(expr.args.values())


def star_leaves_out(expr: exp.Expr) -> frozenset[str] | None:
    """Return the lower-case names excluded by `* EXCEPT (...)` or `t.* EXCEPT (...)`.

    None if the star has other modifiers, such as REPLACE.
    """
    star = expr.this if isinstance(expr, exp.Column) else expr
    if any(value for key, value in star.args.items() if key != "except_"):
        return None
    return frozenset(part.name.lower() for part in star.args.get("except_") or ())


def select_items(
    items: Iterable[exp.Expr], source: exp.Expr, **clauses: exp.Expr | None
) -> exp.Select:
    """Build `SELECT items FROM source`, with further clauses."""
    return exp.Select(expressions=list(items), from_=exp.From(this=source), **clauses)


def select_all_from(source: exp.Expr) -> exp.Select:
    """Build `SELECT * FROM source`."""
    return select_items([exp.Star()], source)


def named_query(query: exp.Query, name: str) -> exp.Subquery:
    """Build `(query) AS name`."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(name)))


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """Combine the queries with UNION ALL."""
    first, *others = queries
    for query in others:
        first = exp.Union(this=first, expression=query, distinct=False)
    return first


# Comparisons of order, by their signs
COMPARISONS: dict[str, type[exp.Binary]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
# Comparisons after swapping their sides
MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}

# From the narrowest
INTEGERS = ("tinyint", "smallint", "int", "bigint")

# Values that are not NULL, by type
_PRESENT = {
    "binary": "X''",
    "boolean": "FALSE",
    "date": "DATE '1970-01-01'",
    "string": "''",
    "timestamp": "TIMESTAMP_LTZ '1970-01-01 00:00:00'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
}
_NUMBERS = (*INTEGERS, "float", "double", "decimal")


def empty_relation(schema: Schema) -> exp.Subquery:
    """Build an empty subquery with the columns of `schema`, for analysis.

    A column of a flat type may be NULL only if it may in `schema`.
    """
    items: list[exp.Expr] = [
        exp.Alias(this=_value(c.type, c.nullable), alias=identifier(c.name)) for c in schema
    ]
    nothing = exp.Where(this=exp.false())
    return exp.Subquery(this=exp.Select(expressions=items, where=nothing))


def _value(type_: str, may_be_null: bool) -> exp.Expr:
    if not may_be_null and type_ in _PRESENT:
        return exp.Var(this=_PRESENT[type_])
    is_number = type_.partition("(")[0] in _NUMBERS
    value = exp.Null() if may_be_null or not is_number else literal(0)
    return cast_as(value, type_)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the operands of the top-level ANDs of a condition or WHERE clause."""
    if isinstance(condition, exp.Where):
        condition = condition.this
    rest = [] if condition is None else [condition]
    while rest:
        part = rest.pop().unnest()
        if isinstance(part, exp.And):
            rest += [part.expression, part.this]
        else:
            yield part


def conjunction(parts: Iterable[exp.Expr | None]) -> exp.Expr | None:
    """Combine the parts that are not None with AND, or return None without any."""
    result: exp.Expr | None = None
    for part in parts:
        if part is None:
            continue
        operand = exp.Paren(this=part.copy()) if isinstance(part, exp.Connector) else part.copy()
        result = operand if result is None else exp.And(this=result, expression=operand)
    return result


def column_names(node: exp.Expr) -> frozenset[str]:
    """Return the lower-case names of the columns that an expression reads.

    `a.b` may be field b of column a, so both names count.
    """
    names: set[str] = set()
    for col in node.find_all(exp.Column):
        names.update(part.name.lower() for part in col.parts)
    return frozenset(names)


def bare_column(node: exp.Expr) -> str | None:
    """Return the column's name if the expression is a column and nothing else."""
    node = node.unnest()
    return node.name if isinstance(node, exp.Column) and not node.table else None


def cast_as(value: exp.Expr, type_: str) -> exp.Expr:
    """Build CAST(value AS type)."""
    # sqlglot may not know Spark's spelling of other types
    is_known = is_flat_type(type_.lower())
    to = exp.DataType.build(type_, dialect=SparkSql) if is_known else exp.Var(this=type_)
    return exp.Cast(this=value, to=to)


def case_when(condition: exp.Expr, value: exp.Expr, default: exp.Expr | None = None) -> exp.Case:
    """Build `CASE WHEN condition THEN value ELSE default END`."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=default)


def seconds(count: str) -> exp.Interval:
    """Build `INTERVAL 'count' SECOND`."""
    return exp.Interval(this=literal(count), unit=exp.var("SECOND"))


def last_time_before(end: str) -> exp.Expr:
    """Build the time of a window from the column with its end, a millisecond later."""
    return exp.Sub(this=column(end), expression=seconds("0.001"))
