"""Rows of PostgreSQL's catalogs for the tables, views and functions of a session."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlwin.server.catalog.relations import (
    INFORMATION_SCHEMA,
    NAMESPACES,
    OWNER,
    PG_CATALOG,
    PUBLIC,
    PostgresType,
    catalog_relations,
    types,
    types_by_oid,
)
from sqlwin.server.catalog.type_names import format_type

Row = dict[str, object]
Rows = dict[tuple[str, str], list[Row]]

DATABASE_OID = 1
FIRST_OID, FIRST_OID_OF_FUNCTIONS = 1 << 14, 1 << 24
_ANY = 2276
# Kinds of `pg_class.relkind` with names of information_schema
_TABLE_TYPES = {"r": "BASE TABLE", "v": "VIEW"}


@dataclass(frozen=True)
class ServedColumn:
    """A column of a table or view.

    Attributes:
        name: Its name.
        type_oid: OID of its type in PostgreSQL.
        modifier: `atttypmod` of PostgreSQL: precision and scale of numeric, otherwise -1.
        is_nullable: Whether it may have NULL.
        comment: Its comment. Empty if there is none.
    """

    name: str
    type_oid: int
    modifier: int = -1
    is_nullable: bool = True
    comment: str = ""


@dataclass(frozen=True)
class ServedTable:
    """A table or view.

    Attributes:
        name: Its name.
        definition: Query of a view. None for a table.
        primary_key: Columns of the primary key.
    """

    name: str
    definition: str | None = None
    primary_key: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedObjects:
    """Tables and functions of a session. A part is None if no query has asked for it.

    Attributes:
        tables: Tables and views.
        columns: The columns of each table, in the order of `tables`.
        functions: Names of functions.
    """

    tables: tuple[ServedTable, ...] | None = None
    columns: tuple[tuple[ServedColumn, ...], ...] | None = None
    functions: tuple[str, ...] | None = None

    def includes(self, asked: ServedObjects) -> bool:
        """Return whether all parts of other objects are the same here."""
        pairs = (
            (asked.tables, self.tables),
            (asked.columns, self.columns),
            (asked.functions, self.functions),
        )
        return all(part is None or part == mine for part, mine in pairs)


@dataclass(frozen=True)
class ClientFacts:
    """Facts about a client that its catalogs show.

    Attributes:
        user: Name that the client has connected with.
        database: Database that it has connected to.
        number: Number of its connection.
        version: Version of the server.
        settings: Names and values of PostgreSQL's settings.
        cursors: Names and queries of the open cursors, and whether they outlive their transaction.
    """

    user: str = "sqlwin"
    database: str = "sqlwin"
    number: int = 0
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    cursors: Callable[[], Sequence[tuple[str, str, bool]]] = tuple


def catalog_rows(objects: ServedObjects, client: ClientFacts) -> Rows:
    """Return the rows of the catalogs. Catalogs without rows are missing."""
    rows: Rows = defaultdict(list)
    _add_system(rows)
    _add_client(rows, client)
    tables = objects.tables or ()
    every_columns = objects.columns or [()] * len(tables)
    for oid, (table, columns) in enumerate(zip(tables, every_columns, strict=True), FIRST_OID):
        _add_table(rows, table, columns, oid, FIRST_OID + len(tables) + oid, client)
    for oid, name in enumerate(objects.functions or (), FIRST_OID_OF_FUNCTIONS):
        rows[PG_CATALOG, "pg_proc"].append(
            {
                "oid": oid, "proname": name, "pronamespace": NAMESPACES[PUBLIC], "proowner": OWNER,
                "prolang": 12, "procost": 1, "prorows": 0, "provariadic": _ANY, "prosupport": "-",
                "prokind": "f", "prosecdef": 0, "proleakproof": 0, "proisstrict": 0,
                "proretset": 0, "provolatile": "s", "proparallel": "s", "pronargs": 1,
                "pronargdefaults": 0, "prorettype": _ANY, "proargtypes": [_ANY],
                "proargmodes": ["v"], "proallargtypes": [_ANY], "prosrc": name,
            }
        )  # fmt: skip
    return rows


def _add_system(rows: Rows) -> None:
    """Add PostgreSQL's own schemas, relations, types and languages."""
    for name, oid in NAMESPACES.items():
        rows[PG_CATALOG, "pg_namespace"].append({"oid": oid, "nspname": name, "nspowner": OWNER})
    for relation in catalog_relations().values():
        _add_class(
            rows, relation.name, relation.oid, relation.schema, relation.kind, len(relation.columns)
        )
        for number, (column, type_name) in enumerate(relation.columns.items(), 1):
            _add_attribute(rows, relation.oid, number, ServedColumn(column, types()[type_name].oid))
    for type_ in types().values():
        rows[PG_CATALOG, "pg_type"].append(
            {
                "oid": type_.oid, "typname": type_.name, "typnamespace": NAMESPACES[PG_CATALOG],
                "typowner": OWNER, "typlen": type_.len, "typbyval": int(type_.byval),
                "typtype": type_.type, "typcategory": type_.category,
                "typispreferred": int(type_.ispreferred), "typisdefined": 1,
                "typdelim": type_.delim, "typrelid": 0, "typelem": type_.elem,
                "typarray": type_.array, "typinput": _input_function(type_.name, type_.elem),
                "typoutput": f"{type_.name}out", "typreceive": f"{type_.name}recv",
                "typsend": f"{type_.name}send", "typmodin": "-", "typmodout": "-",
                "typanalyze": "-", "typsubscript": "-", "typalign": "i", "typstorage": "p",
                "typnotnull": 0, "typbasetype": 0, "typtypmod": -1, "typndims": 0,
                "typcollation": 100 if type_.category == "S" else 0,
            }
        )  # fmt: skip
    rows[PG_CATALOG, "pg_am"].append(
        {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}
    )
    rows[PG_CATALOG, "pg_am"].append(
        {"oid": 403, "amname": "btree", "amhandler": "bthandler", "amtype": "i"}
    )
    rows[PG_CATALOG, "pg_language"].append(
        {"oid": 12, "lanname": "internal", "lanowner": OWNER, "lanispl": 0, "lanpltrusted": 0,
         "lanplcallfoid": 0, "laninline": 0, "lanvalidator": 0}
    )  # fmt: skip
    rows[PG_CATALOG, "pg_tablespace"].append(
        {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}
    )
    rows[PG_CATALOG, "pg_collation"].append(
        {"oid": 100, "collname": "default", "collnamespace": NAMESPACES[PG_CATALOG],
         "collowner": OWNER, "collprovider": "d", "collisdeterministic": 1, "collencoding": -1}
    )  # fmt: skip


def _input_function(name: str, element: int) -> str:
    return "array_in" if name.startswith("_") and element else f"{name}in"


def _add_client(rows: Rows, client: ClientFacts) -> None:
    """Add the database, the user, the settings, and the client's activity."""
    rows[PG_CATALOG, "pg_database"].append(
        {
            "oid": DATABASE_OID, "datname": client.database, "datdba": OWNER, "encoding": 6,
            "datlocprovider": "c", "datistemplate": 0, "datallowconn": 1, "datconnlimit": -1,
            "datfrozenxid": 0, "datminmxid": 1, "dattablespace": 1663, "datcollate": "C.UTF-8",
            "datctype": "C.UTF-8",
        }
    )  # fmt: skip
    role: Row = {
        "rolname": client.user, "rolsuper": 0, "rolinherit": 1, "rolcreaterole": 0,
        "rolcreatedb": 0, "rolcanlogin": 1, "rolreplication": 0, "rolconnlimit": -1,
        "rolbypassrls": 0, "oid": OWNER,
    }  # fmt: skip
    rows[PG_CATALOG, "pg_authid"].append(dict(role))
    rows[PG_CATALOG, "pg_roles"].append(role | {"rolpassword": "********"})
    for view, prefix in (("pg_user", "use"), ("pg_shadow", "use")):
        rows[PG_CATALOG, view].append(
            {f"{prefix}name": client.user, f"{prefix}sysid": OWNER, f"{prefix}createdb": 0,
             f"{prefix}super": 0, f"{prefix}repl": 0, f"{prefix}bypassrls": 0}
        )  # fmt: skip
    rows[PG_CATALOG, "pg_stat_activity"].append(
        {"datid": DATABASE_OID, "datname": client.database, "pid": client.number,
         "usesysid": OWNER, "usename": client.user, "state": "active",
         "backend_type": "client backend"}
    )  # fmt: skip
    for name in NAMESPACES:
        rows[INFORMATION_SCHEMA, "schemata"].append(
            {"catalog_name": client.database, "schema_name": name, "schema_owner": client.user}
        )
    for view in ("enabled_roles", "applicable_roles"):
        rows[INFORMATION_SCHEMA, view].append({"role_name": client.user})


def changing_rows(client: ClientFacts) -> Rows:
    """Return the rows of catalogs that describe the connection: settings and cursors."""
    settings: list[Row] = [
        {"name": name, "setting": value, "category": "Preset Options", "context": "internal",
         "vartype": "string", "source": "default", "boot_val": value, "reset_val": value,
         "pending_restart": 0}
        for name, value in sorted(client.settings.items())
    ]  # fmt: skip
    cursors: list[Row] = [
        {"name": name, "statement": statement, "is_holdable": int(is_held), "is_binary": 0,
         "is_scrollable": 0}
        for name, statement, is_held in client.cursors()
    ]  # fmt: skip
    return {(PG_CATALOG, "pg_settings"): settings, (PG_CATALOG, "pg_cursors"): cursors}


def _add_table(
    rows: Rows,
    table: ServedTable,
    columns: Sequence[ServedColumn],
    oid: int,
    index_oid: int,
    client: ClientFacts,
) -> None:
    """Add a table or view with its columns and its primary key."""
    kind = "r" if table.definition is None else "v"
    has_key = bool(table.primary_key)
    _add_class(rows, table.name, oid, PUBLIC, kind, len(columns), has_index=has_key)
    of_table: Row = {
        "table_catalog": client.database,
        "table_schema": PUBLIC,
        "table_name": table.name,
    }
    rows[INFORMATION_SCHEMA, "tables"].append(
        of_table
        | {
            "table_type": _TABLE_TYPES[kind],
            "is_insertable_into": "YES" if kind == "r" else "NO",
            "is_typed": "NO",
        }
    )
    if kind == "r":
        rows[PG_CATALOG, "pg_tables"].append(
            {"schemaname": PUBLIC, "tablename": table.name, "tableowner": client.user,
             "hasindexes": int(bool(table.primary_key)), "hasrules": 0, "hastriggers": 0,
             "rowsecurity": 0}
        )  # fmt: skip
    else:
        rows[PG_CATALOG, "pg_views"].append(
            {"schemaname": PUBLIC, "viewname": table.name, "viewowner": client.user,
             "definition": table.definition}
        )  # fmt: skip
        rows[PG_CATALOG, "pg_rewrite"].append(
            {"oid": index_oid, "rulename": "_RETURN", "ev_class": oid, "ev_type": "1",
             "ev_enabled": "O", "is_instead": 1}
        )  # fmt: skip
        rows[INFORMATION_SCHEMA, "views"].append(
            of_table
            | {"view_definition": table.definition, "check_option": "NONE", "is_updatable": "NO",
               "is_insertable_into": "NO", "is_trigger_updatable": "NO",
               "is_trigger_deletable": "NO", "is_trigger_insertable_into": "NO"}
        )  # fmt: skip
    for number, column in enumerate(columns, 1):
        if column.name in table.primary_key:
            column = replace(column, is_nullable=False)
        _add_attribute(rows, oid, number, column)
        if column.comment:
            rows[PG_CATALOG, "pg_description"].append(
                {"objoid": oid, "classoid": 1259, "objsubid": number, "description": column.comment}
            )
        rows[INFORMATION_SCHEMA, "columns"].append(of_table | _column_row(number, column))
    if table.primary_key:
        _add_key(rows, table, index_oid, of_table)
        if columns:
            _add_columns_of_key(rows, table, columns, oid, index_oid)


def _add_columns_of_key(
    rows: Rows, table: ServedTable, columns: Sequence[ServedColumn], oid: int, index_oid: int
) -> None:
    """Add the rows of a primary key that number its columns."""
    names = [column.name for column in columns]
    numbers = [names.index(column) + 1 for column in table.primary_key]
    for number, column in enumerate(numbers, 1):
        _add_attribute(rows, index_oid, number, columns[column - 1])
    rows[PG_CATALOG, "pg_index"].append(
        {"indexrelid": index_oid, "indrelid": oid, "indnatts": len(numbers),
         "indnkeyatts": len(numbers), "indisunique": 1, "indnullsnotdistinct": 0,
         "indisprimary": 1, "indisexclusion": 0, "indimmediate": 1, "indisclustered": 0,
         "indisvalid": 1, "indcheckxmin": 0, "indisready": 1, "indislive": 1,
         "indisreplident": 0, "indkey": numbers, "indcollation": [0] * len(numbers),
         "indclass": [0] * len(numbers), "indoption": [0] * len(numbers)}
    )  # fmt: skip
    rows[PG_CATALOG, "pg_constraint"].append(
        {"oid": index_oid, "conname": _name_of_key(table),
         "connamespace": NAMESPACES[PUBLIC], "contype": "p",
         "condeferrable": 0, "condeferred": 0, "convalidated": 1, "conrelid": oid,
         "contypid": 0, "conindid": index_oid, "conparentid": 0, "confrelid": 0,
         "confupdtype": " ", "confdeltype": " ", "confmatchtype": " ", "conislocal": 1,
         "coninhcount": 0, "connoinherit": 1, "conkey": numbers}
    )  # fmt: skip


def _name_of_key(table: ServedTable) -> str:
    return f"{table.name}_pkey"


def _add_key(rows: Rows, table: ServedTable, index_oid: int, of_table: Row) -> None:
    """Add the primary key of a table, with an index as PostgreSQL has it."""
    name = _name_of_key(table)
    _add_class(rows, name, index_oid, PUBLIC, "i", len(table.primary_key), method=403)
    of_key: Row = {
        "constraint_catalog": of_table["table_catalog"], "constraint_schema": PUBLIC,
        "constraint_name": name,
    } | of_table  # fmt: skip
    rows[INFORMATION_SCHEMA, "table_constraints"].append(
        of_key
        | {"constraint_type": "PRIMARY KEY", "is_deferrable": "NO", "initially_deferred": "NO",
           "enforced": "NO"}
    )  # fmt: skip
    for place, column_name in enumerate(table.primary_key, 1):
        of_column: Row = of_key | {"column_name": column_name}
        rows[INFORMATION_SCHEMA, "key_column_usage"].append(of_column | {"ordinal_position": place})
        rows[INFORMATION_SCHEMA, "constraint_column_usage"].append(of_column)


def _add_class(
    rows: Rows,
    name: str,
    oid: int,
    schema: str,
    kind: str,
    n_columns: int,
    *,
    has_index: bool = False,
    method: int = 2,
) -> None:
    rows[PG_CATALOG, "pg_class"].append(
        {"oid": oid, "relname": name, "relnamespace": NAMESPACES[schema], "reltype": 0,
         "reloftype": 0, "relowner": OWNER, "relam": 0 if kind == "v" else method,
         "relfilenode": 0 if kind == "v" else oid, "reltablespace": 0, "relpages": int(kind == "i"),
         "reltuples": 0 if kind == "i" else -1, "relallvisible": 0, "reltoastrelid": 0,
         "relhasindex": int(has_index), "relisshared": 0, "relpersistence": "p",
         "relkind": kind, "relnatts": n_columns, "relchecks": 0, "relhasrules": int(kind == "v"),
         "relhastriggers": 0, "relhassubclass": 0, "relrowsecurity": 0,
         "relforcerowsecurity": 0, "relispopulated": 1,
         "relreplident": "d" if schema == PUBLIC else "n",
         "relispartition": 0, "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0}
    )  # fmt: skip


def _add_attribute(rows: Rows, oid: int, number: int, column: ServedColumn) -> None:
    type_ = types_by_oid()[column.type_oid]
    rows[PG_CATALOG, "pg_attribute"].append(
        {"attrelid": oid, "attname": column.name, "atttypid": type_.oid, "attstattarget": -1,
         "attlen": type_.len, "attnum": number, "attndims": int(type_.is_array),
         "attcacheoff": -1, "atttypmod": column.modifier, "attbyval": int(type_.byval),
         "attalign": "i", "attstorage": _storage(type_), "attcompression": "",
         "attnotnull": int(not column.is_nullable), "atthasdef": 0, "atthasmissing": 0,
         "attidentity": "", "attgenerated": "", "attisdropped": 0, "attislocal": 1,
         "attinhcount": 0, "attcollation": 100 if type_.category == "S" else 0}
    )  # fmt: skip


def _storage(type_: PostgresType) -> str:
    return "p" if type_.len > 0 else "m" if type_.name == "numeric" else "x"


# Precision, radix and scale in information_schema, by OID
_PRECISIONS = {
    21: (16, 2, 0),
    23: (32, 2, 0),
    20: (64, 2, 0),
    700: (24, 2, None),
    701: (53, 2, None),
}


def _column_row(number: int, column: ServedColumn) -> Row:
    """Return a row of `information_schema.columns` without the table."""
    type_ = types_by_oid()[column.type_oid]
    precision, radix, scale = _PRECISIONS.get(type_.oid, (None, None, None))
    if type_.name == "numeric" and column.modifier >= 0:
        precision, radix, scale = (column.modifier - 4) >> 16, 10, (column.modifier - 4) & 0xFFFF
    is_time = type_.category == "D" and type_.name != "date"
    return {
        "column_name": column.name,
        "ordinal_position": number,
        "is_nullable": "YES" if column.is_nullable else "NO",
        "data_type": "ARRAY" if type_.is_array else format_type(type_.oid, None),
        "numeric_precision": precision,
        "numeric_precision_radix": radix,
        "numeric_scale": scale,
        "datetime_precision": 6 if is_time else 0 if type_.name == "date" else None,
        "udt_catalog": None,
        "udt_schema": PG_CATALOG,
        "udt_name": type_.name,
        "dtd_identifier": str(number),
        "is_self_referencing": "NO",
        "is_identity": "NO",
        "identity_cycle": "NO",
        "is_generated": "NEVER",
        "is_updatable": "YES",
    }


def stored(value: object) -> object:
    """Return a value as SQLite has it: arrays as JSON."""
    return json.dumps(value) if isinstance(value, list) else value


def insert_statements(rows: Rows) -> Iterator[tuple[str, Sequence[tuple[object, ...]]]]:
    """Yield SQLite's INSERT statements with their rows."""
    for (schema, name), of_relation in rows.items():
        if not of_relation:
            continue
        columns = list(catalog_relations()[schema, name].columns)
        present = [column for column in columns if any(column in row for row in of_relation)]
        names = ", ".join(f'"{column}"' for column in present)
        marks = ", ".join("?" * len(present))
        yield (
            f"INSERT INTO {sqlite_name(schema, name)} ({names}) VALUES ({marks})",
            [tuple(stored(row.get(column)) for column in present) for row in of_relation],
        )


def sqlite_name(schema: str, name: str) -> str:
    """Return the name of a catalog in SQLite, quoted."""
    return f'"{name}"' if schema == PG_CATALOG else f'"{schema}.{name}"'
