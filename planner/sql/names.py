"""Names in queries: CTEs, and names that are used before they are defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, islice

from sqlglot import exp

from planner.sql.nodes import CHANGELOGS, COLUMN_PREFIX, WindowFunctionCall, error_at
from runtime.errors import AnalysisError, ErrorKind, nearest
from runtime.windows import FUNCTIONS


def hint_at_late_name(error: AnalysisError, query: exp.Query, sql: str) -> AnalysisError:
    """Improve an error about a name in WHERE that the SELECT list gives to a function with OVER."""
    if error.kind is not ErrorKind.UNKNOWN_COLUMN:
        return error
    for select in query.find_all(exp.Select):
        late = {i.alias.lower() for i in select.expressions if i.find(exp.Window)} - {""}
        where = select.args.get("where")
        for col in where.find_all(exp.Column) if where is not None else ():
            if col.name == error.subject and col.name.lower() in late and not col.table:
                name = col.name
                message = (
                    f"column alias `{name}` is not available in WHERE, because its function "
                    "is computed after WHERE"
                )
                hint = f"filter in an outer query, or use QUALIFY {name} ..."
                return error_at(sql, message, col, hint=hint)
    return error


_WINDOW_FUNCTIONS = (*FUNCTIONS, "GAP_FILL", *CHANGELOGS)


def hint_at_window_name(error: AnalysisError, query: exp.Query, sql: str) -> AnalysisError:
    """Improve an error about a misspelt window function by suggesting its name."""
    for table in query.find_all(exp.Table):
        call = table.this
        close = nearest(call.name, _WINDOW_FUNCTIONS) if isinstance(call, exp.Anonymous) else None
        if close and error.kind is ErrorKind.UNKNOWN_FUNCTION and error.subject == call.name:
            error.hint = f"did you mean {close}?"
        # Spark resolves the arguments first and takes a table name for a column.
        arguments = {column.name for column in call.find_all(exp.Column)}
        if close and error.kind is ErrorKind.UNKNOWN_COLUMN and error.subject in arguments:
            return AnalysisError(
                f"unknown window function {call.name}",
                subjects=(call.name,),
                sql=sql,
                hint=f"did you mean {close}?",
            )
    return error


def without_unused_ctes(query: exp.Select) -> exp.Select:
    """Return the query without CTEs that are no longer used."""
    clause = query.args.get("with_")
    if clause is None or clause.args.get("recursive"):
        return query
    readers = [part for part in query.iter_expressions() if part is not clause]
    used: list[exp.Expr] = []
    for cte in reversed(clause.expressions):
        tables = (table for reader in readers for table in reader.find_all(exp.Table))
        if any(not table.db and table.name.lower() == cte.alias.lower() for table in tables):
            readers.append(cte)
            used.insert(0, cte.copy())
    query = query.copy()
    query.set("with_", exp.With(expressions=used) if used else None)
    return query


def rename_hidden_ctes(query: exp.Query) -> bool:
    """Rename each CTE that hides one of an outer query, in place.

    Once both are in one WITH, references of the outer CTE would otherwise resolve to the inner
    CTE of the same name.

    Returns:
        Whether anything was renamed.
    """
    names = [cte.alias.lower() for cte in query.find_all(exp.CTE)]
    if len(set(names)) == len(names):
        return False
    used_names = {*names, *(table.name.lower() for table in query.find_all(exp.Table))}
    changed = False
    # Nodes to visit, with the current names of the CTEs in scope.
    waiting: list[tuple[exp.Expr, Mapping[str, str]]] = [(query, {})]
    while waiting:
        node, hidden = waiting.pop()
        clause = node.args.get("with_") if isinstance(node, exp.Query) else None
        is_recursive = clause is not None and clause.args.get("recursive")
        for cte in clause.expressions if clause is not None else ():
            before, name = hidden, cte.alias.lower()
            new = name
            if name in before:
                new = next(f"{name}_{n}" for n in count(1) if f"{name}_{n}" not in used_names)
                used_names.add(new)
                cte.args["alias"].set("this", exp.to_identifier(new, quoted=True))
                changed = True
            hidden = {**before, name: new}
            waiting.append((cte.this, hidden if is_recursive else before))
        if isinstance(node, exp.Table) and not node.db:
            new = hidden.get(node.name.lower(), "")
            if new not in ("", node.name.lower()):
                if isinstance(node.parent, WindowFunctionCall):
                    node.meta[COLUMN_PREFIX] = node.name
                elif not node.args.get("alias"):
                    node.set("alias", exp.TableAlias(this=node.this.copy()))
                node.set("this", exp.to_identifier(new, quoted=True))
        waiting += [(below, hidden) for below in node.iter_expressions() if below is not clause]
    return changed


def has_scattered_ctes(query: exp.Query) -> bool:
    """Return whether Spark may misplace CTEs of the query: see `gather_ctes`."""
    return bool(_with_scattered_ctes(query))


def gather_ctes(query: exp.Query) -> None:
    """Put one WITH around parts of a query that have CTEs of their own, in place.

    Spark moves the CTEs of all parts to the first part if that part does not use its own. The other
    parts do not find theirs: they fail, or read another CTE. Below a WITH, Spark keeps them there.
    Spark plans subqueries in expressions separately.
    """
    for root in _with_scattered_ctes(query):
        unused = exp.Select(expressions=[exp.Null()])
        cte = exp.CTE(this=unused, alias=exp.TableAlias(this=exp.to_identifier("$with", True)))
        root.set("with_", exp.With(expressions=[cte]))


def _with_scattered_ctes(query: exp.Query) -> list[exp.Query]:
    """Return the query and its subqueries in expressions that need a WITH around their parts."""
    if next(islice(query.find_all(exp.With), 1, None), None) is None:
        return []
    selects = query.find_all(exp.Select, exp.SetOperation)
    roots = [query, *(part for part in selects if _is_in_expression(part))]
    return [root for root in roots if _count_parts_with_ctes(root) > 1]


def _is_in_expression(query: exp.Expr) -> bool:
    """Return whether a query is a subquery that Spark plans separately."""
    parent = query.parent
    while isinstance(parent, exp.Subquery) and parent.parent is not None:
        parent = parent.parent
    return parent is not None and not isinstance(
        parent, exp.From | exp.Join | exp.SetOperation | exp.CTE
    )


def _count_parts_with_ctes(root: exp.Query) -> int:
    """Return the number of outermost queries with CTEs, 1 for the whole query."""

    def is_end(node: exp.Expr) -> bool:
        if node is root or not isinstance(node, exp.Query):
            return bool(node.args.get("with_"))
        return bool(node.args.get("with_")) or _is_in_expression(node)

    ends = (node for node in root.walk(prune=is_end) if node.args.get("with_"))
    return sum(node is root or not _is_in_expression(node) for node in ends)


def with_ctes(query: exp.Query, scope: Mapping[str, exp.CTE]) -> exp.Query:
    """Return the query with the definitions of the outer CTEs that it uses.

    A CTE sees those defined before it. Its own name, or a later one's, is a table there.
    """
    defined_names = {cte.alias.lower() for cte in query.ctes}
    names = list(scope)
    needed: set[str] = set()

    def need(node: exp.Expr, visible: Sequence[str]) -> None:
        for table in node.find_all(exp.Table):
            name = table.name.lower()
            if not table.db and name in visible and name not in needed:
                needed.add(name)
                need(scope[name].this, names[: names.index(name)])

    need(query, [name for name in names if name not in defined_names])
    if not needed:
        return query
    query = query.copy()
    definitions = [scope[name].copy() for name in names if name in needed]
    clause = query.args.get("with_")
    if clause is not None:
        definitions += clause.expressions
    query.set("with_", exp.With(expressions=definitions))
    return query
