"""Small builders and readers for Spark SQL as sqlglot trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.render import SparkSql

# Types that the Arrow scan, the exchange and the global stage handle. Nested types and intervals
# stay in Spark, and so do strings with a collation of their own, whose equality is not that of
# their bytes.
_FLAT_TYPES = frozenset(
    "tinyint smallint int bigint float double string binary boolean date timestamp "
    "timestamp_ntz".split()
)


def is_flat_type(type_: str) -> bool:
    """Whether values of this Spark type are evaluated by Arrow and travel through the exchange."""
    return type_ in _FLAT_TYPES or type_.startswith("decimal")


def is_timestamp(type_: str) -> bool:
    """Whether windows can be put on a column of this type."""
    return type_ in ("timestamp", "timestamp_ntz")


def to_sql(node: exp.Expr) -> str:
    """Spark SQL text of a tree."""
    return node.sql(dialect=SparkSql)


def identifier(name: str) -> exp.Identifier:
    """A quoted identifier: names are taken as they are."""
    return exp.Identifier(this=name, quoted=True)


def column(name: str) -> exp.Column:
    """A column by its name alone."""
    return exp.Column(this=identifier(name))


def literal(value: int | str) -> exp.Expr:
    """A number or a string."""
    return exp.Literal.string(value) if isinstance(value, str) else exp.Literal.number(value)


def is_number_literal(expr: exp.Expr) -> bool:
    """Whether it is a number as it is written, without a sign."""
    return isinstance(expr, exp.Literal) and not expr.is_string


def function_call(name: str, *args: exp.Expr) -> exp.Expr:
    """A call of one of Spark's functions."""
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def named_struct(**fields: exp.Expr) -> exp.Expr:
    """`NAMED_STRUCT('name', value, ...)`."""
    parts = [part for name, value in fields.items() for part in (literal(name), value)]
    return function_call("NAMED_STRUCT", *parts)


def is_not_null(value: exp.Expr) -> exp.Expr:
    """`NOT value IS NULL`; conditions, which bind more loosely than IS, in parentheses."""
    operand = value.copy()
    if isinstance(operand, exp.Connector | exp.Not | exp.Predicate):
        operand = exp.Paren(this=operand)
    return exp.Not(this=exp.Is(this=operand, expression=exp.Null()))


def alias(expr: exp.Expr, name: str) -> exp.Alias:
    """`expr AS name`."""
    return exp.Alias(this=expr.copy(), alias=identifier(name))


def relation(*name: str) -> exp.Table:
    """A relation by its name, from the catalog to the table; less of it is enough."""
    parts = map(identifier, reversed(name))
    return exp.Table(**dict(zip(("this", "db", "catalog"), parts, strict=False)))


def has_only(node: exp.Expr, keys: Collection[str]) -> bool:
    """Whether a node has no other arguments, such as clauses of a SELECT, than these."""
    return not any(value for key, value in node.args.items() if key not in keys)


def replace_call(call: exp.Expr, new: exp.Expr) -> None:
    """Put a tree in the place of a call; what is an item of a SELECT keeps its text for a name."""
    if isinstance(call.parent, exp.Select) and call.arg_key == "expressions":
        new = alias(new, to_sql(call))
    call.replace(new)


def is_whole_star(expr: exp.Expr) -> bool:
    """Whether it is `*` and nothing more, such as EXCEPT."""
    return isinstance(expr, exp.Star) and not any(expr.args.values())


def star_leaves_out(expr: exp.Expr) -> frozenset[str] | None:
    """The names that `* EXCEPT (...)` or `t.* EXCEPT (...)` leaves out, in lower case.

    None if it does more than that, such as REPLACE.
    """
    star = expr.this if isinstance(expr, exp.Column) else expr
    if any(value for key, value in star.args.items() if key != "except_"):
        return None
    return frozenset(part.name.lower() for part in star.args.get("except_") or ())


def select_all_from(source: exp.Expr) -> exp.Select:
    """`SELECT * FROM source`."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """The rows of all of them."""
    first, *others = queries
    for query in others:
        first = exp.Union(this=first, expression=query, distinct=False)
    return first


def empty_relation(schema: Schema) -> exp.Subquery:
    """A subquery without rows that has the columns and types of `schema`, for analysis alone."""
    items: list[exp.Expr] = [
        exp.Alias(
            # the type as Spark spells it, which need not be one that sqlglot knows
            this=exp.Cast(this=exp.Null(), to=exp.Var(this=c.type)),
            alias=identifier(c.name),
        )
        for c in schema
    ]
    nothing = exp.Where(this=exp.false())
    return exp.Subquery(this=exp.Select(expressions=items, where=nothing))


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition, or of a WHERE clause, that are joined by AND."""
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
    """The parts that are not None joined by AND; None where there are none."""
    result: exp.Expr | None = None
    for part in parts:
        if part is None:
            continue
        operand = exp.Paren(this=part.copy()) if isinstance(part, exp.Connector) else part.copy()
        result = operand if result is None else exp.And(this=result, expression=operand)
    return result


def column_names(node: exp.Expr) -> frozenset[str]:
    """Names of the columns that an expression reads, in lower case.

    `a.b` may be field b of column a, so both names count.
    """
    names: set[str] = set()
    for col in node.find_all(exp.Column):
        names.update(part.name.lower() for part in col.parts)
    return frozenset(names)


def bare_column(node: exp.Expr) -> str | None:
    """The name, if the expression is one column and nothing else."""
    node = node.unnest()
    return node.name if isinstance(node, exp.Column) and not node.table else None


def cast_as(value: exp.Expr, type_: str) -> exp.Expr:
    """CAST(value AS type)."""
    return exp.Cast(this=value, to=exp.Var(this=type_))
