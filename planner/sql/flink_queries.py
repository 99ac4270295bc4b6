"""Translation of Flink clauses and constructors that Spark lacks or spells differently."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.build import function_call, literal
from planner.sql.nodes import error_at
from runtime.errors import AnalysisError

# Function that returns Spark's type of an expression over the rows of a SELECT
TypeOf = Callable[[exp.Expr], str]

_CONSTRUCTORS = ("ARRAY", "MAP")
# In `meta` of a LATERAL VIEW: its function depends on the type of the unnested value
_BY_TYPE = "by_type"


def rewrite_clauses(tree: exp.Expr, sql: str | None) -> bool:
    """Replace Flink clauses and constructors by Spark's, in place; return whether there were any.

    Handles `ARRAY[1, 2]`, `MAP['a', 1]`, `ROW(1, 2)`, `VALUES ROW(1, 2)`, `LATERAL TABLE(f(x))` and
    UNNEST. `FETCH FIRST n ROWS ONLY` and `BETWEEN SYMMETRIC` count as well; the generator renders
    them for Spark.

    Args:
        tree: A query, or an expression with a parent.
        sql: Text from which it was parsed, for errors. None if that is not the statement's text.

    Raises:
        AnalysisError: Spark has no equivalent.
    """
    changed = False
    # Inner nodes first, because arguments are copied.
    for node in reversed(list(tree.find_all(*_REWRITTEN))):
        new = _rewrite(node, sql)
        if new is node:
            continue
        changed = True
        if new is not None:
            new.meta.update(node.meta)
            node.replace(new)
    for select in list(tree.find_all(exp.Select)):
        changed |= _unnest(select, sql)
    return changed


_REWRITTEN = (exp.Anonymous, exp.Between, exp.Bracket, exp.Fetch, exp.Lateral)


def _rewrite(node: exp.Expr, sql: str | None) -> exp.Expr | None:
    """Return the replacement, or None if only the spelling of the node changes."""
    match node:
        case exp.Bracket() if (name := _constructor(node)) is not None:
            return function_call(name, *node.expressions)
        case exp.Anonymous() if _is_row(node):
            values = node.parent
            if isinstance(values, exp.Tuple) and isinstance(values.parent, exp.Values):
                values.set("expressions", node.expressions)
                return None
            # STRUCT would name the fields after columns, so that two rows would have different
            # types.
            named = ((literal(f"f{i}"), field) for i, field in enumerate(node.expressions))
            return function_call("NAMED_STRUCT", *(part for pair in named for part in pair))
        case exp.Lateral(this=exp.Anonymous() as table) if (
            not node.args.get("view")
            and table.name.upper() == "TABLE"
            and len(table.expressions) == 1
        ):
            table.replace(table.expressions[0])
            return None
        case exp.Fetch():
            options = node.args.get("limit_options")
            if options and (options.args.get("percent") or options.args.get("with_ties")):
                raise _error(
                    "FETCH requires a number of rows: FETCH FIRST n ROWS ONLY",
                    node.args["count"],
                    sql,
                    "use RANK() <= n for rows with equal values, or PERCENT_RANK() for "
                    "a share of the rows",
                )
            return None
        case exp.Between() if node.args.get("symmetric") is not None:
            return None
    return node


def _error(message: str, place: exp.Expr, sql: str | None, hint: str) -> AnalysisError:
    if sql is None:
        return AnalysisError(message, hint=hint)
    return error_at(sql, message, place, hint=hint)


def _is_row(call: exp.Anonymous) -> bool:
    return call.name.upper() == "ROW" and bool(call.expressions)


def _constructor(node: exp.Bracket) -> str | None:
    """Return the keyword of `ARRAY[1, 2]` or `MAP[k, v]`, or None for access to an array element.

    A column may be called `array`. A single value in brackets is therefore an element access,
    unless the word is in upper case like a keyword.
    """
    word = node.this
    if not isinstance(word, exp.Column) or word.table or word.this.quoted:
        return None
    name: str = word.name
    is_list = len(node.expressions) > 1 or name == "ARRAY"
    return name if name.upper() in _CONSTRUCTORS and is_list else None


def _unnest(select: exp.Select, sql: str | None) -> bool:
    """Replace `UNNEST(...)` in FROM by Spark functions, in place; return whether there was any.

    A joined UNNEST becomes a LATERAL VIEW, which comes after all joins. LEFT JOIN keeps rows whose
    array is empty or NULL.
    """
    changed = False
    source = select.args.get("from_")
    if source is not None and isinstance(source.this, exp.Unnest):
        rows, alias = _generator_of(source.this, sql)
        source.set("this", exp.Table(this=rows, alias=alias))
        changed = True
    joins: list[exp.Join] = list(select.args.get("joins") or ())
    for i, join in enumerate(joins):
        if not isinstance(join.this, exp.Unnest):
            continue
        if not _is_plain(join):
            raise _error(
                "UNNEST supports CROSS JOIN, and JOIN or LEFT JOIN with ON TRUE",
                join.this,
                sql,
                "move the condition into WHERE",
            )
        if any(not isinstance(later.this, exp.Unnest) for later in joins[i + 1 :]):
            raise _error(
                "UNNEST must be the last join",
                join.this,
                sql,
                "move UNNEST behind all joins, or into a subquery",
            )
        rows, alias = _generator_of(join.this, sql)
        view = exp.Lateral(this=rows, view=True, outer=join.side == "LEFT", alias=alias)
        view.meta[_BY_TYPE] = len(alias.columns) > 1 and not join.this.args.get("offset")
        join.pop()
        select.append("laterals", view)
        changed = True
    return changed


def _is_plain(join: exp.Join) -> bool:
    on = join.args.get("on")
    return (
        (on is None or (isinstance(on, exp.Boolean) and on.this))
        and join.side in ("", "LEFT")
        and join.kind in ("", "CROSS", "INNER", "OUTER")
        and not join.method
        and not join.args.get("using")
    )


def _generator_of(call: exp.Unnest, sql: str | None) -> tuple[exp.Expr, exp.TableAlias]:
    """Return the function that generates rows from an array or a map, and the alias.

    An array of rows yields a column per field, a map two. WITH ORDINALITY counts from 1.
    """
    if len(call.expressions) != 1:
        raise _error("UNNEST takes one array or map", call, sql, "join several UNNEST")
    value, alias, place = call.expressions[0], call.args.get("alias"), call.args.get("offset")
    names = list(alias.columns) if alias else []
    name = alias.this if alias and alias.this else exp.to_identifier("unnested")
    function = "EXPLODE"
    if place:
        if isinstance(place, exp.Identifier):
            names.append(place)
        element, index = exp.to_identifier("element"), exp.to_identifier("place")
        number = exp.Add(this=exp.Column(this=index.copy()), expression=literal(1))
        row = function_call("STRUCT", exp.Column(this=element.copy()), number)
        pairs = exp.Lambda(this=row, expressions=[element, index])
        function, value = "INLINE", function_call("TRANSFORM", value, pairs)
    elif len(names) > 1 and not (isinstance(value, exp.Anonymous) and value.name.upper() == "MAP"):
        function = "INLINE"
    return function_call(function, value), exp.TableAlias(this=name, columns=names)


def unnest_maps(select: exp.Select, type_of: TypeOf) -> None:
    """Make UNNEST of map columns return keys and values, which `rewrite_clauses` cannot decide.

    Args:
        select: A SELECT processed by `rewrite_clauses`. Its subqueries are skipped.
        type_of: Function that returns Spark's type of an expression over its rows.
    """
    views = list(select.args.get("laterals") or ())
    if not any(view.meta.get(_BY_TYPE) for view in views):
        return
    select.set("laterals", [])
    for view in views:
        if view.meta.pop(_BY_TYPE, False) and type_of(view.this.expressions[0]).startswith("map<"):
            view.this.set("this", "EXPLODE")
        select.append("laterals", view)
