"""Types of expressions in a client's query, as far as its text and the tables tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from planner.sql.nodes import CHANGELOGS, KeywordCall, MultiUnitInterval, WindowFunctionCall
from runtime.spec.table import Column
from sqlwin.server.postgres.reader import TYPE_NAME
from sqlwin.server.postgres.types import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    TIMES,
    UNKNOWN,
    base_type,
)

# Returns the columns of a table or view, none if it cannot be read
ColumnsOf = Callable[[tuple[str, ...]], Sequence[Column]]

_WINDOW_COLUMNS = ("window_start", "window_end")
_RESULTS = {
    name: kind
    for kind, names in {
        "bigint": "count row_number rank dense_rank ntile count_if approx_count_distinct",
        "int": "size datediff length char_length character_length octet_length bit_length ascii "
        "position strpos "
        "instr cardinality array_length extract_int sign_int year month day",
        "double": "median percentile sqrt cbrt exp ln log log10 power pow pi random sin cos tan "
        "asin acos atan atan2 "
        "degrees radians stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop "
        "covar_samp percent_rank cume_dist date_part percentile_cont regr_slope regr_intercept",
        "string": "lower upper trim ltrim rtrim btrim substr substring left right concat concat_ws "
        "replace to_char lpad rpad repeat reverse initcap split_part regexp_replace string_agg md5 "
        "translate chr overlay date_format encode listagg to_hex array_to_string",
        "boolean": "bool_and bool_or every exists starts_with startswith regexp_like isfinite",
        "date": "to_date make_date current_date last_day",
        "timestamp": "now clock_timestamp statement_timestamp transaction_timestamp to_timestamp "
        "make_timestamptz current_timestamp to_timestamp_ltz",
        "timestamp_ntz": "make_timestamp localtimestamp",
        "interval": "age make_interval",
        "binary": "decode",
    }.items()
    for name in names.split()
}
# Functions whose result has the type of an argument
_SAME = {
    name: place
    for place, names in {
        0: "percentile_approx approx_percentile min max any_value first_value last_value first "
        "last nth_value lag lead abs nullif mode "
        "greatest least coalesce ifnull nvl mod ceil ceiling floor round trunc sign "
        "percentile_disc",
        1: "date_trunc date_bin",
    }.items()
    for name in names.split()
}
_MIXED = frozenset("coalesce greatest least ifnull nvl".split())
_BOOLEAN = (
    exp.Predicate,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Boolean,
    exp.RegexpLike,
    exp.SimilarTo,
)


class Types:
    """Types of the expressions of one statement. A type that is not known is None."""

    def __init__(self, columns_of: ColumnsOf, declared: Callable[[exp.Expr], str]) -> None:
        self._columns_of = columns_of
        self._declared = declared
        self._of_tables: dict[tuple[str, ...], dict[str, str]] = {}
        # types by the identity of the node, because an operand is asked for more than once
        self._known: dict[int, str | None] = {}
        # subqueries whose columns are being typed: a LATERAL one sees those before it only
        self._open: set[int] = set()

    def of(self, node: exp.Expr | None) -> str | None:
        """Return the type of an expression: Spark's name, or UNKNOWN for a string without one."""
        if id(node) not in self._known:
            self._known[id(node)] = None  # meanwhile, for expressions that depend on themselves
            self._known[id(node)] = self._of(node)
        return self._known[id(node)]

    def _of(self, node: exp.Expr | None) -> str | None:
        match node:
            case exp.Literal():
                return self._literal(node)
            case exp.Placeholder():
                return self._declared(node)
            case exp.Null():
                return UNKNOWN
            case exp.Cast() | exp.TryCast():
                return self._cast(node.to)
            case exp.Paren() | exp.Alias() | exp.Filter() | exp.Window() | exp.Neg():
                return self.of(node.this)
            case exp.WithinGroup():
                return self._within_group(node)
            case exp.IgnoreNulls() | exp.RespectNulls() | exp.Ordered():
                return self.of(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Interval() | MultiUnitInterval():
                return "interval"
            case exp.Subquery():
                items = node.this.selects if isinstance(node.this, exp.Query) else ()
                return self.of(items[0]) if len(items) == 1 else None
            case exp.Case():
                values = [branch.args["true"] for branch in node.args["ifs"]]
                return self.common([*values, node.args.get("default")])
            case exp.If():
                return self.common([node.args.get("true"), node.args.get("false")])
            case exp.DPipe():
                left = self.of(node.this) or ""
                return left if left.startswith("array<") else "string"
            case exp.Pow():
                return "double"
            case exp.IntDiv() | exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                return self.common([node.this, node.expression])
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._arithmetic(node)
            case exp.AtTimeZone():
                return "timestamp" if self.of(node.this) == "timestamp_ntz" else "timestamp_ntz"
            case exp.Array():
                kind = self.common(node.expressions)
                return None if kind is None else f"array<{_settled(kind)}>"
            case exp.CurrentDate():
                return "date"
            case exp.CurrentTimestamp():
                return "timestamp"
            case exp.Localtimestamp():
                return "timestamp_ntz"
            case KeywordCall():
                return self._keyword_call(node)
            case exp.Anonymous():
                return self._call(node)
            case exp.Dot():
                return self.of(node.expression) if isinstance(node.expression, exp.Func) else None
        return "boolean" if isinstance(node, _BOOLEAN) else None

    def common(self, nodes: Sequence[exp.Expr | None]) -> str | None:
        """Return the type in which several values meet."""
        return _meeting({self.of(node) for node in nodes if node is not None})

    def _literal(self, node: exp.Literal) -> str:
        if node.is_string:
            return UNKNOWN
        text = node.name
        if not text.isdigit():
            return "decimal"
        return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else "decimal"

    def _cast(self, to: exp.DataType) -> str | None:
        if to.meta.get(TYPE_NAME) is not None and to.this == exp.DType.INTERVAL:
            return "interval"
        return base_type(to.sql(dialect="spark"))

    def _within_group(self, node: exp.WithinGroup) -> str | None:
        kind = self.of(node.this)
        if node.this.name.lower() in ("percentile_disc", "mode"):
            return self.of(node.expression.expressions[0].this)
        return kind

    def _arithmetic(self, node: exp.Binary) -> str | None:
        left, right = self.of(node.this), self.of(node.expression)
        if isinstance(node, exp.Sub) and left in TIMES and right in TIMES:
            return "int" if left == right == "date" else "interval"
        for one, other in ((left, right), (right, left)):
            if one in TIMES and other == "interval":
                return "timestamp_ntz" if one == "date" else one
            if one == "date" and other in (*INTEGERS, UNKNOWN):
                return "date"
            if one == "interval" and other in (*NUMBERS, "interval", UNKNOWN):
                return "interval"
        kind = self.common([node.this, node.expression])
        return kind if kind in NUMBERS else None

    def _keyword_call(self, node: KeywordCall) -> str | None:
        name = node.name.lower()
        if name == "extract":
            return "decimal"
        return self.of(node.expressions[0]) if name in ("ceil", "floor") else _RESULTS.get(name)

    def _call(self, node: exp.Anonymous) -> str | None:
        name, args = node.name.lower(), node.expressions
        args = [arg.this if isinstance(arg, exp.Order) else arg for arg in args]
        args = [arg.expressions[0] if isinstance(arg, exp.Distinct) else arg for arg in args]
        if name in ("sum", "avg") and args:
            kind = self.of(args[0])
            if kind in FLOATS or kind is None or kind == "interval":
                return "double" if kind in FLOATS else kind
            return "bigint" if name == "sum" and kind in INTEGERS[:3] else "decimal"
        if name in _MIXED:
            return self.common(args)
        if name in _SAME and len(args) > _SAME[name]:
            kind = self.of(args[_SAME[name]])
            if name in ("ceil", "ceiling", "floor", "round", "trunc") and kind in INTEGERS:
                return "double"
            if name == "date_trunc":
                return "timestamp" if kind in ("date", UNKNOWN) else kind
            return kind
        if name == "array_agg" and args:
            kind = self.of(args[0])
            return None if kind is None else f"array<{_settled(kind)}>"
        if name in ("unnest", "explode", "any_value") and args:
            kind = self.of(args[0]) or ""
            return kind[len("array<") : -1] if kind.startswith("array<") else None
        if name == "generate_series" and args:
            return self.of(args[0])
        if name == "timezone" and len(args) == 2:
            return "timestamp" if self.of(args[1]) == "timestamp_ntz" else "timestamp_ntz"
        return _RESULTS.get(name)

    # -- columns -------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> str | None:
        name, qualifier = node.name.lower(), node.table.lower()
        scope = node.find_ancestor(exp.Select)
        while scope is not None:
            kinds = [
                columns[name]
                for alias, columns in self.sources(scope)
                if name in columns and qualifier in ("", alias)
            ]
            if kinds:
                return kinds[0] or None
            for item in scope.selects:  # an alias in ORDER BY or GROUP BY
                is_item = item.find_ancestor(exp.Select) is scope and node in item.walk()
                if isinstance(item, exp.Alias) and item.alias.lower() == name and not is_item:
                    return self.of(item.this)
            scope = scope.find_ancestor(exp.Select)
        change = node.find_ancestor(exp.Delete, exp.Update)
        if change is not None and isinstance(change.this, exp.Table):
            columns = self._table(change.this, change)
            return columns.get(name) or None
        return None

    def sources(self, select: exp.Select) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the alias of each source of a SELECT, with its columns of known types."""
        from_ = select.args.get("from_")
        joins = select.args.get("joins") or ()
        for item in [from_, *joins]:
            if item is not None:
                yield from self._source(item.this, select)

    def _source(self, item: exp.Expr, select: exp.Select) -> Iterator[tuple[str, dict[str, str]]]:
        for join in item.args.get("joins") or ():
            yield from self._source(join.this, select)
        if isinstance(item, exp.Paren):
            yield from self._source(item.this, select)
            return
        alias = item.alias_or_name.lower()
        columns: dict[str, str] = {}
        if isinstance(item, WindowFunctionCall):
            for data in filter(None, (item.args["data"], item.args.get("bounds"))):
                for name, inner in self._source(data, select):
                    alias = alias or name
                    columns |= inner
            if item.kind not in CHANGELOGS:
                columns |= dict.fromkeys(_WINDOW_COLUMNS, "timestamp_ntz")
            time = item.args.get("timecol")
            if time is not None and time.name.lower() in columns:
                columns["window_time"] = columns[time.name.lower()]
        elif isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            columns = self._table(item, select)
        elif isinstance(item, exp.Values):
            columns = self._values(item)
        elif isinstance(item, exp.Subquery | exp.Lateral) and isinstance(item.this, exp.Values):
            columns = self._values(item.this)
        elif isinstance(item, exp.Table) and isinstance(item.this, exp.Anonymous | exp.Array):
            columns = {alias: self.of(item.this) or ""}
        elif isinstance(item, exp.Unnest) and len(item.expressions) == 1:
            kind = self.of(item.expressions[0]) or ""
            columns = {alias: kind[len("array<") : -1] if kind.startswith("array<") else ""}
        elif isinstance(item, exp.Subquery | exp.Lateral):
            query = item.this.this if isinstance(item.this, exp.Subquery) else item.this
            if isinstance(query, exp.Query) and id(query) not in self._open:
                self._open.add(id(query))
                columns = self._query(query)
                self._open.discard(id(query))
        named = item.args.get("alias")
        names = [each.name.lower() for each in named.columns] if named is not None else []
        if names and len(names) <= len(columns):
            renamed = dict(zip(names, columns.values(), strict=False))
            columns = renamed | dict(list(columns.items())[len(names) :])
        yield alias, columns

    def _values(self, values: exp.Values) -> dict[str, str]:
        rows = [row.expressions for row in values.expressions if isinstance(row, exp.Tuple)]
        kinds = (self.common(column) or "" for column in zip(*rows, strict=False))
        return {f"column{place}": _settled(kind) for place, kind in enumerate(kinds, 1)}

    def _table(self, table: exp.Table, select: exp.Expr) -> dict[str, str]:
        if not table.db:
            scope: exp.Expr | None = select
            while scope is not None:
                with_ = scope.args.get("with_")
                for cte in with_.expressions if with_ is not None else ():
                    if cte.alias.lower() == table.name.lower() and cte is not table.find_ancestor(
                        exp.CTE
                    ):
                        columns = self._query(cte.this)
                        names = [each.name.lower() for each in cte.args["alias"].columns]
                        return dict(zip(names, columns.values(), strict=False)) or columns
                scope = scope.parent
        name = tuple(part.name for part in table.parts)
        if name not in self._of_tables:
            self._of_tables[name] = {
                column.name.lower(): base_type(column.type) for column in self._columns_of(name)
            }
        return self._of_tables[name]

    def _query(self, query: exp.Query) -> dict[str, str]:
        """Return the columns of a query; those without a known type have the type ""."""
        if isinstance(query, exp.SetOperation):
            left, right = self._query(query.this), self._query(query.expression)
            if len(left) != len(right):
                return {}
            pairs = zip(left.values(), right.values(), strict=True)
            kinds = [_meeting({*pair}) or "" for pair in pairs]
            return dict(zip(left, kinds, strict=True))
        if isinstance(query, exp.Subquery):
            return self._query(query.this) if isinstance(query.this, exp.Query) else {}
        if not isinstance(query, exp.Select):
            return {}
        columns: dict[str, str] = {}
        for item in query.selects:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star):
                wanted = item.table.lower() if isinstance(item, exp.Column) else ""
                for alias, inner in self.sources(query):
                    if wanted in ("", alias):
                        columns |= inner
            else:
                columns[item.alias_or_name.lower()] = self.of(item) or ""
        return columns


def _meeting(kinds: set[str | None]) -> str | None:
    known = {kind for kind in kinds if kind} - {UNKNOWN}
    if None in kinds or "" in kinds:
        return None
    if len(known) <= 1:
        return next(iter(known), UNKNOWN)
    for ranks in ((*INTEGERS, "decimal", *FLOATS), TIMES):
        if known <= set(ranks):
            return max(known, key=ranks.index)
    return None


def _settled(kind: str) -> str:
    return "string" if kind == UNKNOWN else kind
