"""PostgreSQL's catalogs with the queries of real programs, without Spark."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy

import sqlwin
from sqlwin.server.client import ServedSession
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.server.serving import PASSWORD, connect, psql, run_with_jdbc, serving
from tests.unstarted import unstarted_spark


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with the table `flights`, the view `late`, and `fares`, which has a primary key."""
    fares = tmp_path_factory.mktemp("fares") / "fares.parquet"
    rows = {
        "carrier": ["UA"],
        "since": pa.array([datetime.fromisoformat("2013-01-01")], pa.timestamp("us")),
        "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
    }
    pq.write_table(pa.table(rows), fares)
    session = sqlwin.connect(unstarted_spark(), settings={"sqlwin.double-quotes": "identifier"})
    session.execute(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');"
        "CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600;"
        "CREATE TABLE fares (carrier STRING NOT NULL COMMENT 'airline', since TIMESTAMP_NTZ, "
        "price DECIMAL(10, 2), PRIMARY KEY (carrier, since) NOT ENFORCED) "
        f"WITH ('connector' = 'filesystem', 'path' = '{fares}', 'format' = 'parquet')"
    )
    with serving(ServedSession(session, can_write=False, double_quotes="identifier")) as bound:
        yield bound
    session.close()


# -- psql ------------------------------------------------------------------------------------------


LISTS: list[tuple[str, list[str]]] = [
    ("\\dt", [f"public|{name}|table|anyone" for name in ("fares", "flights")]),
    ("\\dv", ["public|late|view|anyone"]),
    ("\\d", ["public|fares|table|anyone", "public|flights|table|anyone",
             "public|late|view|anyone"]),
    ("\\di", ["public|fares_pkey|index|anyone|fares"]),
    ("\\du", ["anyone||{}"]),
    ("\\dn", ["public|anyone"]),
    ("\\l", ["any|anyone|UTF8|C.UTF-8|C.UTF-8||libc|"]),
    ("\\df tumble", ['public|tumble|"any"|VARIADIC "any"|func']),
    ("\\dt fl*", ["public|flights|table|anyone"]),
    ("\\dp late", ["public|late|view|||"]),
    ("\\dx", []),
    ("\\dT", []),
    ("\\db", ["pg_default|anyone|"]),
    ("\\d late", ["origin|text|||", "dep_delay|integer|||"]),
    ("\\d fares", ["carrier|text||not null|", "since|timestamp without time zone||not null|",
                   "price|numeric(10,2)|||"]),
    ("\\d+ late", ["origin|text||||extended|", "dep_delay|integer||||plain|"]),
    ("\\sv late", ["CREATE OR REPLACE VIEW public.late AS",
                   "SELECT origin, dep_delay FROM flights WHERE dep_delay > 600"]),
]  # fmt: skip
OTHERS = ["\\dS", "\\d pg_class", "\\d+ pg_type", "\\dC", "\\dD", "\\dew", "\\dF", "\\dL", "\\do", "\\dO",
     "\\dRp", "\\dRs", "\\dX", "\\dy", "\\l+", "\\du+", "\\dn+", "\\dt+", "\\di+", "\\df+ hop", "\\da",
     "\\dAc", "\\dc", "\\dm", "\\ds", "\\ddp", "\\det", "\\des", "\\deu", "\\drds", "\\dP", "\\z"]  # fmt: skip


# Their columns differ between versions of psql
OF_PSQL_15 = ("\\du", "\\l")


def version_of_psql() -> int:
    """Return the major version of the installed psql, 0 if there is none."""
    program = shutil.which("psql")
    if program is None:
        return 0
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"\d+", shown.stdout)
    return 0 if version is None else int(version[0])


@pytest.mark.long
def test_psql_s_commands_list_the_session(port: int) -> None:
    lists = [item for item in LISTS if version_of_psql() == 15 or item[0] not in OF_PSQL_15]
    parts = [(f"\\echo {number}", command) for number, (command, _) in enumerate(lists)]
    done = psql(port, *(part for pair in parts for part in pair))
    assert done.stderr == ""
    expected = [line for number, (_, lines) in enumerate(lists) for line in (str(number), *lines)]
    assert done.stdout.splitlines() == expected


def test_no_command_of_psql_fails(port: int) -> None:
    if version_of_psql() != 15:
        pytest.skip("needs psql 15: other versions send other queries for these commands")
    done = psql(port, *OTHERS)
    unexpected = [line for line in done.stderr.splitlines() if "Did not find any" not in line]
    assert unexpected == []


def test_psql_shows_comments_keys_views_and_functions(port: int) -> None:
    commands = ("\\pset tuples_only off", "\\d+ fares", "\\d+ late", "\\df")
    done = psql(port, *commands)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "carrier|text||not null||extended|||airline" in lines
    assert '    "fares_pkey" PRIMARY KEY, btree (carrier, since)' in lines
    assert "SELECT origin, dep_delay FROM flights WHERE dep_delay > 600" in lines
    assert {'public|hop|"any"|VARIADIC "any"|func', 'public|count|"any"|VARIADIC "any"|func'} <= {
        *lines
    }


# -- SQLAlchemy ------------------------------------------------------------------------------------


def test_sqlalchemy_reflects_tables_and_queries_them(port: int) -> None:
    url = sqlalchemy.URL.create("postgresql+psycopg", "anyone", PASSWORD, "127.0.0.1", port, "any")
    engine = sqlalchemy.create_engine(url)
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_schema_names() == ["information_schema", "public"]
    assert sorted(inspector.get_table_names()) == ["fares", "flights"]
    assert inspector.get_view_names() == ["late"]
    assert inspector.get_view_definition("late").startswith("SELECT origin")
    assert (inspector.has_table("late"), inspector.has_table("nowhere")) == (True, False)
    columns = [
        (column["name"], str(column["type"]), column["nullable"], column["comment"])
        for column in inspector.get_columns("fares")
    ]
    assert columns == [
        ("carrier", "TEXT", False, "airline"),
        ("since", "TIMESTAMP", False, None),
        ("price", "NUMERIC(10, 2)", True, None),
    ]
    key = inspector.get_pk_constraint("fares")
    assert (key["name"], key["constrained_columns"]) == ("fares_pkey", ["carrier", "since"])
    for found in (
        inspector.get_foreign_keys,
        inspector.get_indexes,
        inspector.get_unique_constraints,
    ):
        assert found("fares") == []
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, views=True)
    late = metadata.tables["late"]
    with engine.connect() as connection:
        query = sqlalchemy.select(late).where(late.c.dep_delay > 1200)
        assert connection.execute(query).all() == [("JFK", 1301)]
    engine.dispose()


# -- DBeaver, Metabase and Grafana -----------------------------------------------------------------

# Queries of the shape that the programs send, with the names of their columns
QUERIES = {
    "dbeaver databases": (
        "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate "
        "OR db.datname=$1 ORDER BY db.datname",
        lambda rows: [row[2] for row in rows] == ["any"],
    ),
    "dbeaver schemas": (
        "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND "
        "d.classoid='pg_namespace'::regclass ORDER BY nspname",
        lambda rows: [row[2] for row in rows] == ["information_schema", "pg_catalog", "public"],
    ),
    "dbeaver tables": (
        "SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as "
        "partition_expr, pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM "
        "pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND "
        "d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE c.relnamespace=2200 AND c.relkind "
        "not in ('i','I','c') ORDER BY c.relname",
        lambda rows: [row[2] for row in rows] == ["fares", "flights", "late"],
    ),
    "dbeaver columns": (
        "SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,"
        "dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c "
        "ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid "
        "AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON "
        "(c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on "
        "dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum and "
        "dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') "
        "AND c.relname='fares' ORDER BY a.attnum",
        lambda rows: [(row[0], row[2], row[-2]) for row in rows]
        == [("fares", "carrier", "airline"), ("fares", "since", None), ("fares", "price", None)],
    ),
    "dbeaver types": (
        "SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as "
        "base_type_name, d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN "
        "pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON "
        "c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE "
        "t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS "
        "NULL OR et.typcategory <> 'C')",
        lambda rows: {"int4", "_int4", "text", "timestamptz"} <= {row[2] for row in rows},
    ),
    "dbeaver constraints": (
        "SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, "
        "case when c.contype='c' then \"substring\"(pg_get_constraintdef(c.oid), 7) else null end "
        "consrc_copy FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON "
        "t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER "
        "JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND "
        "d.classoid='pg_constraint'::regclass WHERE c.conrelid='fares'::regclass ORDER BY c.oid",
        lambda rows: [(row[2], row[-4], [1, 2] in row) for row in rows]
        == [("fares_pkey", "fares", True)],
    ),
    "dbeaver indexes": (
        "SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,"
        "tc.relname as tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as "
        "pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,"
        "pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,"
        "pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans FROM "
        "pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN "
        "pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc "
        "ON i.indexrelid=dsc.objoid WHERE c.relnamespace=2200 ORDER BY tabrelname, c.relname",
        lambda rows: [("1 2" in row, "fares_pkey" in row) for row in rows] == [(True, True)],
    ),
    "dbeaver functions": (
        "SELECT p.oid,p.*,pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults,d.description "
        "FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=p.oid "
        "WHERE p.pronamespace=2200 ORDER BY p.proname",
        lambda rows: "tumble" in {row[2] for row in rows},
    ),
    "dbeaver roles": (
        "SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a left join "
        "pg_catalog.pg_shdescription pd on a.oid = pd.objoid ORDER BY a.rolname",
        lambda rows: [row[1] for row in rows] == ["anyone"],
    ),
    "dbeaver context": (
        "SELECT current_schema(),session_user",
        lambda rows: rows == [("public", "anyone")],
    ),
    "dbeaver settings": (
        "SELECT * FROM pg_catalog.pg_settings",
        lambda rows: "server_version_num" in {row[0] for row in rows},
    ),
    "dbeaver sizes": (
        "select c.oid,pg_catalog.pg_total_relation_size(c.oid) as total_rel_size,"
        "pg_catalog.pg_relation_size(c.oid) as rel_size FROM pg_class c WHERE c.relnamespace=2200 "
        "AND c.relkind = 'r'",
        lambda rows: [row[1:] for row in rows] == [(0, 0)] * 2,
    ),
    "metabase tables": (
        'SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN \'r\' '
        "THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN "
        "'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS \"type\", "
        '"d"."description" AS "description", "stat"."n_live_tup" AS "estimated_row_count" FROM '
        '"pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON '
        '"c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON '
        '("c"."oid" = "d"."objoid") AND ("d"."objsubid" = $1) AND ("d"."classoid" = '
        "'pg_class'::regclass) LEFT JOIN \"pg_stat_user_tables\" AS \"stat\" ON (\"n\".\"nspname\" = "
        '"stat"."schemaname") AND ("c"."relname" = "stat"."relname") WHERE ("c"."relnamespace" = '
        "\"n\".\"oid\") AND (\"n\".\"nspname\" !~ '^pg_') AND (\"n\".\"nspname\" <> "
        "'information_schema') AND c.relkind in ('r', 'p', 'v', 'f', 'm') ORDER BY \"type\" ASC, "
        '"schema" ASC, "name" ASC',
        lambda rows: [row[1:3] for row in rows]
        == [("fares", "TABLE"), ("flights", "TABLE"), ("late", "VIEW")],
    ),
    "metabase fields": (
        "SELECT \"c\".\"column_name\" AS \"name\", CASE WHEN \"c\".\"udt_schema\" IN ('public', "
        "'pg_catalog') THEN FORMAT('%s', \"c\".\"udt_name\") ELSE FORMAT('\"%s\".\"%s\"', "
        '"c"."udt_schema", "c"."udt_name") END AS "database-type", "c"."ordinal_position" - 1 AS '
        '"database-position", "c"."table_schema" AS "table-schema", "c"."table_name" AS '
        '"table-name", "pk"."column_name" IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('
        "'%I.%I', CAST(\"c\".\"table_schema\" AS TEXT), CAST(\"c\".\"table_name\" AS TEXT)) AS "
        'REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", (("column_default" IS NULL) '
        "OR (LOWER(\"column_default\") = 'null')) AND (\"is_nullable\" = 'NO') AND NOT "
        "(((\"column_default\" IS NOT NULL) AND (\"column_default\" LIKE '%nextval(%')) OR "
        "(\"is_identity\" <> 'NO')) AS \"database-required\" FROM \"information_schema\".\"columns\" "
        'AS "c" LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name", "kc"."column_name" FROM '
        '"information_schema"."table_constraints" AS "tc" INNER JOIN '
        '"information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = '
        '"kc"."constraint_name") AND ("tc"."table_schema" = "kc"."table_schema") AND '
        "(\"tc\".\"table_name\" = \"kc\".\"table_name\") WHERE \"tc\".\"constraint_type\" = 'PRIMARY "
        "KEY') AS \"pk\" ON (\"c\".\"table_schema\" = \"pk\".\"table_schema\") AND (\"c\".\"table_name\" "
        "= \"pk\".\"table_name\") AND (\"c\".\"column_name\" = \"pk\".\"column_name\") WHERE "
        "c.table_schema !~ '^information_schema|catalog_history|pg_' AND (\"c\".\"table_name\" IN "
        "('fares')) ORDER BY \"table-schema\" ASC, \"table-name\" ASC, \"database-position\" ASC",
        lambda rows: rows
        == [
            ("carrier", "text", 0, "public", "fares", True, "airline", True),
            ("since", "timestamp", 1, "public", "fares", True, None, True),
            ("price", "numeric", 2, "public", "fares", False, None, False),
        ],
    ),
    "metabase foreign keys": (
        'SELECT "fk_ns"."nspname" AS "fk-table-schema", "fk_table"."relname" AS "fk-table-name" FROM '
        '"pg_constraint" AS "c" INNER JOIN "pg_class" AS "fk_table" ON "c"."conrelid" = '
        '"fk_table"."oid" INNER JOIN "pg_namespace" AS "fk_ns" ON "c"."connamespace" = '
        '"fk_ns"."oid" INNER JOIN "pg_attribute" AS "fk_column" ON "c"."conrelid" = '
        "\"fk_column\".\"attrelid\" WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' "
        "AND (\"c\".\"contype\" = 'f'::char) AND (\"fk_column\".\"attnum\" = ANY(c.conkey)) ORDER BY "
        '"fk-table-schema" ASC, "fk-table-name" ASC',
        lambda rows: rows == [],
    ),
    "metabase indexes": (
        'SELECT "tmp"."table-schema", "tmp"."table-name", TRIM(BOTH \'"\' FROM '
        'PG_CATALOG.PG_GET_INDEXDEF("tmp"."ci_oid", "tmp"."pos", FALSE)) AS "field-name" FROM '
        '(SELECT "n"."nspname" AS "table-schema", "ct"."relname" AS "table-name", "ci"."oid" AS '
        '"ci_oid", (information_schema._pg_expandarray("i"."indkey")).n AS "pos" FROM '
        '"pg_catalog"."pg_class" AS "ct" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON '
        '"ct"."relnamespace" = "n"."oid" INNER JOIN "pg_catalog"."pg_index" AS "i" ON "ct"."oid" = '
        '"i"."indrelid" INNER JOIN "pg_catalog"."pg_class" AS "ci" ON "ci"."oid" = "i"."indexrelid" '
        'WHERE (PG_CATALOG.PG_GET_EXPR("i"."indpred", "i"."indrelid") IS NULL) AND n.nspname !~ '
        "'^information_schema|catalog_history|pg_') AS \"tmp\" WHERE \"tmp\".\"pos\" = 1",
        lambda rows: rows == [("public", "fares", "carrier")],
    ),
    "metabase privileges": (
        "with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as "
        "table, pg_catalog.has_any_column_privilege(current_user, '\"' || t.schemaname || '\"' || "
        "'.' || '\"' || t.objectname || '\"', 'update') as update, "
        "pg_catalog.has_table_privilege(current_user, '\"' || t.schemaname || '\"' || '.' || '\"' || "
        "t.objectname || '\"', 'SELECT') as select from (select schemaname, tablename as objectname "
        "from pg_catalog.pg_tables union select schemaname, viewname as objectname from "
        "pg_catalog.pg_views union select schemaname, matviewname as objectname from "
        "pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> "
        "'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, "
        "'USAGE')) select t.* from table_privileges t order by 3",
        lambda rows: [row[1:3] + row[4:] for row in rows]
        == [("public", name, True) for name in ("fares", "flights", "late")],
    ),
    "metabase databases": (
        "SELECT datname AS TABLE_CAT FROM pg_catalog.pg_database WHERE datallowconn = true "
        "ORDER BY datname",
        lambda rows: rows == [("any",)],
    ),
    "grafana version": (
        "SELECT current_setting('server_version_num')::int/100 as version",
        lambda rows: rows == [(1500,)],
    ),
    "grafana tables": (
        "SELECT CASE WHEN quote_ident(table_schema) = 'public' THEN quote_ident(table_name) ELSE "
        "quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM "
        "information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', "
        "'pg_catalog', '_timescaledb_cache') ORDER BY 1",
        lambda rows: rows == [("fares",), ("flights",), ("late",)],
    ),
    "grafana columns": (
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM '
        "information_schema.columns WHERE quote_ident(table_name) = 'late'",
        lambda rows: rows == [("origin", "text"), ("dep_delay", "integer")],
    ),
    "grafana search path": (
        "SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END AS name FROM "
        "generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) as i, "
        "string_to_array(current_setting('search_path'),',') s",
        lambda rows: rows == [("anyone",), ("public",)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_queries_of_programs_are_answered(client: Any, name: str) -> None:
    query, is_right = QUERIES[name]
    values = ["0"] * len({*re.findall(r"\$\d", query)})
    with psycopg.RawCursor(client) as cursor:
        rows = cursor.execute(query, values or None).fetchall()
    assert is_right(rows), rows


# -- values and errors -----------------------------------------------------------------------------


def test_columns_have_postgresql_s_names_and_types(client: Any) -> None:
    query = (
        "SELECT c.oid, c.relname, relhasindex, reltuples, 'late'::regclass, i.indkey, con.conkey, "
        "count(*), upper('a'), 1 AS One, c.relkind = 'r', array_agg(relname ORDER BY relname) "
        "FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid "
        "JOIN pg_constraint con ON con.conrelid = c.oid WHERE c.relname = 'fares' GROUP BY 1"
    )
    cursor = client.execute(query)
    assert [(column.name, column.type_display) for column in cursor.description] == [
        ("oid", "oid"), ("relname", "name"), ("relhasindex", "bool"), ("reltuples", "float4"),
        ("regclass", "regclass"), ("indkey", "int2vector"), ("conkey", "int2[]"), ("count", "int8"),
        ("upper", "text"), ("one", "int4"), ("?column?", "bool"), ("array_agg", "name[]"),
    ]  # fmt: skip
    (row,) = cursor.fetchall()
    assert row[1:] == (
        "fares", True, -1.0, "late", "1 2", [1, 2], 1, "A", 1, True, ["fares"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT * FROM unnest(ARRAY['a','b']) WITH ORDINALITY AS u(v, i), pg_namespace n "
            "WHERE n.nspname = 'public'",
            [("a", 1, 2200, "public", 10, None), ("b", 2, 2200, "public", 10, None)],
        ),
        (
            "SELECT unnest(ARRAY[1, 2]) AS a, generate_series(4, 5) FROM pg_class "
            "WHERE relname = 'late'",
            [(1, 4), (2, 5)],
        ),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) "
            "SELECT n, relname FROM x, pg_class WHERE relname = 'late' ORDER BY n",
            [(1, "late"), (2, "late"), (3, "late")],
        ),
        (
            "SELECT count(*) FILTER (WHERE relkind = 'v'), "
            "string_agg(relname, ', ' ORDER BY relname DESC) FROM pg_class "
            "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')",
            [(1, "late, flights, fares")],
        ),
        (
            "SELECT typinput = 'pg_catalog.array_in'::regproc, format_type(oid, NULL), "
            "typelem::regtype FROM pg_type WHERE typname IN ('_int4', 'int4') ORDER BY oid DESC",
            [(True, "integer[]", "integer"), (False, "integer", "-")],
        ),
        (
            "SELECT (current_schemas(true))[1], (current_schemas(false))[1], 'late'::regclass::oid "
            "= (SELECT oid FROM pg_class WHERE relname = 'late'), relname ~* '^LA' FROM pg_class "
            "WHERE oid::regclass::text = 'late'",
            [("pg_catalog", "public", True, True)],
        ),
    ],
    ids=["ordinality", "rows in select", "recursion", "aggregates", "types", "arrays"],
)
def test_functions_and_operators_are_those_of_postgresql(
    client: Any, query: str, rows: list[tuple[Any, ...]]
) -> None:
    assert client.execute(query).fetchall() == rows


def test_binary_values_equal_those_of_text_format(client: Any) -> None:
    query = "SELECT oid, relname, relkind, relhasindex, relnatts FROM pg_class WHERE relname = %s"
    text, binary = (
        client.execute(query, ("late",), binary=is_binary).fetchall() for is_binary in (False, True)
    )
    assert text == binary != []


def test_parameters_of_catalog_queries_are_values(client: Any) -> None:
    named = "SELECT relname FROM pg_class WHERE relname = ANY(%s) AND relnamespace = %s ORDER BY 1"
    assert client.execute(named, (["late", "fares", "x' OR '1"], 2200)).fetchall() == [
        ("fares",), ("late",),
    ]  # fmt: skip
    like = "SELECT count(*) FROM pg_class WHERE relname LIKE %s AND relnamespace = 2200"
    counts = [client.execute(like, (text,)).fetchone()[0] for text in ("f%", "F%", "l_te", "f\\%")]
    assert counts == [3, 0, 1, 0]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT nope FROM pg_class", "UndefinedColumn", "column nope does not exist"),
        ("SELECT * FROM pg_catalog.nowhere", "UndefinedTable", '"pg_catalog.nowhere" is not one'),
        ("SELECT * FROM pg_class, flights", "UndefinedTable", '"flights" is not one of'),
        ("SELECT pg_nothing(1)", "UndefinedFunction", "pg_nothing does not exist"),
    ],
)
def test_an_invalid_catalog_query_is_refused(
    client: Any, query: str, error: str, message: str
) -> None:
    with pytest.raises(getattr(psycopg.errors, error), match=message):
        client.execute(query)
    assert client.execute("SELECT current_user").fetchone() == ("anyone",)


def test_settings_are_shown_and_set(client: Any) -> None:
    shown = [
        client.execute(f"SHOW {name}").fetchone()[0]
        for name in ("server_version_num", "search_path", "transaction isolation level", "timezone")
    ]
    assert shown == ["150000", '"$user", public', "read committed", "UTC"]
    for accepted in (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET TIME ZONE 'UTC'",
        "DISCARD ALL",
        "RESET ALL",
    ):
        client.execute(accepted)
    client.execute("SELECT set_config('application_name', 'test', false)")
    assert client.execute("SELECT current_setting('application_name')").fetchone() == ("test",)
    with client.transaction(), client.transaction():  # the second one is a savepoint
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_tables_with_names_of_catalogs_are_the_session_s(client: Any) -> None:
    assert client.execute("SELECT COUNT(*) FROM late AS pg_class").fetchone() == (40,)


def test_new_tables_are_listed_at_once(tmp_path: Path) -> None:
    session = sqlwin.connect(unstarted_spark())
    served = ServedSession(session, can_write=True, double_quotes="identifier")
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    with serving(served) as port, connect(port) as client, connect(port) as other:
        assert client.execute(listed).fetchall() == []
        other.execute("CREATE VIEW one AS SELECT 1 AS a")
        assert client.execute(listed).fetchall() == [("one",)]
        other.execute("DROP VIEW one")
        assert client.execute(listed).fetchall() == []
    session.close()


# -- JDBC ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_jdbc_s_metadata_lists_the_session(port: int, tmp_path: Path) -> None:
    output = run_with_jdbc("Metadata.java", port)
    expected = (Path(__file__).parent / "metadata.txt").read_text()
    assert output == expected
