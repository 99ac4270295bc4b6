"""PostgreSQL's functions and operators for catalog queries, as functions of SQLite.

Arrays are JSON texts, booleans the integers 0 and 1, OIDs integers.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from functools import cache
from typing import Any

from sqlwin.server.catalog.errors import CatalogQueryError
from sqlwin.server.catalog.relations import NAMESPACES, PG_CATALOG, PUBLIC, types
from sqlwin.server.catalog.tables import ClientFacts
from sqlwin.server.catalog.type_names import format_type, type_named

# -- texts -----------------------------------------------------------------------------------------


@cache
def _pattern(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _matches(value: str | None, pattern: str | None, ignores_case: int) -> bool | None:
    if value is None or pattern is None:
        return None
    flags = re.IGNORECASE if ignores_case else 0
    return _pattern(pattern, flags).search(str(value)) is not None


def _like(pattern: str | None, value: str | None, escape: str | None = "\\") -> bool | None:
    """PostgreSQL's LIKE: it respects case, and a backslash escapes."""
    if pattern is None or value is None:
        return None
    return (
        _pattern(_like_regex(str(pattern), escape or ""), re.DOTALL).fullmatch(str(value))
        is not None
    )


@cache
def _like_regex(pattern: str, escape: str) -> str:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(parts)


def _quote_ident(name: str | None) -> str | None:
    if name is None or re.fullmatch(r"[a-z_][a-z0-9_$]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _quote_literal(value: object) -> str | None:
    return None if value is None else "'" + str(value).replace("'", "''") + "'"


def _format(template: str | None, *values: Any) -> str | None:
    if template is None:
        return None
    rest = iter(values)

    def spell(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        value = next(rest, None)
        if match[1] == "I":
            return _quote_ident(None if value is None else str(value)) or ""
        if match[1] == "L":
            return _quote_literal(value) or "NULL"
        return "" if value is None else str(value)

    return re.sub(r"%([sIL%])", spell, template)


def _regexp_replace(value: str | None, pattern: str, by: str = "", flags: str = "") -> str | None:
    if value is None:
        return None
    by = re.sub(r"\\(\d)", r"\\g<\1>", by.replace("\\&", r"\g<0>"))
    count = 0 if "g" in flags else 1
    return _pattern(pattern, re.IGNORECASE if "i" in flags else 0).sub(by, value, count=count)


def _substring(value: str | None, start: Any, length: int | None = None) -> str | None:
    """SUBSTRING with a place and a length, or with a regular expression."""
    if value is None or start is None:
        return None
    if isinstance(start, str):
        match = _pattern(start, 0).search(value)
        return None if match is None else match[1] if match.re.groups else match[0]
    end = None if length is None else max(start - 1 + length, 0)
    return str(value)[max(start - 1, 0) : end]


def _split_part(value: str | None, separator: str, number: int) -> str | None:
    if value is None:
        return None
    parts = value.split(separator)
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return value.strip().lower() in ("t", "true", "1", "on", "yes", "y")
    return None if value is None else bool(value)


# -- arrays ----------------------------------------------------------------------------------------


def array(value: Any) -> list[Any]:
    """Return the elements of an array: JSON, or PostgreSQL's text such as `{a,b}`."""
    if value is None:
        return []
    text = str(value)
    if not text.startswith("{"):
        elements: list[Any] = json.loads(text)
        return elements
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', text)
    return [
        re.sub(r"\\(.)", r"\1", inside) if inside or not bare else
        None if bare.strip().upper() == "NULL" else bare.strip()
        for inside, bare in quoted
    ]  # fmt: skip


def _array_in(value: Any, is_number: int) -> str | None:
    if value is None:
        return None
    elements = array(value)
    if is_number:
        elements = [None if element is None else int(element) for element in elements]
    return json.dumps(elements)


def _string_to_array(text: str | None, separator: str) -> str | None:
    return None if text is None else json.dumps(text.split(separator))


def _array_to_string(value: Any, separator: str, null: str | None = None) -> str | None:
    if value is None:
        return None
    texts = [null if element is None else str(element) for element in array(value)]
    return separator.join(text for text in texts if text is not None)


def _array_length(value: Any, dimension: int = 1) -> int | None:
    return (len(array(value)) or None) if value is not None and dimension == 1 else None


def _element(value: Any, index: int | None) -> Any:
    elements = array(value)
    return elements[index] if index is not None and 0 <= index < len(elements) else None


def _array_position(value: Any, element: Any) -> int | None:
    elements = array(value)
    return elements.index(element) + 1 if element in elements else None


def _array_has(value: Any, element: Any) -> bool | None:
    """`element = ANY(value)`, for elements of equal types or numbers as texts."""
    if value is None or element is None:
        return None
    return str(element) in {str(item) for item in array(value)}


def _array_append(first: Any, second: Any) -> str:
    return json.dumps([*array(first), *(array(second) if _is_array(second) else [second])])


def _array_remove(value: Any, element: Any) -> str | None:
    if value is None:
        return None
    return json.dumps([item for item in array(value) if str(item) != str(element)])


def _is_array(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("[", "{"))


def _series(start: int | None, stop: int | None, step: int = 1) -> str | None:
    if start is None or stop is None or not step:
        return None
    return json.dumps(list(range(start, stop + (1 if step > 0 else -1), step)))


def _subscripts(value: Any, dimension: int = 1) -> str:
    return json.dumps(list(range(1, len(array(value)) + 1)) if dimension == 1 else [])


class _Ordered:
    """Aggregate of values in the order of sort keys.

    Each row has a value, and for each sort key the key and whether it is descending.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[tuple[Any, ...], Any]] = []

    def step(self, value: Any, *keys: Any) -> None:
        """Add a row."""
        self.rows.append((keys, value))

    def values(self) -> list[Any]:
        """Return the values in order."""
        n_keys = len(self.rows[0][0]) if self.rows else 0
        for index in range(n_keys - 2, -1, -2):
            is_descending = bool(self.rows[0][0][index + 1])
            self.rows.sort(
                key=lambda row: (row[0][index] is None, _comparable(row[0][index])),
                reverse=is_descending,
            )
        return [value for _, value in self.rows]


def _comparable(key: Any) -> tuple[bool, float, str]:
    if isinstance(key, int | float):
        return (False, key, "")
    return (True, 0, "" if key is None else str(key))


class _ArrayAgg(_Ordered):
    def finalize(self) -> str | None:
        """Return the array, NULL without rows."""
        values = self.values()
        return json.dumps(values) if values else None


class _StringAgg(_Ordered):
    separator = ""

    def step(self, value: Any, *keys: Any) -> None:
        """Add a row, whose first key is the separator."""
        self.separator = keys[0] or ""
        if value is not None:
            super().step(value, *keys[1:])

    def finalize(self) -> str | None:
        """Return the joined texts, NULL without rows."""
        values = self.values()
        return self.separator.join(map(str, values)) if values else None


class _BoolAgg:
    """BOOL_OR and BOOL_AND."""

    def __init__(self, combine: Callable[[list[Any]], bool]) -> None:
        self.combine = combine
        self.values: list[Any] = []

    def step(self, value: Any) -> None:
        """Add a row."""
        if value is not None:
            self.values.append(value)

    def finalize(self) -> bool | None:
        """Return the result, NULL without values."""
        return self.combine(self.values) if self.values else None


# -- objects ---------------------------------------------------------------------------------------


class ObjectNames:
    """Names and OIDs of the objects in a catalog.

    Args:
        connection: The catalog. Its queries run within others of the same connection.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        classes = connection.execute("SELECT oid, relname, relnamespace, relkind FROM pg_class")
        self.error: Exception | None = None
        self._classes = {oid: (name, space, kind) for oid, name, space, kind in classes}
        self._oids = {(space, name): oid for oid, (name, space, _) in self._classes.items()}
        self._functions = dict(connection.execute("SELECT oid, proname FROM pg_proc"))
        views = connection.execute("SELECT viewname, definition FROM pg_views")
        self._views: dict[str, str] = dict(views)
        self._spaces = {oid: name for name, oid in NAMESPACES.items()}
        columns = "SELECT attrelid, attnum, attname FROM pg_attribute"
        self._columns = {(oid, number): name for oid, number, name in connection.execute(columns)}
        comments = "SELECT objoid, objsubid, description FROM pg_description"
        self._comments = {(oid, part): text for oid, part, text in connection.execute(comments)}
        indexes = "SELECT indexrelid, indrelid, indkey FROM pg_index"
        self._indexes = {
            oid: (table, json.loads(key)) for oid, table, key in connection.execute(indexes)
        }

    def class_name(self, oid: Any) -> str | None:
        """Return the name of a relation, as `regclass` prints it."""
        if oid is None:
            return None
        if int(oid) not in self._classes:
            return "-" if int(oid) == 0 else str(oid)
        name, space, _ = self._classes[int(oid)]
        quoted = _quote_ident(name) or ""
        visible = self._spaces[space] in (PUBLIC, PG_CATALOG)
        return quoted if visible else f"{self._spaces[space]}.{quoted}"

    def class_oid(self, name: Any) -> int | None:
        """Return the OID of a relation, None if there is none. Numbers are OIDs already."""
        if name is None or isinstance(name, int):
            return name
        if re.fullmatch(r"\d+", name):
            return int(name)
        parts = [
            quoted.replace('""', '"') if quoted else bare.lower()
            for quoted, bare in re.findall(r'"((?:[^"]|"")+)"|([^".]+)', name)
        ]
        spaces = (
            [NAMESPACES.get(parts[-2])]
            if len(parts) > 1
            else [NAMESPACES[PG_CATALOG], NAMESPACES[PUBLIC]]
        )
        return next(
            (self._oids[space, parts[-1]] for space in spaces if (space, parts[-1]) in self._oids),
            None,
        )

    def existing_class_oid(self, name: Any) -> int | None:
        """Return the OID of a relation.

        Raises:
            CatalogQueryError: There is no such relation.
        """
        oid = self.class_oid(name)
        if oid is None and name is not None:
            raise CatalogQueryError("42P01", f'relation "{name}" does not exist')
        return oid

    def keep_error(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that keeps its error in `error`, because SQLite does not pass it on."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self.error = error
                raise

        return call

    def is_visible(self, oid: Any) -> bool | None:
        """Return whether a relation is in a schema of the search path."""
        known = self._classes.get(oid)
        return None if known is None else self._spaces[known[1]] in (PUBLIC, PG_CATALOG)

    def view_definition(self, view: Any, pretty: Any = None) -> str | None:
        """Return the query of a view."""
        known = self._classes.get(self.class_oid(view) or 0)
        return None if known is None else self._views.get(known[0])

    def comment(self, oid: Any, part: Any = 0) -> str | None:
        """Return the comment of an object, or of a column."""
        return self._comments.get((oid, part if isinstance(part, int) else 0))

    def index_definition(self, oid: Any, column: int = 0, pretty: Any = None) -> str | None:
        """Return the definition of an index, or the name of one of its columns."""
        if oid not in self._indexes:
            return None
        table, key = self._indexes[oid]
        columns = [_quote_ident(self._columns[table, number]) or "" for number in key]
        if column:
            return columns[column - 1] if column <= len(columns) else ""
        name, _, _ = self._classes[oid]
        of_table = f"{PUBLIC}.{self.class_name(table)}"
        method = f"btree ({', '.join(columns)})"
        return f"CREATE UNIQUE INDEX {_quote_ident(name)} ON {of_table} USING {method}"

    def constraint_definition(self, oid: Any, pretty: Any = None) -> str | None:
        """Return the definition of a primary key."""
        if oid not in self._indexes:
            return None
        table, key = self._indexes[oid]
        columns = [_quote_ident(self._columns[table, number]) or "" for number in key]
        return f"PRIMARY KEY ({', '.join(columns)})"

    def function_name(self, oid: Any) -> str | None:
        """Return the name of a function, as `regproc` prints it."""
        if isinstance(oid, str):
            return oid.removeprefix("pg_catalog.")
        return None if oid is None else self._functions.get(oid, str(oid))


def namespace_name(oid: Any) -> str | None:
    """Return the name of a schema, as `regnamespace` prints it."""
    return next((name for name, number in NAMESPACES.items() if number == oid), None)


def _schemas(with_implicit: Any) -> str:
    return json.dumps([PG_CATALOG, PUBLIC] if with_implicit else [PUBLIC])


def _type_oid(name: Any) -> int | None:
    if name is None or isinstance(name, int):
        return name
    internal = type_named(name)
    return int(name) if re.fullmatch(r"\d+", name) else types()[internal].oid if internal else None


def _role_name(client: ClientFacts) -> Callable[[Any], str | None]:
    return lambda oid: None if oid is None else client.user


# -- registration ----------------------------------------------------------------------------------

# Functions without an effect here: privileges are the server's, and nothing is on disk
_TRUE = (
    "has_table_privilege has_any_column_privilege has_column_privilege has_schema_privilege "
    "has_database_privilege has_function_privilege has_sequence_privilege has_type_privilege "
    "has_tablespace_privilege has_language_privilege pg_has_role pg_type_is_visible "
    "pg_function_is_visible pg_operator_is_visible pg_collation_is_visible "
    "pg_opclass_is_visible pg_conversion_is_visible pg_opfamily_is_visible "
    "pg_ts_parser_is_visible pg_ts_template_is_visible pg_ts_config_is_visible "
    "pg_ts_dict_is_visible pg_statistics_obj_is_visible "
).split()
_FALSE = (
    "pg_is_in_recovery pg_is_other_temp_schema row_security_active pg_relation_is_publishable"
).split()
_ZERO = (
    "pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size "
    "pg_tablespace_size pg_my_temp_schema pg_stat_get_numscans pg_relation_filenode"
).split()
_NULL = (
    "pg_get_expr pg_get_partkeydef pg_get_triggerdef pg_get_ruledef pg_get_serial_sequence "
    "shobj_description pg_get_function_sqlbody pg_tablespace_location pg_get_statisticsobjdef "
    "pg_get_statisticsobjdef_columns inet_server_addr inet_client_addr inet_server_port "
    "pg_partition_root pg_sequence_last_value pg_get_function_arg_default txid_current "
    "pg_current_xact_id pg_last_xact_replay_timestamp pg_get_viewdef_pretty age acldefault "
    "pg_postmaster_start_time pg_conf_load_time"
).split()


def register(connection: sqlite3.Connection, client: ClientFacts) -> ObjectNames:
    """Add PostgreSQL's functions to a catalog, whose tables have all rows.

    Args:
        connection: The catalog.
        client: The client's facts. `set_config` changes its settings.

    Returns:
        The names of the catalog's objects.
    """
    names = ObjectNames(connection)

    def set_config(name: str, value: str | None, is_local: Any) -> str:
        client.settings[name.lower()] = value or ""
        return value or ""

    functions: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(_TRUE, lambda *_: True),
        **dict.fromkeys(_FALSE, lambda *_: False),
        **dict.fromkeys(_ZERO, lambda *_: 0),
        **dict.fromkeys(_NULL, lambda *_: None),
        "format_type": format_type,
        "pg_typeof_name": lambda oid: format_type(oid, None),
        "pg_regex": _matches,
        "quote_ident": _quote_ident,
        "quote_literal": _quote_literal,
        "format": _format,
        "regexp_replace": _regexp_replace,
        "substring": _substring,
        "split_part": _split_part,
        "starts_with": lambda value, start: None if value is None else value.startswith(start),
        "position": lambda value, part: None if value is None else value.find(part) + 1,
        "to_boolean": _boolean,
        "bool_text": lambda value: None if value is None else "true" if value else "false",
        "array_in": _array_in,
        "array_to_string": _array_to_string,
        "array_length": _array_length,
        "array_upper": _array_length,
        "array_lower": lambda value, dimension: 1 if array(value) else None,
        "cardinality": lambda value: None if value is None else len(array(value)),
        "array_position": _array_position,
        "array_element": _element,
        "array_has": _array_has,
        "array_cat": _array_append,
        "array_append": _array_append,
        "array_remove": _array_remove,
        "string_to_array": _string_to_array,
        "generate_series": _series,
        "generate_subscripts": _subscripts,
        "to_regclass": names.class_oid,
        "regclass_in": names.existing_class_oid,
        "regclass_text": names.class_name,
        "to_regtype": _type_oid,
        "to_regnamespace": lambda name: NAMESPACES.get(name, name),
        "regnamespace_text": namespace_name,
        "to_regproc": names.function_name,
        "pg_table_is_visible": names.is_visible,
        "pg_get_userbyid": _role_name(client),
        "pg_get_viewdef": names.view_definition,
        "pg_get_indexdef": names.index_definition,
        "pg_get_constraintdef": names.constraint_definition,
        "pg_get_function_result": lambda oid: '"any"',
        "pg_get_function_arguments": lambda oid: 'VARIADIC "any"',
        "pg_get_function_identity_arguments": lambda oid: 'VARIADIC "any"',
        "pg_get_functiondef": lambda oid: names.function_name(oid),
        "obj_description": lambda oid, catalog=None: names.comment(oid),
        "col_description": names.comment,
        "pg_size_pretty": lambda size: f"{size} bytes",
        "pg_encoding_to_char": lambda encoding: "UTF8",
        "getdatabaseencoding": lambda: "UTF8",
        "pg_char_to_encoding": lambda name: 6,
        "current_database": lambda: client.database,
        "current_schema": lambda: PUBLIC,
        "current_schemas": _schemas,
        "session_user": lambda: client.user,
        "version": lambda: f"PostgreSQL {client.version}",
        "pg_backend_pid": lambda: client.number,
        "current_setting": lambda name, missing=None: client.settings.get(name.lower(), ""),
        "set_config": set_config,
    }  # fmt: skip
    for name, function in functions.items():
        connection.create_function(name, -1, names.keep_error(function))
    for n_arguments in (2, 3):
        connection.create_function("like", n_arguments, _like)
    aggregates: dict[str, Callable[[], Any]] = {
        "array_agg": _ArrayAgg,
        "string_agg": _StringAgg,
        "bool_or": lambda: _BoolAgg(any),
        "bool_and": lambda: _BoolAgg(all),
    }
    for name, aggregate in aggregates.items():
        connection.create_aggregate(name, -1, aggregate)
    return names
