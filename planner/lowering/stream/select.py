"""Building blocks of SELECTs that pass on the watermarks of stream rows."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.nodes.logical import CHANGE_KIND
from planner.sql.build import (
    alias,
    case_when,
    cast_as,
    column,
    identifier,
    item_name,
    literal,
    select_items,
    star_leaves_out,
)
from planner.sql.parts import makes_rows
from runtime.spec.stream import ALL_SOURCES, KEEP, LATE_ROW, SOURCE, WATERMARK

# Origin of microsecond times
EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def with_source_number(select: exp.Select, number: exp.Expr) -> exp.Select:
    """Return a SELECT whose rows carry the watermark of the source with this number.

    The row that signals the end of the input applies to all sources.
    """
    end = literal(ALL_SOURCES)
    is_end = exp.EQ(this=column(SOURCE), expression=end)
    source = case_when(is_end, end.copy(), number)
    control = {KEEP: column(KEEP), SOURCE: source, WATERMARK: column(WATERMARK)}
    computed = {i.alias_or_name: i for i in select.expressions if i.alias_or_name in control}
    control[KEEP] = computed[KEEP].unalias()
    items = [item for item in select.expressions if item.alias_or_name not in control]
    select.set("expressions", items + [alias(e, name) for name, e in control.items()])
    return select


def null_watermark() -> exp.Expr:
    """Return a NULL watermark."""
    return cast_as(exp.Null(), "bigint")


def mark_of_kind(mark: str, kind: exp.Expr) -> exp.Expr:
    """Return CHANGE_KIND of a row with a kind, or CHANGE: 1 if it is inserted, -1 if deleted."""
    if mark == CHANGE_KIND:
        return kind
    is_inserted = exp.In(this=kind, expressions=[literal("+I"), literal("+U")])
    one, minus_one = (cast_as(literal(number), "bigint") for number in (1, -1))
    return case_when(is_inserted, one, minus_one)


def select_carried(
    items: list[exp.Expr],
    inner: exp.Query,
    condition: exp.Expr | None = None,
    source: exp.Expr | None = None,
    more: tuple[str, ...] = (),
) -> exp.Select:
    """Build a SELECT over carried rows: `items`, KEEP, SOURCE, WATERMARK and the `more` columns.

    A row that the condition drops loses LATE_ROW. A row with KEEP = FALSE that has LATE_ROW is
    therefore late for an operator below.
    """
    table_alias = None
    if source is not None:
        table_alias = source.args.get("alias")
        if table_alias is None and isinstance(source, exp.Table):
            table_alias = exp.TableAlias(this=identifier(source.name))
    keep: exp.Expr = column(KEEP)
    if condition is not None:
        is_true = exp.Anonymous(this="COALESCE", expressions=[condition.copy(), exp.false()])
        keep = exp.And(this=keep, expression=is_true)
    control: dict[str, exp.Expr] = {name: column(name) for name in (SOURCE, WATERMARK, *more)}
    changed = {KEEP: keep}
    if condition is not None and LATE_ROW in control:
        has_passed = exp.Or(this=exp.Not(this=column(KEEP)), expression=keep.expression.copy())
        changed[LATE_ROW] = case_when(has_passed, column(LATE_ROW))
    if len(items) == 1 and isinstance(items[0], exp.Star):
        if condition is not None:
            star = exp.Star(**{"except_": [identifier(name) for name in changed]})
            items = [star, *(alias(value, name) for name, value in changed.items())]
    else:
        items = [
            *items,
            *(alias(e, name) for name, e in {KEEP: keep, **control, **changed}.items()),
        ]
    subquery = exp.Subquery(this=inner)
    if table_alias is not None:
        subquery.set("alias", table_alias.copy())
    return select_items(items, subquery)


def only_if_kept(expr: exp.Expr) -> exp.Expr:
    """Evaluate the expression only in kept rows."""
    if isinstance(expr.unnest(), exp.Column | exp.Literal):
        return expr
    return case_when(column(KEEP), expr.copy())


def guarded_items(query: exp.Select, names: tuple[str, ...] | None) -> list[exp.Expr] | None:
    """Return a select list evaluated only in kept rows, or None if it is too complex."""
    if len(query.expressions) == 1 and query.expressions[0].is_star:
        star = query.expressions[0]
        left_out = star_leaves_out(star)
        if left_out:
            return [column(name) for name in names] if names else None
        return None if left_out is None else [exp.Star()]
    items: list[exp.Expr] = []
    for position, item in enumerate(query.expressions):
        value = item.unalias()
        if value.is_star or is_complex(value):
            return None
        name = names[position] if names else item_name(item)
        if not name:
            return None
        items.append(alias(only_if_kept(value), name))
    return items


def is_complex(expr: exp.Expr) -> bool:
    """Return whether an expression reads more than its row, or returns several rows."""
    return bool(aggregates_in(expr) or expr.find(exp.Query, exp.Window)) or makes_rows(expr)
