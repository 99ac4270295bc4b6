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
from planner.sql.build import (
    column,
    conjunction,
    conjuncts,
    identifier,
    select_all_from,
    select_items,
)
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
            merged = _rewrite(join, _Sides(name, names, left), sql)
            _merge_columns(select, join.this.alias, merged)
            names = None if names is None else names - merged.keys()
        elif join.side in ("", "LEFT"):
            using = {name.name.lower() for name in join.args.get("using") or ()}
            names = None if names is None else names - using
        left = {**left, name: names}
    return True


def _rewrite(join: exp.Join, sides: _Sides, sql: str) -> dict[str, exp.Column]:
    """Rewrite, in place, an ASOF JOIN.

    Returns:
        The columns of the left side that USING names, by lower-case name.

    Raises:
        AnalysisError: The join is of another kind, or compares no times.
    """
    match = join.args.get("match_condition")
    place = match or join.args.get("on") or join.this
    if not sides.right:
        hint = "write ASOF JOIN (...) AS b"
        raise error_at(sql, "the right side of ASOF JOIN needs a name", place, hint=hint)
    if join.side not in ("", "LEFT") or join.kind not in ("", "INNER", "OUTER"):
        words = " ".join(filter(None, (join.side, join.kind)))
        hint = "use ASOF JOIN or ASOF LEFT JOIN, with the rows to keep on the left side"
        raise error_at(sql, f"ASOF {words} JOIN is not supported", place, hint=hint)
    merged: dict[str, exp.Column] = {}
    parts = [*conjuncts(match), *conjuncts(join.args.get("on"))]
    using: list[exp.Expr] = join.args.get("using") or []
    for number, name in enumerate(using):
        is_time = match is None and number == len(using) - 1
        equal = exp.GTE if is_time else exp.EQ
        of_right = column(name.name, join.this.alias_or_name)
        merged[name.name.lower()] = _left_column(name.name, sides, sql, place)
        parts.append(equal(this=merged[name.name.lower()].copy(), expression=of_right))
    for part in parts:
        for col in part.find_all(exp.Column):
            if sides.is_ambiguous(col):
                raise error_at(
                    sql,
                    f"column `{col.name}` is in both sides of ASOF JOIN",
                    col,
                    hint=f"write {sides.right}.{col.name} for the right side",
                    subjects=(col.name,),
                )
    times = _times_of(parts, sides)
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
    join.set("this", _lateral(join.this, parts, time, is_before=is_before))
    join.set("side", "LEFT" if keeps_all else None)
    for key in ("method", "kind", "match_condition", "using"):
        join.set(key, None)
    join.set("on", exp.true())
    return merged


def _merge_columns(select: exp.Select, right: str, merged: dict[str, exp.Column]) -> None:
    """Give the names in USING to the left side: in `*`, and where they stand without a table.

    Args:
        select: The SELECT, changed in place.
        right: Name of the right side, whose columns keep their names with it.
        merged: Columns of the left side by the lower-case name in USING.
    """
    if not merged:
        return
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    of_right = [
        exp.Column(this=col.this.copy(), table=identifier(right)) for col in merged.values()
    ]
    for item in select.expressions:
        if isinstance(item, exp.Star):
            hidden = [
                name
                if isinstance(name, exp.Column) and name.table
                else merged.get(name.name.lower(), name).copy()
                for name in item.args.get("except_") or ()
            ]
            item.set("except_", [*hidden, *of_right])
    for key in ("expressions", "where", "group", "having", "qualify", "order", "windows"):
        clause = select.args.get(key) or []
        for part in clause if isinstance(clause, list) else [clause]:
            nodes = list(part.walk(prune=lambda node: isinstance(node, exp.Query)))
            for col in nodes:
                if not isinstance(col, exp.Column) or col.table or col.is_star:
                    continue
                name = col.name.lower()
                if name in merged and (key == "expressions" or name not in aliases):
                    col.set("table", merged[name].args["table"].copy())


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
    return column(name, owners[0])


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


def _times_of(parts: list[exp.Expr], sides: _Sides) -> list[tuple[exp.Expr, bool]]:
    """Return `_time_of` the conditions that compare by order, without tolerances.

    A tolerance limits how far the time of the right side is away: in `l.ts >= r.ts AND r.ts >= l.ts
    - INTERVAL '5' SECOND`, the second condition compares the column `r.ts` of the first one in the
    other direction, and not with a column.
    """
    found = [(part.unnest(), time) for part in parts if (time := _time_of(part, sides)) is not None]
    times = [time for _, time in found]
    of_columns = [
        time
        for part, time in found
        if all(isinstance(side.unnest(), exp.Column) for side in (part.this, part.expression))
    ]
    if len(of_columns) == 1:
        (of_column,) = of_columns
        others = [time for time in times if time is not of_column]
        if all(time == (of_column[0], not of_column[1]) for time in others):
            return of_columns
    return times


def _lateral(
    source: exp.Expr, parts: list[exp.Expr], time: exp.Expr, *, is_before: bool
) -> exp.Lateral:
    """Return the right row that matches."""
    name = source.alias_or_name
    inner = select_items(
        [exp.Star()],
        source.copy(),
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
