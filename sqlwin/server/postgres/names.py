"""Names of columns without an alias, as PostgreSQL names them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.sql.nodes import KeywordCall, MultiUnitInterval
from sqlwin.server.catalog.type_names import type_named
from sqlwin.server.postgres.reader import SPAN, TYPE_NAME

# Set in `meta` of an alias that the client has not written
ADDED = "added"
NO_NAME = "?column?"
_NAMES: dict[type[exp.Expr], str] = {
    exp.Array: "array",
    exp.Exists: "exists",
    exp.AtTimeZone: "timezone",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.Localtimestamp: "localtimestamp",
    exp.SessionUser: "session_user",
}


@dataclass(frozen=True)
class ColumnNames:
    """Names of a query's columns, before and after a `*`. None: the name stays as it is.

    Attributes:
        before: Names of the first columns.
        after: Names of the last columns.
        has_star: Whether columns of `*` lie in between.
    """

    before: tuple[str | None, ...] = ()
    after: tuple[str | None, ...] = ()
    has_star: bool = True

    def of(self, names: list[str]) -> list[str]:
        """Return the names of columns that sqlwin names in its own way."""
        n_known = len(self.before) + len(self.after)
        if n_known > len(names) or (not self.has_star and n_known != len(names)):
            return names
        between = [None] * (len(names) - n_known)
        return [
            name or own
            for name, own in zip([*self.before, *between, *self.after], names, strict=True)
        ]


def column_names(query: exp.Expr) -> ColumnNames:
    """Return the names of a query's columns."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return ColumnNames()
    items = query.selects
    stars = [place for place, item in enumerate(items) if _is_star(item)]
    if not stars:
        return ColumnNames(tuple(map(_own_name, items)), (), has_star=False)
    before, after = items[: stars[0]], items[stars[-1] + 1 :]
    return ColumnNames(tuple(map(_own_name, before)), tuple(map(_own_name, after)))


def add_aliases(query: exp.Expr) -> None:
    """Name the columns of subqueries, which the outer query may use by PostgreSQL's names.

    The columns of the outer query get names as well, because sqlwin may need Spark for its own.
    These are unique; the client gets the names of `column_names`, which may repeat.
    """
    for select in list(query.find_all(exp.Select)):
        parent = select.parent
        is_table = isinstance(parent, exp.CTE) or (
            isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.From | exp.Join)
        )
        if parent is not None and not is_table:
            continue
        names = [_own_name(item) or item.alias_or_name for item in select.selects]
        for place, (item, name) in enumerate(zip(select.selects, names, strict=True)):
            is_named = isinstance(item, exp.Alias | exp.Aliases | exp.Column) or _is_star(item)
            if is_named or SPAN not in item.meta:
                continue
            if names.count(name) > 1:
                name = f"{name}{place + 1}" if parent is None else NO_NAME
            if name == NO_NAME and parent is not None:
                continue
            alias = exp.Alias(alias=exp.to_identifier(name, quoted=True))
            item.replace(alias)
            alias.set("this", item)
            alias.meta.update({SPAN: item.meta[SPAN], ADDED: True})


def _is_star(item: exp.Expr) -> bool:
    inner = item.this if isinstance(item, exp.Column) else item
    return isinstance(inner, exp.Star)


def _own_name(item: exp.Expr) -> str | None:
    """Return PostgreSQL's name of a column, None for a column that has a name."""
    return None if isinstance(item, exp.Alias | exp.Aliases | exp.Column) else _name_of(item)


def _name_of(item: exp.Expr) -> str:
    return _name_and_strength(item)[0]


def _name_and_strength(item: exp.Expr) -> tuple[str, int]:
    """Return the name of an expression, and how strong it is: 2 wins over the type of a cast."""
    match item:
        case exp.Alias():
            return item.alias, 2
        case exp.Column():
            return item.name, 2
        case exp.Paren() | exp.Filter() | exp.Window() | exp.WithinGroup() | exp.IgnoreNulls():
            return _name_and_strength(item.this)
        case exp.Bracket() | exp.Collate():
            return _name_and_strength(item.this)
        case exp.Subquery():
            items = item.this.selects if isinstance(item.this, exp.Query) else []
            return (_name_of(items[0]), 2) if len(items) == 1 else (NO_NAME, 0)
        case exp.Case():
            default = item.args.get("default")
            name, strength = (NO_NAME, 0) if default is None else _name_and_strength(default)
            return (name, strength) if strength == 2 else ("case", 1)
        case exp.Cast():
            name, strength = _name_and_strength(item.this)
            kind = item.to.meta.get(TYPE_NAME)
            written = item.to.sql("postgres").lower() if kind is None else kind.name
            return (name, 2) if strength == 2 else (type_named(written) or written, 1)
        case exp.Interval() | MultiUnitInterval():
            return "interval", 1
        case KeywordCall() | exp.Anonymous():
            name = str(item.name).lower()
            return ("btrim" if name == "trim" else name), 2
        case exp.Dot():
            return _name_and_strength(item.expression)
    name = _NAMES.get(type(item), NO_NAME)
    return name, 0 if name == NO_NAME else 2
