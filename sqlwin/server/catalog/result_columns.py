"""Names and types of the columns of a catalog query, in PostgreSQL's terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlwin.server.catalog.relations import (
    INFORMATION_SCHEMA,
    PG_CATALOG,
    CatalogRelation,
    catalog_relations,
)
from sqlwin.server.catalog.type_names import type_named

UNNAMED = "?column?"
# Types of functions; others are text
_RETURNS = {
    **dict.fromkeys(
        "array_length array_upper array_lower array_position cardinality position length "
        "pg_backend_pid generate_subscripts row_number".split(),
        "int4",
    ),
    **dict.fromkeys(
        "count pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size "
        "pg_database_size txid_current pg_sequence_last_value".split(),
        "int8",
    ),
    **dict.fromkeys(("to_regclass", "regclass"), "regclass"),
    **dict.fromkeys(
        "current_schema current_database current_user session_user pg_get_userbyid".split(), "name"
    ),
    "current_schemas": "_name",
    "string_to_array": "_text",
    "starts_with": "bool",
}  # fmt: skip
_BOOLEANS = (
    exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean, exp.LogicalOr, exp.LogicalAnd,
    exp.Operator, exp.RegexpLike, exp.RegexpILike,
)  # fmt: skip
# Functions that give the type of their first argument
_OF_ARGUMENT = (
    exp.Coalesce,
    exp.Nullif,
    exp.Max,
    exp.Min,
    exp.Paren,
    exp.Greatest,
    exp.Least,
    exp.Distinct,
    exp.Order,
    exp.Collate,
    exp.Ordered,
    exp.Filter,
    exp.Window,
)


@dataclass(frozen=True)
class OutputColumn:
    """A column of a query: its name, and PostgreSQL's internal name of its type."""

    name: str
    type: str


def output_columns(query: exp.Expr) -> list[OutputColumn]:
    """Return the columns of a query as the client wrote it."""
    if isinstance(query, exp.SetOperation):
        return output_columns(query.this)
    if isinstance(query, exp.Subquery | exp.Paren):
        return output_columns(query.this)
    if not isinstance(query, exp.Select):
        return []
    columns: list[OutputColumn] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            columns += [column for _, source in sources(query) for column in source]
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            of_table = [source for name, source in sources(query) if name == item.table.lower()]
            columns += [column for source in of_table for column in source]
        else:
            columns.append(OutputColumn(output_name(item), type_of(item)))
    return columns


def output_name(item: exp.Expr) -> str:
    """Return the name that PostgreSQL gives to an item of SELECT."""
    match item:
        case exp.Alias() | exp.Column():
            identifier = item.args["alias"] if isinstance(item, exp.Alias) else item.this
            return identifier_name(identifier)
        case exp.Cast():
            name = output_name(item.this)
            return name if name != UNNAMED else type_named(item.to.sql("postgres")) or UNNAMED
        case exp.Case():
            return "case"
        case exp.Dot():
            return (
                output_name(item.expression) if isinstance(item.expression, exp.Func) else item.name
            )
        case exp.Bracket() | exp.Paren() | exp.Collate():
            return output_name(item.this)
        case exp.Subquery():
            columns = output_columns(item)
            return columns[0].name if columns else UNNAMED
        case exp.Explode():
            return "unnest"
        case exp.GroupConcat():
            return "string_agg"
        case exp.ExplodingGenerateSeries():
            return "generate_series"
        case exp.Func() if not isinstance(item, exp.Binary | exp.Connector):
            return function_name(item)
        case _:
            return UNNAMED


def identifier_name(identifier: exp.Expr | str) -> str:
    """Return a name as PostgreSQL reads it: in lower case unless it is quoted."""
    if isinstance(identifier, str):
        return identifier.lower()
    return identifier.name if identifier.args.get("quoted") else identifier.name.lower()


def function_name(call: exp.Func) -> str:
    """Return the name of a function in lower case."""
    if isinstance(call, exp.Anonymous):
        return str(call.name).lower()
    return str(call.sql_name()).lower()


def relation_of(table: exp.Table) -> CatalogRelation | None:
    """Return the catalog that a table of a query names, None for a table of the session."""
    schema = table.db.lower() or PG_CATALOG
    if schema not in (PG_CATALOG, INFORMATION_SCHEMA) or not isinstance(table.this, exp.Identifier):
        return None
    return catalog_relations().get((schema, identifier_name(table.this)))


def sources(select: exp.Select) -> Iterator[tuple[str, list[OutputColumn]]]:
    """Yield the tables and subqueries of FROM: their names and columns."""
    from_ = select.args.get("from_")
    parts = [] if from_ is None else [from_.this]
    for join in select.args.get("joins") or ():
        parts.append(join.this)
    parts += select.args.get("laterals") or ()
    while parts:
        part = parts.pop(0)
        nested = [join.this for join in part.args.get("joins") or ()]
        if isinstance(part, exp.Paren) or (
            isinstance(part, exp.Subquery) and isinstance(part.this, exp.Table)
        ):
            parts[:0] = [part.this, *nested]
            continue
        yield part.alias_or_name.lower(), _source_columns(part)
        parts[:0] = nested


def _source_columns(part: exp.Expr) -> list[OutputColumn]:
    alias = part.args.get("alias")
    renamed = [] if alias is None else [identifier_name(column) for column in alias.columns]
    columns: list[OutputColumn] = []
    if isinstance(part, exp.Table) and isinstance(part.this, exp.Identifier):
        shared = common_table(part)
        relation = relation_of(part)
        if shared is not None:
            columns = _cte_columns(shared)
        elif relation is not None:
            columns = [OutputColumn(name, type_) for name, type_ in relation.columns.items()]
    elif isinstance(part, exp.Subquery):
        columns = output_columns(part.this)
    elif isinstance(part, exp.Values):
        rows = part.expressions
        columns = [
            OutputColumn(f"column{n}", type_of(item))
            for n, item in enumerate(rows[0].expressions, 1)
        ]
    elif isinstance(part, exp.Unnest | exp.Lateral | exp.Table):
        element = next(iter(part.find_all(exp.Column, exp.Cast, exp.Array)), None)
        type_ = element_type(type_of(element)) if element is not None else "int4"
        name = renamed[0] if renamed else part.alias_or_name.lower()
        columns = [OutputColumn(name, type_)]
        offset = part.args.get("offset")
        if offset is not None:
            columns.append(OutputColumn(identifier_name(offset), "int8"))
        return columns
    return [
        OutputColumn(renamed[place], column.type) if place < len(renamed) else column
        for place, column in enumerate(columns)
    ]


def _cte_columns(table: exp.CTE) -> list[OutputColumn]:
    names = [identifier_name(column) for column in table.args["alias"].columns]
    query = table.this
    # a recursive query has the columns of its first part
    columns = output_columns(query.this if isinstance(query, exp.SetOperation) else query)
    return [
        OutputColumn(names[place], column.type) if place < len(names) else column
        for place, column in enumerate(columns)
    ]


def common_table(table: exp.Table) -> exp.CTE | None:
    """Return the query of WITH that a table names, None if it names none."""
    if table.db:
        return None
    scope: exp.Expr | None = table
    while scope is not None:
        with_ = scope.args.get("with_")
        for shared in with_.expressions if with_ is not None else ():
            if shared.alias.lower() == table.name.lower():
                return shared  # type: ignore[no-any-return]
        scope = scope.parent
    return None


def element_type(array: str) -> str:
    """Return the type of an array's elements."""
    if array in ("int2vector", "oidvector"):
        return array.removesuffix("vector")
    return array.removeprefix("_")


def type_of(node: exp.Expr) -> str:
    """Return PostgreSQL's internal name of an expression's type, text if it is unknown."""
    match node:
        case exp.Alias():
            return type_of(node.this)
        case exp.Column():
            return _column_type(node)
        case exp.Cast():
            return type_named(node.to.sql("postgres")) or "text"
        case exp.Literal():
            return "text" if node.is_string else "numeric" if "." in node.name else "int4"
        case exp.Neg():
            return type_of(node.this)
        case exp.Case():
            results = [case.args["true"] for case in node.args["ifs"]]
            results += [node.args["default"]] if node.args.get("default") else []
            results = [result for result in results if not isinstance(result, exp.Null)]
            return type_of(results[0]) if results else "text"
        case exp.Subquery():
            columns = output_columns(node)
            return columns[0].type if columns else "text"
        case exp.Select() | exp.SetOperation():
            return output_columns(node)[0].type
        case exp.ArrayAgg():
            return f"_{type_of(node.this)}"
        case exp.Array():
            return f"_{type_of(node.expressions[0])}" if node.expressions else "_text"
        case exp.Bracket():
            return element_type(type_of(node.this))
        case exp.Explode():
            return element_type(type_of(node.this))
        case exp.ExplodingGenerateSeries():
            return "int4"
        case exp.Dot():
            if isinstance(node.expression, exp.Func):
                return type_of(node.expression)
            return "int4" if node.name in ("n", "x") else "text"
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Div():
            return type_of(node.this)
        case exp.Max() | exp.Min() | exp.Coalesce():
            return type_of(node.this)
    if isinstance(node, _BOOLEANS):
        return "bool"
    if isinstance(node, _OF_ARGUMENT):
        return type_of(node.this)
    if isinstance(node, exp.Func):
        name = function_name(node)
        if (
            name.startswith("has_")
            or name.endswith("_is_visible")
            or name.startswith("pg_is_")
            or name == "pg_has_role"
        ):
            return "bool"
        return _RETURNS.get(name, "text")
    return "text"


def _column_type(column: exp.Column) -> str:
    name, table = identifier_name(column.this), column.table.lower()
    scope = column.find_ancestor(exp.Select)
    while scope is not None:
        for source, columns in sources(scope):
            if table in ("", source):
                match_ = next((item.type for item in columns if item.name == name), None)
                if match_ is not None:
                    return match_
        scope = scope.find_ancestor(exp.Select)
    return "text"
