"""A client's catalog query as a query of SQLite."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sqlwin.server.catalog.errors import CatalogQueryError
from sqlwin.server.catalog.parts import CatalogPart, parts_of
from sqlwin.server.catalog.relations import (
    FLOATS,
    INFORMATION_SCHEMA,
    INTEGERS,
    PG_CATALOG,
    VECTORS,
    types,
)
from sqlwin.server.catalog.result_columns import (
    OutputColumn,
    common_table,
    function_name,
    identifier_name,
    output_columns,
    output_name,
    relation_of,
    sources,
    type_of,
)
from sqlwin.server.catalog.tables import sqlite_name
from sqlwin.server.catalog.type_names import type_named

# Functions with rows that no session has, and their columns
_WITHOUT_ROWS = {
    "aclexplode": ("grantor", "grantee", "privilege_type", "is_grantable"),
    "pg_get_publication_tables": ("relid",),
    "pg_listening_channels": ("pg_listening_channels",),
    "pg_lock_status": ("locktype", "pid"),
    "pg_options_to_table": ("option_name", "option_value"),
    "pg_timezone_names": ("name", "abbrev", "utc_offset", "is_dst"),
}
# Words that PostgreSQL reserves and the standard does not
_KEYWORDS = json.dumps(
    "analyse analyze concurrently do freeze ilike isnull limit notnull offset".split()
)
# Functions that return rows, which are arrays here
_WITH_ROWS = frozenset(("unnest", "generate_series", "generate_subscripts", "_pg_expandarray"))
# Names of functions that sqlglot has classes for
_NAMES: dict[type[exp.Func], str] = {
    exp.ArraySize: "array_length",
    exp.ArrayToString: "array_to_string",
    exp.CurrentDatabase: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentUser: "session_user",
    exp.CurrentVersion: "version",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.GenerateSeries: "generate_series",
    exp.Format: "format",
    exp.RegexpReplace: "regexp_replace",
    exp.SessionUser: "session_user",
    exp.SplitPart: "split_part",
    exp.StartsWith: "starts_with",
    exp.StringToArray: "string_to_array",
    exp.Substring: "substring",
}
_OTHER_NAMES = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_OPERATORS = {"~": (False, False), "~*": (False, True), "!~": (True, False), "!~*": (True, True)}
# Words that SQLite reserves, and PostgreSQL takes as names after AS
_RESERVED = frozenset(
    "add alter commit create delete drop escape exists foreign group having index insert isnull "
    "join notnull primary references set table to transaction unique update using values "
    "where".split()
)


# Functions that only PostgreSQL has, and that ask for the connection or for the catalogs
_ONLY_POSTGRES = frozenset(
    "col_description current_schemas current_setting format_type inet_client_addr "
    "inet_server_addr inet_server_port obj_description quote_ident session_user set_config "
    "shobj_description to_regclass to_regtype txid_current current_database current_schema "
    "current_user version".split()
)


@dataclass(frozen=True)
class CatalogQuery:
    """A query of SQLite.

    Attributes:
        sql: Its text, with the parameters `:p1`, `:p2`.
        columns: Its columns, with PostgreSQL's types.
        parameter_types: PostgreSQL's types of the parameters.
        parts: Parts of the session's objects that it needs.
    """

    sql: str
    columns: tuple[OutputColumn, ...]
    parameter_types: tuple[str, ...]
    parts: frozenset[CatalogPart]


def rewrite_query(query: exp.Expr) -> CatalogQuery:
    """Return a catalog query of PostgreSQL as one of SQLite.

    Raises:
        CatalogQueryError: The query names an unknown catalog relation, or has a part that SQLite
            lacks.
    """
    query = query.copy()
    _name_parts(query)
    columns = tuple(output_columns(query))
    parameters = _parameter_types(query)
    for column in list(query.find_all(exp.Column)):
        if column.name.lower() == "tableoid":
            column.replace(exp.convert(_oid_of_table(column)))
    # types depend on the tables, so all are found before anything is replaced
    for node in query.find_all(exp.Cast, exp.Bracket):
        node.meta["type"] = type_of(node.this)
    root = exp.Paren(this=query)
    _rewrite(query)
    parts = parts_of(root.this, [column.type for column in columns])
    return CatalogQuery(root.this.sql("sqlite"), columns, parameters, parts)


def is_catalog_query(statement: exp.Expr | None) -> bool:
    """Return whether a statement asks for PostgreSQL's catalogs, or for the client's connection."""
    if not isinstance(statement, exp.Query):
        return False
    tables = [table for table in statement.find_all(exp.Table) if common_table(table) is None]
    named = [table for table in tables if isinstance(table.this, exp.Identifier)]
    if any(_is_catalog(table) for table in named):
        return True
    if named:
        return False
    return any(_is_only_postgres(call) for call in statement.find_all(exp.Func)) or any(
        (type_named(cast.to.sql("postgres")) or "").startswith("reg")
        for cast in statement.find_all(exp.Cast)
    )


def _is_catalog(table: exp.Table) -> bool:
    if table.db:
        return table.db.lower() in (PG_CATALOG, INFORMATION_SCHEMA)
    return table.name.lower().startswith("pg_") and relation_of(table) is not None


def _is_only_postgres(call: exp.Func) -> bool:
    name = _NAMES.get(type(call)) or function_name(call)
    is_of_catalogs = name.startswith(("pg_", "_pg_", "has_")) and name != "pg_typeof"
    return name in _ONLY_POSTGRES or is_of_catalogs


def _name_parts(query: exp.Expr) -> None:
    """Drop schemas of functions and collations, and name the items of SELECT as PostgreSQL does."""
    for dot in list(query.find_all(exp.Dot)):
        if isinstance(dot.expression, exp.Func) and isinstance(
            dot.this, exp.Identifier | exp.Column
        ):
            dot.replace(dot.expression)
    for collate in list(query.find_all(exp.Collate)):
        collate.replace(collate.this)
    for select in query.find_all(exp.Select):
        _expand_star(select)
        for item in select.expressions:
            if not isinstance(item, exp.Alias | exp.Column | exp.Star):
                name = exp.to_identifier(output_name(item), quoted=True)
                item.replace(exp.Alias(this=item.copy(), alias=name))


def _expand_star(select: exp.Select) -> None:
    """Replace `*` by columns if FROM has a function, which has more columns in SQLite."""
    has_function = any(
        isinstance(part, exp.Unnest) or isinstance(part.this, exp.Func)
        for part in select.find_all(exp.Unnest, exp.Lateral, exp.Table)
        if part.find_ancestor(exp.Select) is select
    )
    if has_function and select.is_star:
        items: list[exp.Expr] = []
        for item in select.expressions:
            is_star = isinstance(item, exp.Star) or isinstance(item.this, exp.Star)
            wanted = item.table if isinstance(item, exp.Column) else ""
            if not is_star:
                items.append(item)
                continue
            for name, columns in sources(select):
                if wanted.lower() in ("", name):
                    items += [exp.column(column.name, name, quoted=True) for column in columns]
        select.set("expressions", items)


def _oid_of_table(column: exp.Column) -> int:
    """Return the OID of the relation that a column is from, 0 if it is from no relation."""
    scope = column.find_ancestor(exp.Select)
    for table in scope.find_all(exp.Table) if scope is not None else ():
        relation = relation_of(table)
        if relation is not None and column.table.lower() in ("", table.alias_or_name.lower()):
            return relation.oid
    return 0


def _parameter_types(query: exp.Expr) -> tuple[str, ...]:
    found: dict[int, str] = {}
    for parameter in query.find_all(exp.Parameter):
        number, parent = int(parameter.name), parameter.parent
        type_ = type_named(parent.to.sql("postgres")) if isinstance(parent, exp.Cast) else None
        if isinstance(parent, exp.Binary) and not isinstance(parent, exp.Dot):
            other = parent.expression if parent.this is parameter else parent.this
            type_ = type_of(other) if isinstance(other, exp.Column) else None
        found[number] = type_ or found.get(number, "text")
    return tuple(found.get(number, "text") for number in range(1, max(found, default=0) + 1))


def _rewrite(node: exp.Expr) -> None:
    """Replace the parts of a tree, from its leaves up."""
    if isinstance(node, exp.DataType | exp.ObjectIdentifier):
        return
    for child in list(node.iter_expressions()):
        _rewrite(child)
    for kind in type(node).__mro__:
        rule = _RULES.get(kind)
        if rule is not None:
            new = rule(node)
            if new is not node:
                node.replace(new)
            return


def _call(name: str, *arguments: exp.Expr | str | int) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[exp.convert(item) for item in arguments])


# -- names -----------------------------------------------------------------------------------------


def _identifier(node: exp.Identifier) -> exp.Expr:
    if not node.args.get("quoted"):
        node.set("this", node.name.lower())
        node.set("quoted", node.name in _RESERVED)
    return node


def _column(node: exp.Column) -> exp.Expr:
    node.set("db", None)
    node.set("catalog", None)
    if node.name in ("current_catalog", "user") and not node.table:
        return _call("current_database" if node.name == "current_catalog" else "session_user")
    return node


def _table(node: exp.Table) -> exp.Expr:
    if isinstance(node.this, exp.Func):
        return _function_in_from(node, node.this, node.args.get("alias"))
    if common_table(node) is not None:
        return node
    relation = relation_of(node)
    if relation is None:
        name = f"{node.db}.{node.name}" if node.db else node.name
        raise CatalogQueryError("42P01", f'relation "{name}" is not one of PostgreSQL\'s catalogs')
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name)))
    node.set("db", None)
    if relation.schema == INFORMATION_SCHEMA:
        name = sqlite_name(relation.schema, relation.name).strip('"')
        node.set("this", exp.to_identifier(name, quoted=True))
    return node


def _parameter(node: exp.Parameter) -> exp.Expr:
    return exp.Placeholder(this=f"p{node.name}")


# -- functions -------------------------------------------------------------------------------------


def _function(node: exp.Func) -> exp.Expr:
    name = _NAMES.get(type(node))
    if name is None:
        return node
    arguments: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        items = value if isinstance(value, list) else [value]
        arguments += [item for item in items if isinstance(item, exp.Expr)]
    return _call(name, *arguments)


def _anonymous(node: exp.Anonymous) -> exp.Expr:
    name = function_name(node)
    node.set("this", _OTHER_NAMES.get(name, name))
    return node


def _trim(node: exp.Trim) -> exp.Expr:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    characters = [node.expression] if node.expression else []
    return _call(name, node.this, *characters)


def _position(node: exp.StrPosition) -> exp.Expr:
    return _call("position", node.this, node.args["substr"])


def _aggregate(name: str) -> Callable[[exp.Func], exp.Expr]:
    def rule(node: exp.Func) -> exp.Expr:
        value, keys = node.this, []
        is_distinct = isinstance(value, exp.Distinct)
        if is_distinct:
            value = value.expressions[0]
        if isinstance(value, exp.Order):
            for key in value.expressions:
                keys += [key.this, exp.convert(int(bool(key.args.get("desc"))))]
            value = value.this
        separator = [node.args.get("separator") or exp.convert("")] if name == "string_agg" else []
        return _call(name, value, *separator, *keys)

    return rule


def _regex(ignores_case: bool) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: _call("pg_regex", node.this, node.expression, int(ignores_case))


def _ilike(node: exp.ILike) -> exp.Expr:
    return exp.Like(this=exp.Lower(this=node.this), expression=exp.Lower(this=node.expression))


def _operator(node: exp.Operator) -> exp.Expr:
    """`a OPERATOR(pg_catalog.~) b`, as psql writes operators."""
    name = str(node.args["operator"]).rpartition(".")[2]
    if name == "=":
        return _comparison(exp.EQ(this=node.this, expression=node.expression))
    if name not in _OPERATORS:
        raise CatalogQueryError("42883", f"operator does not exist: {name}")
    is_negated, ignores_case = _OPERATORS[name]
    call = _call("pg_regex", node.this, node.expression, int(ignores_case))
    return exp.Not(this=call) if is_negated else call


def _comparison(node: exp.Binary) -> exp.Expr:
    """Replace `a = ANY (array)` and `a <> ALL (array)`."""
    right = node.expression
    quantifier = function_name(right) if isinstance(right, exp.Anonymous) else ""
    if isinstance(right, exp.Any) or quantifier in ("any", "some"):
        is_any = True
    elif isinstance(right, exp.All) or quantifier == "all":
        is_any = False
    else:
        return node
    items = right.expressions[0] if quantifier else right.this
    while isinstance(items, exp.Paren):
        items = items.this
    if isinstance(items, exp.Subquery | exp.Select):
        inside = items.this if isinstance(items, exp.Subquery) else items
        among: exp.Expr = exp.In(this=node.this, query=exp.Subquery(this=inside))
    else:
        among = _call("array_has", items, node.this)
    if isinstance(node, exp.EQ) and is_any:
        return among
    if isinstance(node, exp.NEQ) and not is_any:
        return exp.Not(this=among)
    raise CatalogQueryError("0A000", "catalog queries have only = ANY and <> ALL")


def _double_pipe(node: exp.DPipe) -> exp.Expr:
    sides = (node.this, node.expression)
    if any(side.name in ("json_array", "array_in") for side in sides):
        return _call("array_cat", *sides)
    return node


# -- casts and arrays ------------------------------------------------------------------------------


def _cast(node: exp.Cast) -> exp.Expr:
    value: exp.Expr = node.this
    target, source = type_named(node.to.sql("postgres")), node.meta["type"]
    sql_name = node.to.sql("postgres").lower().replace("pg_catalog.", "")
    match target or sql_name:
        case "regclass":
            return value if source == "regclass" else _call("regclass_in", value)
        case "regtype" | "regnamespace" | "regproc" as name:
            return value if source == name else _call(f"to_{name}", value)
        case "regrole" | "regprocedure" | "regoper":
            return value
        case "bool":
            return _call("to_boolean", value)
    if target is not None and types()[target].is_array:
        is_number = types()[target].name.removeprefix("_") in INTEGERS
        return _call("array_in", value, int(is_number))
    if target in INTEGERS:
        if source in ("regclass", "regtype"):
            return value
        return exp.Cast(this=value, to=exp.DataType.build("INTEGER", dialect="sqlite"))
    if target in FLOATS:
        return exp.Cast(this=value, to=exp.DataType.build("REAL", dialect="sqlite"))
    if target in ("text", "varchar", "bpchar", "name", "char"):
        return text_of(value, source)
    return value


def text_of(value: exp.Expr, source: str) -> exp.Expr:
    """Return an expression of a type as text."""
    if source == "bool":
        return _call("bool_text", value)
    if source in ("regclass", "regnamespace"):
        return _call(f"{source}_text", value)
    if source == "regtype":
        return _call("pg_typeof_name", value)
    return exp.Cast(this=value, to=exp.DataType.build("TEXT", dialect="sqlite"))


def _array(node: exp.Array) -> exp.Expr:
    items = node.expressions
    if len(items) == 1 and isinstance(items[0], exp.Select | exp.SetOperation):
        inside = exp.Subquery(this=items[0], alias=exp.TableAlias(this=exp.to_identifier("items")))
        name = items[0].selects[0].alias_or_name
        value = exp.Column(this=exp.to_identifier(name, quoted=True))
        query = exp.Select(expressions=[_call("json_group_array", value)]).from_(inside)
        return exp.Subquery(this=query)
    return _call("json_array", *items)


def _bracket(node: exp.Bracket) -> exp.Expr:
    """Replace `array[index]`. Vectors begin at 0. sqlglot has subtracted 1 from numbers."""
    index = node.expressions[0]
    if isinstance(index, exp.Slice):
        raise CatalogQueryError("0A000", "catalog queries have no slices of arrays")
    is_vector, is_shifted = node.meta["type"] in VECTORS, isinstance(index, exp.Literal | exp.Neg)
    if is_vector and is_shifted:
        index = exp.Add(this=index, expression=exp.convert(1))
    elif not is_vector and not is_shifted:
        index = exp.Sub(this=index, expression=exp.convert(1))
    return _call("array_element", node.this, index)


def _dot(node: exp.Dot) -> exp.Expr:
    """Replace `(record).field`. Records are JSON."""
    return _call("json_extract", node.this, f"$.{node.name.lower()}")


def _text_with_escapes(node: exp.ByteString) -> exp.Expr:
    r"""Replace E'a\n'."""
    return exp.convert(codecs.decode(node.name.replace("''", "'"), "unicode_escape"))


# -- functions with rows ---------------------------------------------------------------------------


def _is_with_rows(node: exp.Expr) -> bool:
    return isinstance(node, exp.Explode) or (
        isinstance(node, exp.Anonymous) and node.name in _WITH_ROWS
    )


def _array_of(call: exp.Expr) -> exp.Expr:
    """Return the array with the rows of a function."""
    if isinstance(call, exp.Explode):
        argument: exp.Expr = call.this
        return argument
    if call.name in ("unnest", "_pg_expandarray"):
        argument = call.expressions[0]
        return argument
    return call


def _each(array: exp.Expr, alias: str) -> exp.Table:
    return exp.Table(
        this=_call("json_each", array), alias=exp.TableAlias(this=exp.to_identifier(alias))
    )


def _select(node: exp.Select) -> exp.Expr:
    """Move functions with rows from SELECT to FROM, row by row as PostgreSQL does."""
    for number, item in enumerate(node.expressions):
        for call in [
            part for part in item.find_all(exp.Explode, exp.Anonymous) if _is_with_rows(part)
        ]:
            if call.find_ancestor(exp.Select) is not node:
                continue
            alias = f"rows_{number}_{len(node.args.get('joins') or ())}"
            value: exp.Expr = exp.column("value", alias)
            if isinstance(call, exp.Anonymous) and call.name == "_pg_expandarray":
                place = exp.Add(this=exp.column("key", alias), expression=exp.convert(1))
                value = _call("json_object", "x", value, "n", place)
            table = _each(_array_of(call).copy(), alias)
            call.replace(value)
            if node.args.get("from_") is None:
                node.set("from_", exp.From(this=table))
                continue
            earlier = [
                join.this
                for join in node.args.get("joins") or ()
                if join.this.alias.startswith("rows_")
            ]
            on = None
            if earlier:
                on = exp.EQ(
                    this=exp.column("key", alias), expression=exp.column("key", earlier[0].alias)
                )
            node.append("joins", exp.Join(this=table, kind=None if on else "CROSS", on=on))
    return node


def _function_in_from(node: exp.Expr, call: exp.Expr, alias: exp.TableAlias | None) -> exp.Expr:
    """Return a function of FROM as a table, and rename its columns in the query."""
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    shown = alias.name if alias is not None and alias.name else name or "unnest"
    if name in _WITHOUT_ROWS:
        nothing = [exp.alias_(exp.null(), column) for column in _WITHOUT_ROWS[name]]
        query = exp.Select(expressions=nothing).where(exp.false())
        return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(shown)))
    if name == "pg_get_keywords":
        words = _each(exp.convert(_KEYWORDS), "keywords")
        word = exp.alias_(exp.column("value", "keywords"), "word")
        query = exp.Select(expressions=[word, exp.alias_(exp.convert("R"), "catcode")]).from_(words)
        return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(shown)))
    if not _is_with_rows(call):
        # a function with one value, such as current_schema() in FROM
        query = exp.Select(expressions=[exp.alias_(call.copy(), shown)])
        return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(shown)))
    names = [identifier_name(column) for column in alias.columns] if alias is not None else []
    offset = node.args.get("offset") or node.args.get("ordinality")
    if isinstance(offset, exp.Expr) and offset.name:
        names = [*(names or [shown]), offset.name.lower()]
    if not names:
        names = ["x", "n"] if name == "_pg_expandarray" else [shown]
    scope = node.find_ancestor(exp.Select)
    for column in list(scope.find_all(exp.Column)) if scope is not None else ():
        if column.table in ("", shown) and column.name in names[:2]:
            if column.name == names[0]:
                new: exp.Expr = exp.column("value", shown)
            else:
                new = exp.Paren(
                    this=exp.Add(this=exp.column("key", shown), expression=exp.convert(1))
                )
            if isinstance(column.parent, exp.Select) and column.arg_key == "expressions":
                new = exp.alias_(new, column.name, quoted=True)
            column.replace(new)
    return _each(_array_of(call).copy(), shown)


def _unnest(node: exp.Unnest) -> exp.Expr:
    if len(node.expressions) != 1:
        raise CatalogQueryError("0A000", "unnest of catalog queries has one array")
    call = _call("unnest", node.expressions[0])
    if isinstance(node.parent, exp.From | exp.Join | exp.Lateral):
        return _function_in_from(node, call, node.args.get("alias"))
    return call


def _lateral(node: exp.Lateral) -> exp.Expr:
    inside = node.this
    if isinstance(inside, exp.Subquery):
        raise CatalogQueryError("0A000", "catalog queries have no LATERAL subqueries")
    if isinstance(inside, exp.Table):
        return inside
    return _function_in_from(node, inside, node.args.get("alias"))


_RULES: dict[type, Callable[..., exp.Expr]] = {
    exp.Identifier: _identifier,
    exp.Column: _column,
    exp.Table: _table,
    exp.Parameter: _parameter,
    exp.Cast: _cast,
    exp.Array: _array,
    exp.ByteString: _text_with_escapes,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.ArrayAgg: _aggregate("array_agg"),
    exp.GroupConcat: _aggregate("string_agg"),
    exp.LogicalOr: lambda node: _call("bool_or", node.this),
    exp.LogicalAnd: lambda node: _call("bool_and", node.this),
    exp.RegexpLike: _regex(False),
    exp.RegexpILike: _regex(True),
    exp.ILike: _ilike,
    exp.Operator: _operator,
    exp.EQ: _comparison,
    exp.NEQ: _comparison,
    exp.DPipe: _double_pipe,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Unnest: _unnest,
    exp.Lateral: _lateral,
    exp.Select: _select,
    exp.Anonymous: _anonymous,
    exp.Func: _function,
}
