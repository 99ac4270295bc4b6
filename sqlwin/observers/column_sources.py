"""Lineage of columns: from which columns of tables a query computes each of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from planner.sql.nodes import WindowFunctionCall

_WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
# (table, column), as the catalog spells them
Source = tuple[str, str]


def column_sources(
    query: exp.Query, columns: Sequence[str], tables: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Source, ...]]:
    """Return the columns of tables that each column of a query depends on.

    Columns of a window depend on the time column. Columns whose sources cannot be resolved are
    missing, as are those without sources, such as COUNT(*).

    Args:
        query: Tree of the query, with views replaced by their queries.
        columns: Names of its columns.
        tables: Columns of the tables in it, by the name in the query.

    Example:
        >>> import sqlglot
        >>> query = sqlglot.parse_one(
        ...     "SELECT k, window_end, SUM(x + y) AS s, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) "
        ...     "GROUP BY k, window_start, window_end",
        ...     read="sqlwin",
        ... )
        >>> column_sources(query, ["k", "window_end", "s", "n"], {"t": ["k", "ts", "x", "y"]})
        {'k': (('t', 'k'),), 'window_end': (('t', 'ts'),), 's': (('t', 'x'), ('t', 'y'))}
    """
    plain, numbers = _numbered(_without_window_functions(query), tables)
    for i, select in enumerate(plain.selects):
        if not select.is_star and not isinstance(select, exp.Alias | exp.Column):
            select.replace(exp.alias_(select.copy(), f"_c{i}"))
    named = {number: tables[name] for number, name in numbers.items()}
    schema = {number: {name.lower(): "string" for name in names} for number, names in named.items()}
    sources: dict[str, tuple[Source, ...]] = {}
    for i, column in enumerate(columns):
        try:
            name = _output_name(plain, i, column)
            root = lineage(name, plain.copy(), schema, dialect="spark")
        except (SqlglotError, ValueError, KeyError):
            continue  # a part of the query that sqlglot cannot resolve
        leaves = {
            (node.source.name, node.name.rpartition(".")[2].strip('"`'))
            for node in root.walk()
            if isinstance(node.source, exp.Table)
        }
        spelled = {
            (numbers[table], next(c for c in named[table] if c.lower() == name.lower()))
            for table, name in leaves
            if table in numbers and any(c.lower() == name.lower() for c in named[table])
        }
        if spelled:
            sources[column] = tuple(sorted(spelled))
    return sources


def _output_name(query: exp.Query, number: int, column: str) -> str:
    """Return the name of an output column as sqlglot sees it."""
    selects = query.selects
    if any(select.is_star for select in selects) or number >= len(selects):
        return column.lower()
    return str(selects[number].alias_or_name)


def _numbered(
    query: exp.Query, tables: Mapping[str, Sequence[str]]
) -> tuple[exp.Query, dict[str, str]]:
    """Return the query with plain names of tables, and the tables by these names.

    sqlglot knows no paths of files as tables, for example.
    """
    numbers: dict[str, str] = {}
    for table in list(query.find_all(exp.Table)):
        name = table_name(table)
        if name in tables:
            number = f"t{len(numbers)}"
            numbers[number] = name
            alias = table.args.get("alias") or exp.TableAlias(
                this=exp.to_identifier(table.name, quoted=True)
            )
            table.replace(exp.Table(this=exp.to_identifier(number), alias=alias.copy()))
    return query, numbers


def table_name(table: exp.Table) -> str:
    """Return the name of a table in parts, joined by points."""
    return ".".join(part.name for part in table.parts)


def _without_window_functions(query: exp.Query) -> exp.Query:
    """Return a copy in which a window function is a query with times as window columns."""
    copied = query.copy()
    while (call := copied.find(WindowFunctionCall)) is not None:
        data = call.args["data"].copy()
        names = call.args.get("names") or [exp.to_identifier(name) for name in _WINDOW_COLUMNS]
        bounds = call.args.get("bounds")
        time = call.args.get("timecol")
        times = [] if time is None else [time] * 3
        if bounds is not None:
            starts, ends = call.args["boundcols"].expressions
            times = [starts, ends, ends]
        windows = [
            exp.alias_(exp.Column(this=time.copy()), name.name)
            for time, name in zip(times, names, strict=bool(times))
        ]
        inner = exp.Select(expressions=[exp.Star(), *windows], from_=exp.From(this=data))
        if bounds is not None:
            table_alias = exp.TableAlias(this=exp.to_identifier("bounds"))
            bounds = exp.Select(expressions=[exp.Star()], from_=exp.From(this=bounds.copy()))
            inner.set("joins", [exp.Join(this=exp.Subquery(this=bounds, alias=table_alias))])
        alias = call.args.get("alias")
        call.replace(
            exp.Subquery(this=inner, alias=alias.copy() if alias else exp.TableAlias(this="w"))
        )
    return copied
