"""Output columns of simple queries, without Spark's analyser.

Anything uncertain is left to Spark: constructs not listed here, names that could be wrong, and
everything that Spark might reject. The result therefore always equals Spark's, and no result means
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.catalog import Schema, column_named
from planner.scalars.functions import FUNCTIONS
from planner.scalars.inference import (
    ONLY_SPARK,
    ColumnScope,
    NamedSchema,
    UnknownPart,
    is_aggregate,
    is_grouping,
    require,
    require_no_aggregate,
)
from planner.scalars.trees import OPERATORS
from planner.scalars.types import VOID, is_ordered
from planner.sql.build import has_only, is_flat_type, to_sql
from runtime.refusal import Refusal, Refused, refuse, tried
from runtime.spec.table import Column

# Supported parts of a SELECT
_UNDERSTOOD = (
    "expressions from_ joins where group having order limit offset distinct kind with_".split()
)
_SUBQUERY = ("this", "alias")
_UNION = ("this", "expression", "with_", "order", "limit", "offset")
_JOIN = ("this", "side", "kind", "on", "using")
# Sides of a join whose columns become nullable: left, right
_NULLABLE_SIDES = {
    "": (False, False),
    "LEFT": (False, True),
    "RIGHT": (True, False),
    "FULL": (True, True),
}


def output_schema(query: exp.Expr, relations: Mapping[str, Schema]) -> Schema | None:
    """Return the columns of a query as Spark's analyser would, or None if unknown.

    Args:
        query: Spark SQL.
        relations: Columns of its tables by lower-case name.
    """
    result = tried(require_schema, query, relations)
    return None if isinstance(result, Refusal) else result


def require_schema(query: exp.Expr, relations: Mapping[str, Schema]) -> Schema:
    """Return the columns of a query. Arguments are as in `output_schema`.

    Raises:
        Refused: They are unknown; `UnknownPart` with the part at fault.
    """
    if isinstance(query, exp.Subquery) and has_only(query, _SUBQUERY):
        return require_schema(query.this, relations)
    if with_ := query.args.get("with_"):
        require(not with_.args.get("recursive"))
        for cte in with_.expressions:
            require(not cte.args["alias"].columns)
            relations = {**relations, cte.alias.lower(): require_schema(cte.this, relations)}
    if isinstance(query, exp.Union):
        return _union(query, relations)
    if not isinstance(query, exp.Select):
        raise UnknownPart(Refusal(ONLY_SPARK), query)
    for key, clause in query.args.items():
        first = clause[0] if isinstance(clause, list) and clause else clause
        require(not clause or key in _UNDERSTOOD, first if isinstance(first, exp.Expr) else query)
    scope = _scope(query, relations)
    if query.args.get("where"):
        condition = query.args["where"].this
        require_no_aggregate(condition)
        scope.condition(condition)
    distinct = query.args.get("distinct")
    require(distinct is None or not distinct.args.get("on"))
    grouped = _Grouped.of(query, scope)
    columns: list[Column] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            require(grouped is None and bool(scope.relations) and has_only(item, set()))
            columns += scope.columns
            continue
        if isinstance(item, exp.Column) and item.is_star:
            columns += _columns_of(item, grouped, scope)
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        value = scope.part(inner)
        require(value.type != VOID, inner)
        name = _name_of_column(item)
        is_optional = grouped is not None and grouped.check(inner)
        columns.append(Column(name, value.type, value.nullable or is_optional))
    names = [column.name.lower() for column in columns]
    having, order = query.args.get("having"), query.args.get("order")
    results = replace(scope, results=tuple(columns))
    if having:
        if grouped is None:
            refuse(ONLY_SPARK)
        grouped.check(having.this, names)
        results.condition(having.this)
    for ordered in order.expressions if order else ():
        require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
        by = ordered.this
        if _is_position(by, columns):
            continue
        if isinstance(by, exp.Column) and not by.table and by.name.lower() in names:
            require(names.count(by.name.lower()) == 1)
            require(is_ordered(columns[names.index(by.name.lower())].type))
            continue
        if grouped is not None:
            grouped.check(by, names)
        require(distinct is None)
        require(is_ordered(results.part(by).type), by)
    _check_counts(query)
    return tuple(columns)


def _name_of_column(item: exp.Expr) -> str:
    """Return the name of the column of an item of a select list."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    try:
        return name_of(item)
    except Refused as refused:
        raise UnknownPart(
            Refusal("only Spark knows the name of a column without AS"), item
        ) from refused


def _columns_of(star: exp.Column, grouped: _Grouped | None, scope: ColumnScope) -> Schema:
    """Return the columns of `t.*`. As in Spark, the columns of USING come first."""
    require(grouped is None and has_only(star, {"this", "table"}) and has_only(star.this, set()))
    found = [schema for name, schema in scope.relations if name == star.table.lower()]
    require(len(found) == 1)
    merged = [column.name.lower() for column in scope.merged]
    by_name = {name: place for place, name in enumerate(merged)}
    return tuple(sorted(found[0], key=lambda c: by_name.get(c.name.lower(), len(merged))))


def _is_position(by: exp.Expr, columns: Sequence[Column]) -> bool:
    """Return whether an item of ORDER BY is the position of a column."""
    if not isinstance(by, exp.Literal):
        return False
    require(by.is_int and 0 < int(by.this) <= len(columns))
    require(is_ordered(columns[int(by.this) - 1].type))
    return True


def _check_counts(query: exp.Query) -> None:
    """Check that LIMIT and OFFSET are numbers."""
    for key, kind in (("limit", exp.Limit), ("offset", exp.Offset)):
        if (clause := query.args.get(key)) is not None:
            count = clause.expression if isinstance(clause, kind) else None
            require(isinstance(count, exp.Literal) and count.is_int)


def _union(query: exp.Union, relations: Mapping[str, Schema]) -> Schema:
    """Return the columns of a UNION ALL of equal columns, named by the first side."""
    require(not query.args.get("distinct") and has_only(query, _UNION), query)
    left, right = require_schema(query.this, relations), require_schema(query.expression, relations)
    require([column.type for column in left] == [column.type for column in right], query)
    columns = tuple(
        Column(left_column.name, left_column.type, left_column.nullable or other.nullable)
        for left_column, other in zip(left, right, strict=True)
    )
    order = query.args.get("order")
    for ordered in order.expressions if order else ():
        require(isinstance(ordered, exp.Ordered) and not ordered.args.get("with_fill"))
        by = ordered.this
        if not _is_position(by, columns):
            require(isinstance(by, exp.Column) and not by.table)
            require(is_ordered(ColumnScope(((None, columns),)).value(by).type))
    _check_counts(query)
    return columns


def _scope(query: exp.Select, relations: Mapping[str, Schema]) -> ColumnScope:
    """Return the names in scope for the clauses of a SELECT."""
    source = query.args.get("from_")
    if source is None:
        require(not query.args.get("joins"))
        return ColumnScope(())
    scope = ColumnScope((_relation(source.this, relations),))
    for join in query.args.get("joins") or ():
        side, kind = join.side.upper(), join.kind.upper()
        require(has_only(join, _JOIN), join)
        is_filter = kind in ("SEMI", "ANTI")
        require(side in _NULLABLE_SIDES and (is_filter or kind in ("", "INNER", "OUTER")), join)
        right = _relation(join.this, relations)
        names = [name for name, _ in (*scope.relations, right)]
        require(None not in names and len(set(names)) == len(names), join)
        using = [named.name for named in join.args.get("using") or ()]
        require(bool(using) != (join.args.get("on") is not None), join)
        if not using:
            ColumnScope((*scope.relations, right), merged=scope.merged).condition(join.args["on"])
        of_both = [_merged(*_pair(name, scope.columns, right[1]), side) for name in using]
        is_left, is_right = _NULLABLE_SIDES[side]
        _, before = _optional((None, scope.merged), is_left)
        others = (c for c in before if c.name.lower() not in {name.lower() for name in using})
        left = tuple(_optional(relation, is_left) for relation in scope.relations)
        both = left if is_filter else (*left, _optional(right, is_right))
        scope = ColumnScope(both, merged=(*of_both, *others))
    return scope


def _pair(name: str, left: Schema, right: Schema) -> tuple[Column, Column]:
    """Return the columns of both sides of a join that USING compares."""
    sides = [[c for c in side if c.name.lower() == name.lower()] for side in (left, right)]
    require(all(len(side) == 1 for side in sides))
    (of_left,), (of_right,) = sides
    require(of_left.type == of_right.type and is_ordered(of_left.type))
    return of_left, of_right


def _merged(left: Column, right: Column, side: str) -> Column:
    """Return the column that USING makes of a column of each side."""
    if side == "FULL":
        return replace(left, nullable=True)
    return right if side == "RIGHT" else left


def _optional(relation: NamedSchema, is_optional: bool) -> NamedSchema:
    """Return a relation with nullable columns if a join may have no row for it."""
    name, schema = relation
    return name, tuple(replace(c, nullable=c.nullable or is_optional) for c in schema)


def _relation(source: exp.Expr, relations: Mapping[str, Schema]) -> NamedSchema:
    """Return the qualifier and columns of a relation in FROM."""
    if isinstance(source, exp.Values):
        return source.alias.lower() or None, _values(source)
    require(has_only(source, _SUBQUERY) and not source.alias_column_names)
    if isinstance(source, exp.Subquery):
        return source.alias.lower() or None, require_schema(source.this, relations)
    schema = relations.get(source.name.lower()) if isinstance(source, exp.Table) else None
    if schema is None:
        refuse(ONLY_SPARK)
    return source.alias_or_name.lower(), schema


def _values(source: exp.Values) -> Schema:
    """Return the columns of VALUES whose types are equal in all rows, or VOID for NULLs only."""
    require(has_only(source, ("expressions", "alias")))
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in source.expressions]
    names = source.alias_column_names or [f"col{i + 1}" for i in range(len(rows[0]))]
    require(all(len(row) == len(names) for row in rows))
    columns = []
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        values = [ColumnScope(()).value(cell) for cell in cells if not isinstance(cell, exp.Null)]
        require(all(value.type == values[0].type for value in values))
        is_optional = len(values) < len(cells) or any(value.nullable for value in values)
        columns.append(Column(name, values[0].type if values else "void", is_optional))
    require(len({name.lower() for name in names}) == len(names))
    return tuple(columns)


@dataclass(frozen=True)
class _Grouped:
    """Grouping of a query.

    Attributes:
        columns: Lower-case names of the keys that are columns.
        texts: SQL of all keys.
        optional: Keys, as in `texts`, that are NULL in some grouping set.
        has_sets: Whether there are grouping sets.
    """

    columns: frozenset[str]
    texts: frozenset[str]
    optional: frozenset[str] = frozenset()
    has_sets: bool = False

    @classmethod
    def of(cls, query: exp.Select, scope: ColumnScope) -> _Grouped | None:
        """Return the grouping of a query, or None without GROUP BY and aggregates."""
        group = query.args.get("group")
        below = (*query.expressions, query.args.get("having"), query.args.get("order"))
        nested = next((inner for part in below if part and (inner := part.find(exp.Query))), None)
        require(nested is None, nested)
        if group is None:
            calls = [call for part in below if part for call in part.find_all(exp.Anonymous)]
            is_total = any(map(is_aggregate, calls))
            return cls(frozenset(), frozenset()) if is_total else None
        sets = _sets(group)
        keys = [_key(key, query, scope) for part in sets for key in part]
        for key in keys:
            require_no_aggregate(key)
            require(is_flat_type(scope.part(key).type), key)
        texts = [frozenset(_text(_key(key, query, scope)) for key in part) for part in sets]
        everything = frozenset[str]().union(*texts)
        always = everything.intersection(*texts)
        names = frozenset(key.name.lower() for key in keys if isinstance(key, exp.Column))
        return cls(
            names, everything, everything - always, bool(list(group.find_all(exp.GroupingSets)))
        )

    def check(self, node: exp.Expr, results: list[str] | None = None) -> bool:
        """Check that columns outside aggregates are in keys.

        Args:
            node: The expression.
            results: Names of the select list, if they may be used too.

        Returns:
            Whether a grouping set may make the expression NULL.
        """
        if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
            return False
        if is_grouping(node):
            require(self.has_sets and all(_text(key) in self.texts for key in node.expressions))
            return False
        text = _text(node)
        if text in self.texts:
            return text in self.optional
        if isinstance(node, exp.Column):
            name = node.name.lower()
            if name not in self.columns and name not in (results or ()):
                raise UnknownPart(Refusal(f"{to_sql(node)} is not in GROUP BY"), node)
            return any(name == key.rpartition("`.`")[2].strip("`") for key in self.optional)
        return any([self.check(part, results) for part in node.iter_expressions()])


def _sets(group: exp.Group) -> list[list[exp.Expr]]:
    """Return the keys of each grouping set; a plain GROUP BY has one."""
    require(has_only(group, {"expressions", "grouping_sets"}), group)
    parts = [*group.expressions, *(group.args.get("grouping_sets") or ())]
    if not any(isinstance(part, exp.GroupingSets) for part in parts):
        return [parts]
    require(len(parts) == 1)
    (sets,) = parts
    return [
        list(part.expressions) if isinstance(part, exp.Tuple) else [part]
        for part in sets.expressions
    ]


def _key(key: exp.Expr, query: exp.Select, scope: ColumnScope) -> exp.Expr:
    """Return the expression of a key, which may be the position or the name of an item."""
    items = query.expressions
    if isinstance(key, exp.Literal):
        require(key.is_int and 0 < int(key.this) <= len(items))
        item: exp.Expr = items[int(key.this) - 1].unalias()
        return item
    if isinstance(key, exp.Column) and column_named(scope.columns, key.name) is None:
        named = [item.this for item in items if item.alias.lower() == key.name.lower()]
        require(len(named) == 1)
        return named[0]  # type: ignore[no-any-return]
    return key.unnest()


def _text(node: exp.Expr) -> str:
    """Return the SQL of an expression. Equal texts have equal values."""
    return to_sql(node.unnest()).lower()


# Operators that Spark names as they are written
_NAMED = frozenset("+ - * / = > >= < <=".split())


def name_of(item: exp.Expr) -> str:
    """Return Spark's name of an item of a select list without an alias."""
    match item:
        case exp.Paren():
            return name_of(item.this)
        case exp.Column():
            return item.name
        case exp.Literal() if item.is_string or item.is_int:
            return str(item.this)
        case exp.Neg() if isinstance(item.this, exp.Literal) and item.this.is_int:
            return f"-{item.this.this}"
        case exp.Boolean():
            return str(item.this).lower()
        case _ if (operator := OPERATORS.get(type(item))) in _NAMED:
            return f"({name_of(item.this)} {operator} {name_of(item.expression)})"
        case exp.Anonymous() if item.name.upper() in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
            arguments = item.expressions
            require(bool(arguments) and (len(arguments) == 1 or item.name.upper() == "COUNT"))
            if isinstance(arguments[0], exp.Star):
                require(item.name.upper() == "COUNT" and len(arguments) == 1)
                return "count(1)"
            distinct = isinstance(arguments[0], exp.Distinct)
            parts = arguments[0].expressions if distinct else arguments
            text = ", ".join(name_of(part) for part in parts)
            return f"{item.name.lower()}({'DISTINCT ' * distinct}{text})"
        case exp.Filter():
            return f"{name_of(item.this)} FILTER (WHERE {name_of(item.expression.this)})"
        case exp.Anonymous() if _is_named(item):
            return f"{item.name.lower()}({', '.join(map(name_of, item.expressions))})"
    refuse(ONLY_SPARK)


def _is_named(call: exp.Anonymous) -> bool:
    """Return whether Spark names a call by its text, in lower case."""
    function = FUNCTIONS.get(call.name.upper())
    if function is None or not function.is_named:
        return False
    return function.n_args[1] in (None, len(call.expressions))
