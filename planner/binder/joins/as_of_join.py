"""Rewrite ASOF JOIN as a join with a LATERAL subquery, which `join_as_of` turns into a merge.

Two forms are read:

    l ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k     -- Snowflake
    l ASOF [LEFT] JOIN r ON l.k = r.k AND l.ts >= r.ts            -- DuckDB; also USING (k, ts)

As in these systems, the first form keeps rows without a match and the second one drops them without
LEFT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.build import conjunction, conjuncts, identifier, select_all_from
from planner.sql.nodes import error_at, span_of
from planner.streams.refusals import BATCH, StreamRefusal

# Comparison of the left with the right side: whether the last right row before matches
_IS_BEFORE: dict[type[exp.Expr], bool] = {
    exp.GTE: True,
    exp.GT: True,
    exp.LTE: False,
    exp.LT: False,
}
_EXAMPLE = "for example a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"


@dataclass(frozen=True)
class _Sides:
    """The sides of an ASOF JOIN.

    Attributes:
        right: Name of the right side, in lower case.
        right_columns: Lower-case column names of the right side. None if unknown.
        left: The lower-case column names of each relation on the left side, by its name.
    """

    right: str
    right_columns: frozenset[str] | None
    left: dict[str, frozenset[str] | None]

    def reads_right(self, column: exp.Column) -> bool:
        """Return whether a column is one of the right side."""
        if column.table:
            return column.table.lower() == self.right
        return self.right_columns is None or column.name.lower() in self.right_columns

    def is_ambiguous(self, column: exp.Column) -> bool:
        """Return whether both sides have a column of this name, and it names no table."""
        name = column.name.lower()
        return (
            not column.table
            and name in (self.right_columns or ())
            and any(name in (names or ()) for names in self.left.values())
        )


def rewrite_as_of_joins(
    select: exp.Select,
    schema_of: Callable[[exp.Query], Schema | None],
    sql: str,
    *,
    reads_streams: bool,
) -> bool:
    """Rewrite, in place, every ASOF JOIN of a SELECT.

    Args:
        select: The SELECT.
        schema_of: Function that returns the columns of a query, or None if it is invalid.
        sql: Text of the statement.
        reads_streams: Whether it reads a stream.

    Returns:
        Whether it has one.

    Raises:
        AnalysisError: The join is of another kind, or compares no times.
        StreamRefusal: It reads a stream.
    """
    clause = select.args.get("from_")
    joins: list[exp.Join] = select.args.get("joins") or []
    if clause is None or not any(join.method == "ASOF" for join in joins):
        return False

    def names_of(source: exp.Expr) -> frozenset[str] | None:
        if isinstance(source, exp.Lateral):
            return None
        schema = schema_of(select_all_from(source.copy()))
        return None if schema is None else frozenset(c.name.lower() for c in schema)

    left = {clause.this.alias_or_name.lower(): names_of(clause.this)}
    for join in joins:
        name, names = join.this.alias_or_name.lower(), names_of(join.this)
        if join.method == "ASOF":
            if reads_streams:
                refusal = StreamRefusal(
                    "ASOF JOIN is not supported on a stream",
                    "use FOR SYSTEM_TIME AS OF and a bounded table with a PRIMARY KEY; " + BATCH,
                    span_of(join.this),
                )
                raise refusal.place_in(sql)
            _rewrite(join, _Sides(name, names, left), sql)
        left = {**left, name: names}
    return True


def _rewrite(join: exp.Join, sides: _Sides, sql: str) -> None:
    match = join.args.get("match_condition")
    place = match or join.args.get("on") or join.this
    if not sides.right:
        hint = "write ASOF JOIN (...) AS b"
        raise error_at(sql, "the right side of ASOF JOIN needs a name", place, hint=hint)
    if join.side not in ("", "LEFT") or join.kind not in ("", "INNER", "OUTER"):
        words = " ".join(filter(None, (join.side, join.kind)))
        hint = "use ASOF JOIN or ASOF LEFT JOIN, with the rows to keep on the left side"
        raise error_at(sql, f"ASOF {words} JOIN is not supported", place, hint=hint)
    merged = [name.name for name in join.args.get("using") or ()]
    parts = [*conjuncts(match), *conjuncts(join.args.get("on"))]
    for number, name in enumerate(merged):
        is_time = match is None and number == len(merged) - 1
        equal = exp.GTE if is_time else exp.EQ
        of_right = exp.Column(this=identifier(name), table=identifier(join.this.alias_or_name))
        parts.append(equal(this=_left_column(name, sides, sql, place), expression=of_right))
    for part in parts:
        for column in part.find_all(exp.Column):
            if sides.is_ambiguous(column):
                raise error_at(
                    sql,
                    f"column `{column.name}` is in both sides of ASOF JOIN",
                    column,
                    hint=f"write {sides.right}.{column.name} for the right side",
                    subjects=(column.name,),
                )
    times = [ordered for part in parts if (ordered := _time_of(part, sides)) is not None]
    if len(times) != 1 or (match is not None and _time_of(match.unnest(), sides) is None):
        if len(times) > 1 and match is None:
            problem = "ASOF JOIN has several comparisons by order"
        elif match is not None and times:
            problem = "MATCH_CONDITION must hold the only comparison by order"
        else:
            problem = "ASOF JOIN needs a comparison of a time of each side with >=, >, <= or <"
        raise error_at(sql, problem, place, hint=_EXAMPLE)
    (time, is_before), *_ = times
    keeps_all = join.side == "LEFT" or (match is not None and join.kind != "INNER")
    join.set("this", _lateral(join.this, parts, time, merged, is_before=is_before))
    join.set("side", "LEFT" if keeps_all else None)
    for key in ("method", "kind", "match_condition", "using"):
        join.set(key, None)
    join.set("on", exp.true())


def _left_column(name: str, sides: _Sides, sql: str, place: exp.Expr) -> exp.Column:
    """Return the column of the left side that USING names.

    Raises:
        AnalysisError: No relation of the left side has it, or several have.
    """
    owners = [of for of, names in sides.left.items() if name.lower() in (names or ())]
    if len(owners) != 1:
        reason = "does not exist" if not owners else "is ambiguous"
        message = f"column `{name}` in USING {reason} on the left side of ASOF JOIN"
        raise error_at(sql, message, place, hint="use ON a.k = b.k", subjects=(name,))
    return exp.Column(this=identifier(name), table=identifier(owners[0]))


def _time_of(part: exp.Expr, sides: _Sides) -> tuple[exp.Expr, bool] | None:
    """Return the right side's expression of a comparison of both sides by order.

    Returns:
        The expression, and whether the last row before matches rather than the first one after.
        None if it is another condition.
    """
    part = part.unnest()
    is_before = _IS_BEFORE.get(type(part))
    if is_before is None:
        return None
    of_right = []
    for expr in (part.this, part.expression):
        owners = {sides.reads_right(column) for column in expr.find_all(exp.Column)}
        of_right.append(owners.pop() if len(owners) == 1 else None)
    if of_right == [False, True]:
        return part.expression, is_before
    if of_right == [True, False]:
        return part.this, not is_before
    return None


def _lateral(
    source: exp.Expr, parts: list[exp.Expr], time: exp.Expr, merged: list[str], *, is_before: bool
) -> exp.Lateral:
    """Return the right row that matches, without the columns that USING merges."""
    star = exp.Star(except_=[identifier(name) for name in merged]) if merged else exp.Star()
    name = source.alias_or_name
    inner = exp.Select(
        expressions=[star],
        from_=exp.From(this=source.copy()),
        where=exp.Where(this=conjunction([part.copy() for part in parts])),
        order=exp.Order(expressions=[exp.Ordered(this=time.copy(), desc=is_before)]),
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )
    return exp.Lateral(
        this=exp.Subquery(this=inner),
        view=False,
        outer=False,
        alias=exp.TableAlias(this=identifier(name)),
    )
