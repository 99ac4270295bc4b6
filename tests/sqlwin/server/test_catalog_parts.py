"""Catalog queries ask for no more of the session than they show, and wait for nobody."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import psycopg
import pytest
import sqlglot

import sqlwin
from runtime.errors import SetupError
from runtime.spark.on_demand import SparkOnDemand
from sqlwin.server.catalog.parts import CatalogPart
from sqlwin.server.catalog.relations import catalog_relations
from sqlwin.server.catalog.rewrite import rewrite_query
from sqlwin.server.catalog.tables import (
    ClientFacts,
    ServedColumn,
    ServedObjects,
    ServedTable,
    catalog_rows,
)
from sqlwin.server.client import ServedSession
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.server.serving import connect, psql, serving
from tests.unstarted import SETTINGS

OBJECTS = ServedObjects(
    (ServedTable("t", None, ("a",)), ServedTable("v", "SELECT 1")),
    ((ServedColumn("a", 23, comment="first"),), (ServedColumn("b", 25),)),
    ("f",),
)


def parts(query: str) -> set[CatalogPart]:
    return set(rewrite_query(sqlglot.parse_one(query, dialect="postgres")).parts)


@pytest.mark.parametrize(
    ("part", "without"),
    [
        (CatalogPart.TABLES, ServedObjects(functions=OBJECTS.functions)),
        (CatalogPart.COLUMNS, ServedObjects(OBJECTS.tables, None, OBJECTS.functions)),
        (CatalogPart.FUNCTIONS, ServedObjects(OBJECTS.tables, OBJECTS.columns)),
    ],
)
def test_a_query_of_a_catalog_asks_for_its_rows(part: CatalogPart, without: ServedObjects) -> None:
    whole, partial = (catalog_rows(objects, ClientFacts()) for objects in (OBJECTS, without))
    for schema, name in catalog_relations():
        if whole.get((schema, name)) != partial.get((schema, name)):
            assert part in parts(f"SELECT * FROM {schema}.{name}"), name


@pytest.mark.parametrize(
    ("query", "needed"),
    [
        ("SELECT version()", set()),
        ("SELECT pg_backend_pid(), current_database(), current_setting('jit')", set()),
        ("SELECT typname FROM pg_type WHERE oid = 23", set()),
        ("SELECT nspname FROM pg_catalog.pg_namespace", set()),
        ("SELECT setting FROM pg_settings", {CatalogPart.CLIENT}),
        ("SELECT relname FROM pg_class", {CatalogPart.TABLES}),
        ("SELECT relname, relnatts FROM pg_class", {CatalogPart.TABLES, CatalogPart.COLUMNS}),
        ("SELECT 't'::regclass", {CatalogPart.TABLES}),
        ("SELECT to_regclass('t')", {CatalogPart.TABLES}),
        ("SELECT attrelid::regclass FROM pg_attribute", {CatalogPart.TABLES, CatalogPart.COLUMNS}),
        ("SELECT proname FROM pg_proc", {CatalogPart.FUNCTIONS}),
    ],
)
def test_a_query_asks_for_no_more(query: str, needed: set[CatalogPart]) -> None:
    assert parts(query) == needed


def test_catalogs_answer_while_another_client_s_query_is_planned() -> None:
    starting, goes_on = threading.Event(), threading.Event()

    def start() -> NoReturn:
        starting.set()
        goes_on.wait()
        raise SetupError("Spark did not start")

    session = sqlwin.connect(SparkOnDemand(start, SETTINGS))
    session.execute(
        f"CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');"
        "CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600"
    )
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'late'"
    with (
        serving(ServedSession(session, can_write=False, double_quotes="identifier")) as port,
        connect(port) as client,
        connect(port) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        assert client.execute(columns).fetchall() == [("origin",), ("dep_delay",)]
        planned = pool.submit(other.execute, "SELECT kurtosis(dep_delay) OVER () FROM flights")
        starting.wait()
        try:
            assert client.execute("SELECT pg_backend_pid()").fetchone() is not None
            assert client.execute(columns).fetchall() == [("origin",), ("dep_delay",)]
            assert psql(port, "\\dt").stdout.split("|")[1] == "flights"
        finally:
            goes_on.set()
        with pytest.raises(psycopg.Error, match="Spark did not start"):
            planned.result()
    session.close()
