"""Rewrite group window functions as window table functions.

`GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)` is the syntax of Flink before 1.13. The tree is rewritten
before names are bound, so both spellings get the same plan:

    SELECT k, TUMBLE_END(ts, i), COUNT(*) FROM t GROUP BY TUMBLE(ts, i), k

becomes

    SELECT k, w$end AS window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), i))
    GROUP BY w$start, w$end, k
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.binder.grouping_sets import has_groupings
from planner.sql.build import alias, column, identifier, select_items, to_sql
from planner.sql.intervals import fold_interval
from planner.sql.nodes import GROUP_WINDOW_COLUMNS, WindowFunctionCall, copy_place, error_at
from planner.sql.parts import has_other_parts, own_nodes, select_from_same
from runtime.errors import AnalysisError
from runtime.windows import FUNCTIONS

# Parameters after the time column, in order
_PARAMETERS = {name: kind.lengths for name, kind in FUNCTIONS.items() if kind.is_group_window}

# Name after the kind and `_`, and the default name of a column with the function's result
_PROPERTIES = {
    "START": "window_start",
    "END": "window_end",
    "ROWTIME": "window_time",
    "PROCTIME": "window_proctime",
}
_AUXILIARIES = {f"{kind}_{prop}": (kind, prop) for kind in _PARAMETERS for prop in _PROPERTIES}

# Names in Azure Stream Analytics; their arguments differ
_AZURE_NAMES = {"TUMBLINGWINDOW": "TUMBLE", "HOPPINGWINDOW": "HOP", "SESSIONWINDOW": "SESSION"}

ROWTIME = "$rowtime"

_CLAUSES = ("having", "order", "sort", "qualify", "distribute", "cluster")


def rewrite_group_windows(select: exp.Select, sql: str) -> None:
    """Replace, in place, a group window function by a window table function.

    Raises:
        AnalysisError: There are two of them, one has the wrong arguments, or an auxiliary function
            such as TUMBLE_START has no matching window.
    """
    group = select.args.get("group")
    calls = [key for key in (group.expressions if group else []) if isinstance(key, exp.Anonymous)]
    for key in calls:
        kind = _AZURE_NAMES.get(key.name.upper())
        if kind is not None:
            message = f"{key.name} is a function of Azure Stream Analytics"
            raise error_at(sql, message, key, hint=f"use GROUP BY {_usage(kind)}")
        if key.name.upper() == "CUMULATE":
            hint = (
                "use FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), step, size)) GROUP BY "
                "window_start, window_end"
            )
            raise error_at(sql, "CUMULATE is not supported in GROUP BY", key, hint=hint)
    windows = [key for key in calls if key.name.upper() in _PARAMETERS]
    if not windows:
        _refuse_misplaced(select, None, sql)
        return
    if len(windows) > 1:
        hint = "use a subquery that groups by the first window"
        raise error_at(sql, "GROUP BY contains two group window functions", windows[1], hint=hint)
    _Rewrite(select, windows[0], sql).run()


def _usage(kind: str) -> str:
    return f"{kind}({', '.join(('ts', *(f'<{p}>' for p in _PARAMETERS[kind])))})"


def _looks_like_window(call: exp.Anonymous) -> bool:
    """Return whether a call outside GROUP BY is a window rather than another function."""
    time, *others = call.expressions or [None]
    has_interval = any(arg.find(exp.Interval) is not None for arg in others)
    return call.name.upper() in _PARAMETERS and isinstance(time, exp.Column) and has_interval


def _parts_of(select: exp.Select, clauses: tuple[str, ...]) -> list[exp.Expr]:
    """Return the trees of some clauses, in order."""
    parts = [part for part in select.iter_expressions() if part.arg_key in clauses]
    return sorted(parts, key=lambda part: clauses.index(part.arg_key or ""))


def _calls_in(select: exp.Select, clauses: tuple[str, ...]) -> Iterator[exp.Anonymous]:
    """Yield the function calls in some clauses, except in subqueries."""
    for part in _parts_of(select, clauses):
        yield from [node for node in own_nodes([part]) if isinstance(node, exp.Anonymous)]


def _refuse_misplaced(select: exp.Select, window: exp.Anonymous | None, sql: str) -> None:
    """Raise an error for group window functions outside GROUP BY."""
    for call in _calls_in(select, ("expressions", "where", *_CLAUSES)):
        auxiliary = _AUXILIARIES.get(call.name.upper())
        if auxiliary is not None and window is None:
            kind, _ = auxiliary
            usage = ", ".join(("ts", *(f"<{p}>" for p in _PARAMETERS[kind])))
            message = f"{call.name.upper()} requires {kind} in GROUP BY"
            hint = f"add GROUP BY {kind}({usage}), or group by the columns of TABLE({kind}(...))"
            raise error_at(sql, message, call, hint=hint)
        if _looks_like_window(call):
            kind = call.name.upper()
            message = f"{kind}(...) is only allowed in GROUP BY and, as a table function, in FROM"
            hint = f"use {kind}_START(...) and {kind}_END(...) for the bounds of the window"
            raise error_at(sql, message, call, hint=hint)


@dataclass
class _Rewrite:
    """Rewrite of one SELECT and the window in its GROUP BY."""

    select: exp.Select
    window: exp.Anonymous
    sql: str

    def run(self) -> None:
        self.kind = self.window.name.upper()
        self._check_arguments()
        where = self.select.args.get("where")
        for call in _calls_in(self.select, ("where",)):
            if call.name.upper() in _AUXILIARIES:
                message = (
                    f"{call.name.upper()} is not available in WHERE, which filters rows "
                    "before windows are assigned"
                )
                raise self._error(message, "use HAVING for conditions on windows", call)
        uses_time = self._replace_auxiliaries()
        _refuse_misplaced(self.select, self.window, self.sql)
        start, end, time = GROUP_WINDOW_COLUMNS
        keys = [start, end, *([time] if uses_time else [])]
        function = self._function(self._other_keys)
        # The keys of a join have new names by this time.
        others = self._other_keys
        self.select.args["group"].set("expressions", [*map(column, keys), *others])
        self.select.set("from_", exp.From(this=function))
        if self._has_several_sources:
            for clause in ("joins", "laterals", "where"):
                self.select.set(clause, None)
        elif where is not None:
            # WHERE moves into the data: a row it drops must not extend a session.
            self.select.set("where", None if self.kind == "SESSION" else where)

    @property
    def _other_keys(self) -> list[exp.Expr]:
        return [key for key in self.select.args["group"].expressions if key is not self.window]

    def _error(self, message: str, hint: str, call: exp.Expr | None = None) -> AnalysisError:
        """Return an error about the window, or about a call that belongs to it."""
        return error_at(self.sql, message, call, self.window, hint=hint)

    def _check_arguments(self) -> None:
        n_wanted, n_given = len(_PARAMETERS[self.kind]) + 1, len(self.window.expressions)
        if n_given != n_wanted:
            raise self._error(
                f"{self.kind} in GROUP BY takes {n_wanted} arguments, got {n_given}",
                f"use GROUP BY {_usage(self.kind)}, or TABLE({self.kind}(...)) for an offset",
            )
        time = self.window.expressions[0].unnest()
        if isinstance(time, exp.Literal):
            raise self._error(
                f"the time of {self.kind} must be a column or an expression, but is a literal",
                "write the name of the time column without quotes",
            )
        if self.kind == "SESSION" and has_groupings(self.select.args["group"]):
            raise self._error(
                "SESSION in GROUP BY does not support GROUPING SETS, CUBE or ROLLUP",
                "use FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), gap))",
            )
        if self.select.args.get("from_") is None:
            raise self._error(f"{self.kind} requires FROM", "add FROM with the table")

    # -- auxiliary functions -------------------------------------------------------------------

    def _replace_auxiliaries(self) -> bool:
        """Replace TUMBLE_START and the like by window columns; True if one is the window's time."""
        uses_time = False
        roles = dict(zip(("START", "END", "ROWTIME"), GROUP_WINDOW_COLUMNS, strict=True))
        for item in list(self.select.expressions):
            if not isinstance(item, exp.Alias) and any(
                call.name.upper() in _AUXILIARIES for call in item.find_all(exp.Anonymous)
            ):
                is_call = isinstance(item, exp.Anonymous)
                auxiliary = _AUXILIARIES.get(item.name.upper() if is_call else "")
                name = _PROPERTIES[auxiliary[1]] if auxiliary else to_sql(item)
                item.replace(alias(item, name))
        for call in list(_calls_in(self.select, ("expressions", *_CLAUSES))):
            auxiliary = _AUXILIARIES.get(call.name.upper())
            if auxiliary is None:
                continue
            self._check_match(call, auxiliary[0])
            if auxiliary[1] == "PROCTIME":
                # PROCTIME() was rewritten to this before.
                call.replace(exp.Anonymous(this="CURRENT_TIMESTAMP"))
                continue
            uses_time = uses_time or auxiliary[1] == "ROWTIME"
            new = column(roles[auxiliary[1]])
            copy_place(new.this, call)
            call.replace(new)
        return uses_time

    def _check_match(self, call: exp.Anonymous, kind: str) -> None:
        same = len(call.expressions) == len(self.window.expressions) and all(
            _same_argument(a, b)
            for a, b in zip(call.expressions, self.window.expressions, strict=True)
        )
        if kind != self.kind or not same:
            arguments = ", ".join(to_sql(arg) for arg in self.window.expressions)
            ending = call.name.upper().removeprefix(kind)
            message = f"{call.name.upper()} does not match the {self.kind} in GROUP BY"
            raise self._error(message, f"use {self.kind}{ending}({arguments})", call)

    # -- the source ----------------------------------------------------------------------------

    @property
    def _has_several_sources(self) -> bool:
        return any(self.select.args.get(key) for key in ("joins", "laterals"))

    def _function(self, others: list[exp.Expr]) -> WindowFunctionCall:
        """Return the window table function over the relation in FROM."""
        time = self.window.expressions[0]
        data, name, computed = self._data(time, others)
        this = exp.Var(this=self.kind)
        this.meta.update(self.window.meta)
        function = WindowFunctionCall(
            this=copy_place(this, self.window),
            data=data,
            timecol=computed[0],
            names=[identifier(column_name) for column_name in GROUP_WINDOW_COLUMNS],
        )
        if self.kind == "SESSION" and others:
            # Sessions of a group window are per group, not global.
            function.set("partition", [exp.Column(this=key.copy()) for key in computed[1:]])
        for parameter, value in zip(
            _PARAMETERS[self.kind], self.window.expressions[1:], strict=True
        ):
            function.set(parameter, value.copy())
        if name is not None:
            function.set("alias", exp.TableAlias(this=identifier(name)))
        return function

    def _data(
        self, time: exp.Expr, others: list[exp.Expr]
    ) -> tuple[exp.Expr, str | None, list[exp.Identifier]]:
        """Return the data, its name, and the names of the time column and the session keys."""
        source = self.select.args["from_"].this
        columns = [time, *(others if self.kind == "SESSION" else [])]
        if self._has_several_sources:
            return self._join_columns(source, columns)
        name = source.alias_or_name or None
        plain = [_plain_name(expr, name) for expr in columns]
        is_versioned = source.args.get("when") or source.args.get("version")
        is_plain = not (has_other_parts(source) or is_versioned or source.alias_column_names)
        is_named = isinstance(source, exp.Subquery) or (
            isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
        )
        where = self.select.args.get("where") if self.kind == "SESSION" else None
        if is_plain and is_named and all(plain) and where is None:
            data = source.copy()
            data.set("alias", None)
            return data, name, [p for p in plain if p is not None]
        names = [
            p or _hidden_name(i, expr)
            for i, (p, expr) in enumerate(zip(plain, columns, strict=True))
        ]
        items: list[exp.Expr] = [exp.Star()]
        items += [
            alias(expr, new.name)
            for expr, old, new in zip(columns, plain, names, strict=True)
            if old is None
        ]
        inner = select_items(items, source.copy(), where=where and where.copy())
        return exp.Subquery(this=inner), name, names

    def _join_columns(
        self, source: exp.Expr, columns: list[exp.Expr]
    ) -> tuple[exp.Expr, str | None, list[exp.Identifier]]:
        """Return a join as a subquery of the columns read above it, each under a unique name."""
        sources = [source, *(join.this for join in self.select.args.get("joins") or [])]
        sources += self.select.args.get("laterals") or []
        relations = {s.alias_or_name.lower() for s in sources}
        names = [f"{ROWTIME}{i or ''}" for i in range(len(columns))]
        items = [alias(expr, name) for expr, name in zip(columns, names, strict=True)]
        self.window.set("expressions", [column(ROWTIME), *self.window.expressions[1:]])
        taken: dict[str, exp.Expr] = {}
        aliases = {i.alias.lower() for i in self.select.expressions if isinstance(i, exp.Alias)}
        for part in _parts_of(self.select, ("expressions", "group", *_CLAUSES)):
            for col in list(part.find_all(exp.Column)):
                parts = list(col.parts)
                is_qualified = len(parts) > 1 and parts[0].name.lower() in relations
                is_alias = len(parts) == 1 and parts[0].name.lower() in aliases
                ours = parts[0].name in (*GROUP_WINDOW_COLUMNS, *names)
                if ours or (is_alias and part.arg_key in _CLAUSES):
                    continue
                base = exp.Column(
                    this=parts[is_qualified].copy(),
                    table=parts[0].copy() if is_qualified else None,
                )
                name = _unique(parts[is_qualified].name, base, taken)
                new: exp.Expr = column(name)
                new.this.meta.update(parts[-1].meta)
                rest = parts[is_qualified + 1 :]
                if rest:
                    new = exp.Dot.build([new, *(r.copy() for r in rest)])
                if col.parent is self.select and name != parts[-1].name:
                    new = alias(new, parts[-1].name)
                col.replace(new)
        items += [alias(expr, name) for name, expr in taken.items()]
        inner = select_from_same(self.select, items, ("from_", "joins", "laterals", "where"))
        return exp.Subquery(this=inner), None, [identifier(name) for name in names]


def _hidden_name(number: int, expr: exp.Expr) -> exp.Identifier:
    """Return a column name for an expression, with the expression's position."""
    name = identifier(f"{ROWTIME}{number or ''}")
    copy_place(name, expr)
    return name


def _plain_name(expr: exp.Expr, relation: str | None) -> exp.Identifier | None:
    """Return the column's name if the expression is a plain column of the relation."""
    expr = expr.unnest()
    if not isinstance(expr, exp.Column) or not isinstance(expr.this, exp.Identifier):
        return None
    is_own = len(expr.parts) == 2 and expr.table.lower() == (relation or "").lower()
    return expr.this.copy() if is_own or not expr.table else None


def _unique(name: str, base: exp.Expr, taken: dict[str, exp.Expr]) -> str:
    """Return a unique name for a column of a join. The same column always gets the same name."""
    for taken_name, expr in taken.items():
        if canonical(expr) == canonical(base):
            return taken_name
    candidate, number = name, 1
    while candidate.lower() in {taken_name.lower() for taken_name in taken}:
        candidate, number = f"{name}${number}", number + 1
    taken[candidate] = base
    return candidate


def _same_argument(a: exp.Expr, b: exp.Expr) -> bool:
    """Return whether two arguments are equal as text without table names, or as intervals."""
    if canonical(a) == canonical(b):
        return True
    if isinstance(a, exp.Column) and isinstance(b, exp.Column):
        return a.name.lower() == b.name.lower()
    try:
        return fold_interval(a) == fold_interval(b)
    except AnalysisError:
        return False
