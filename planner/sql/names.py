"""Names in the text of a query: CTEs that it needs or does not, names that are used too early."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from sqlglot import exp

from planner.sql.nodes import COLUMN_PREFIX, WindowFunctionCall, error_at
from runtime.errors import AnalysisError, ErrorKind, nearest


def with_late_name(error: AnalysisError, query: exp.Query, sql: str) -> AnalysisError:
    """An error about a name in WHERE that the same SELECT gives to a function with OVER."""
    if error.kind is not ErrorKind.UNKNOWN_COLUMN:
        return error
    for select in query.find_all(exp.Select):
        late = {i.alias.lower() for i in select.expressions if i.find(exp.Window)} - {""}
        where = select.args.get("where")
        for col in where.find_all(exp.Column) if where is not None else ():
            if col.name == error.subject and col.name.lower() in late and not col.table:
                name = col.name
                message = f"`{name}` is not known yet in WHERE: it is computed from the rows left"
                hint = f"put the condition around the query, or write QUALIFY {name} ..."
                return error_at(sql, message, col, hint=hint)
    return error


_WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


def with_window_name(error: AnalysisError, query: exp.Query, sql: str) -> AnalysisError:
    """An error about a function that is spelt almost as a window function, with that one's name."""
    if error.kind is ErrorKind.UNKNOWN_FUNCTION:
        close = nearest(error.subject or "", _WINDOW_FUNCTIONS)
        error.hint = f"did you mean {close}?" if close else error.hint
    for table in query.find_all(exp.Table):
        call = table.this
        close = nearest(call.name, _WINDOW_FUNCTIONS) if isinstance(call, exp.Anonymous) else None
        # Spark looks at the arguments first, and takes the name of a table for a column
        arguments = {column.name for column in call.find_all(exp.Column)}
        if close and error.kind is ErrorKind.UNKNOWN_COLUMN and error.subject in arguments:
            return AnalysisError(
                f"there is no window function {call.name}",
                subjects=(call.name,),
                sql=sql,
                hint=f"did you mean {close}?",
            )
    return error


def without_unused_ctes(query: exp.Select) -> exp.Select:
    """The query without definitions that nothing names any more."""
    clause = query.args.get("with_")
    if clause is None or clause.args.get("recursive"):
        return query
    readers = [part for part in query.iter_expressions() if part is not clause]
    kept: list[exp.Expr] = []
    for cte in reversed(clause.expressions):
        tables = (table for reader in readers for table in reader.find_all(exp.Table))
        if any(not table.db and table.name.lower() == cte.alias.lower() for table in tables):
            readers.append(cte)
            kept.insert(0, cte.copy())
    query = query.copy()
    query.set("with_", exp.With(expressions=kept) if kept else None)
    return query


def rename_hidden_ctes(query: exp.Query) -> bool:
    """Give each CTE that hides one of an outer query a name of its own, in place.

    What an outer CTE reads would otherwise be taken from the inner one of the same name, once both
    stand in one WITH.

    Returns:
        Whether there was any.
    """
    names = [cte.alias.lower() for cte in query.find_all(exp.CTE)]
    if len(set(names)) == len(names):
        return False
    taken = {*names, *(table.name.lower() for table in query.find_all(exp.Table))}
    found = False
    # nodes, and by which name what each CTE that they see is known now
    waiting: list[tuple[exp.Expr, Mapping[str, str]]] = [(query, {})]
    while waiting:
        node, seen = waiting.pop()
        clause = node.args.get("with_") if isinstance(node, exp.Query) else None
        is_recursive = clause is not None and clause.args.get("recursive")
        for cte in clause.expressions if clause is not None else ():
            before, name = seen, cte.alias.lower()
            new = name
            if name in before:
                new = next(f"{name}_{n}" for n in count(1) if f"{name}_{n}" not in taken)
                taken.add(new)
                cte.args["alias"].set("this", exp.to_identifier(new, quoted=True))
                found = True
            seen = {**before, name: new}
            waiting.append((cte.this, seen if is_recursive else before))
        if isinstance(node, exp.Table) and not node.db:
            new = seen.get(node.name.lower(), "")
            if new not in ("", node.name.lower()):
                if isinstance(node.parent, WindowFunctionCall):
                    node.meta[COLUMN_PREFIX] = node.name
                elif not node.args.get("alias"):
                    node.set("alias", exp.TableAlias(this=node.this.copy()))
                node.set("this", exp.to_identifier(new, quoted=True))
        waiting += [(below, seen) for below in node.iter_expressions() if below is not clause]
    return found


def with_ctes(query: exp.Query, scope: Mapping[str, exp.CTE]) -> exp.Query:
    """The query with the definitions of those outer CTEs that it names."""
    own = {cte.alias.lower() for cte in query.ctes}
    needed: dict[str, exp.CTE] = {}

    def need(node: exp.Expr) -> None:
        for table in node.find_all(exp.Table):
            name = table.name.lower()
            if not table.db and name in scope and name not in own and name not in needed:
                need(scope[name].this)
                needed[name] = scope[name]

    need(query)
    if not needed:
        return query
    query = query.copy()
    definitions = [cte.copy() for cte in needed.values()]
    clause = query.args.get("with_")
    if clause is not None:
        definitions += clause.expressions
    query.set("with_", exp.With(expressions=definitions))
    return query
