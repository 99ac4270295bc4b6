"""Clauses and constructors of Flink's that Spark has not, or writes another way."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.build import function_call, literal

# Gives Spark's type of an expression over the rows of a SELECT
TypeOf = Callable[[exp.Expr], str]

_CONSTRUCTORS = ("ARRAY", "MAP")


def rewrite_clauses(tree: exp.Expr) -> bool:
    """Write Flink's clauses and constructors as Spark's, in the tree itself; True if any were.

    `ARRAY[1, 2]`, `MAP['a', 1]`, `ROW(1, 2)`, `VALUES ROW(1, 2)`, `LATERAL TABLE(f(x))`. Those that
    sqlglot's own generator writes as Spark's count as well: `FETCH FIRST n ROWS ONLY`,
    `BETWEEN SYMMETRIC`, UNNEST (see `unnest`).
    """
    found = False
    # the inner ones first, as arguments are copied
    for node in reversed(list(tree.find_all(*_REWRITTEN))):
        new = _rewritten(node)
        if new is node:
            continue
        found = True
        if new is not None:
            new.meta.update(node.meta)
            node.replace(new)
    return found


_REWRITTEN = (
    exp.Anonymous,
    exp.Between,
    exp.Bracket,
    exp.Fetch,
    exp.Lateral,
    exp.Unnest,
)


def _rewritten(node: exp.Expr) -> exp.Expr | None:
    """What to write in its place; None: the same node, but not as the user wrote it."""
    match node:
        case exp.Bracket() if (name := _constructor(node)) is not None:
            return function_call(name, *node.expressions)
        case exp.Anonymous() if _is_row(node):
            values = node.parent
            if isinstance(values, exp.Tuple) and isinstance(values.parent, exp.Values):
                values.set("expressions", node.expressions)
                return None
            # STRUCT would call the fields as columns are called, so that two rows are of two types
            named = ((literal(f"f{i}"), field) for i, field in enumerate(node.expressions))
            return function_call("NAMED_STRUCT", *(each for pair in named for each in pair))
        case exp.Lateral(this=exp.Anonymous() as table) if (
            not node.args.get("view")
            and table.name.upper() == "TABLE"
            and len(table.expressions) == 1
        ):
            table.replace(table.expressions[0])
            return None
        case exp.Fetch() | exp.Unnest():
            return None
        case exp.Between() if node.args.get("symmetric") is not None:
            return None
    return node


def _is_row(call: exp.Anonymous) -> bool:
    return call.name.upper() == "ROW" and bool(call.expressions)


def _constructor(node: exp.Bracket) -> str | None:
    """The word of `ARRAY[1, 2]` or `MAP[k, v]`; None for the element of an array.

    A column may be called `array`, so that one value in brackets is its element unless the word
    is in capitals, as the word of a grammar.
    """
    word = node.this
    if not isinstance(word, exp.Column) or word.table or word.this.quoted:
        return None
    name: str = word.name
    is_list = len(node.expressions) > 1 or name == "ARRAY"
    return name if name.upper() in _CONSTRUCTORS and is_list else None


def unnest(select: exp.Select, type_of: TypeOf) -> bool:
    """Write joins with `UNNEST(...)` as LATERAL VIEW, in the SELECT itself; True if there were any.

    An array of rows gives a column for each field, a map two; WITH ORDINALITY counts from 1.
    LEFT JOIN keeps rows whose array is empty or NULL.

    Args:
        select: the SELECT; its subqueries are left out.
        type_of: gives Spark's type of an expression over its rows.
    """
    joins = [join for join in select.args.get("joins") or () if _is_unnesting(join)]
    for join in joins:
        join.pop()
    for join in joins:
        call, alias = join.this, join.this.args.get("alias")
        names = list(alias.columns) if alias else []
        place = call.args.get("offset")
        if isinstance(place, exp.Identifier):
            names.append(place)
        view = exp.Lateral(
            this=_rows_of(call.expressions[0], len(names), bool(place), type_of),
            view=True,
            outer=join.side == "LEFT",
            alias=exp.TableAlias(
                this=alias.this if alias and alias.this else exp.to_identifier("unnested"),
                columns=names,
            ),
        )
        select.append("laterals", view)
    return bool(joins)


def _is_unnesting(join: exp.Join) -> bool:
    on = join.args.get("on")
    is_plain = on is None or (isinstance(on, exp.Boolean) and on.this)
    return isinstance(join.this, exp.Unnest) and is_plain and join.side in ("", "LEFT")


def _rows_of(value: exp.Expr, n_names: int, has_place: bool, type_of: TypeOf) -> exp.Expr:
    """The function that makes rows of an array or a map."""
    if has_place:
        element, place = exp.to_identifier("element"), exp.to_identifier("place")
        counted = exp.Add(this=exp.Column(this=place.copy()), expression=literal(1))
        row = function_call("STRUCT", exp.Column(this=element.copy()), counted)
        pairs = exp.Lambda(this=row, expressions=[element, place])
        return function_call("INLINE", function_call("TRANSFORM", value, pairs))
    is_of_rows = n_names > 1 and type_of(value).startswith("array<")
    return function_call("INLINE" if is_of_rows else "EXPLODE", value)
