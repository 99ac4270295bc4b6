"""What clients of a read-only server may send: hostile statements, and good ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sqlwin
from sqlwin.server.client import ServedSession
from sqlwin.server.reading.trees import FUNCTIONS
from tests.sqlwin.dbapi.conftest import FLIGHTS
from tests.sqlwin.server.serving import connect, serving
from tests.unstarted import unstarted_spark

SCRIPT = f"""
    CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}');
    CREATE TABLE departures (sched_dep TIMESTAMP(3), left_at AS sched_dep + INTERVAL '5' MINUTE,
      WATERMARK FOR sched_dep AS sched_dep)
    WITH ('connector' = 'filesystem', 'path' = '{FLIGHTS}', 'format' = 'parquet');
    CREATE VIEW late AS SELECT origin, dep_delay FROM flights WHERE dep_delay > 600;
"""
WINDOW = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(sched_dep), INTERVAL '182' DAYS))"

# Statements that sqlwin can read, so that no Spark is needed to refuse them
HOSTILE = [
    # functions that call Java or read files
    "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT try_reflect('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT `java_method`('java.lang.System', 'getenv', 'HOME')",
    "SELECT Java_Method ('java.lang.System', 'getenv', 'HOME')",
    "SELECT java_method/**/('java.lang.System', 'getenv', 'HOME')",
    "SELECT system.builtin.java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT spark_catalog.default.reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT `system`.`builtin`.`abs`(1)",
    "SELECT upper(reflect('java.lang.System', 'getenv', 'HOME'))",
    "SELECT transform(array(1), x -> reflect('java.lang.System', 'exit', x))",
    "SELECT origin FROM flights WHERE reflect('java.lang.System', 'exit', 1) = ''",
    "SELECT origin FROM flights ORDER BY reflect('java.lang.System', 'exit', 1)",
    "SELECT COUNT(*) FROM flights GROUP BY reflect('java.lang.System', 'exit', 1)",
    "SELECT COUNT(*) FILTER (WHERE reflect('a', 'b') = '') FROM flights",
    "SELECT CASE WHEN reflect('a', 'b') = '' THEN 1 END",
    "SELECT (SELECT reflect('java.lang.System', 'exit', 1))",
    "WITH a AS (SELECT reflect('java.lang.System', 'exit', 1) AS x) SELECT 1",
    "SELECT 1 UNION ALL SELECT reflect('java.lang.System', 'exit', 1)",
    "SELECT * FROM late JOIN flights ON late.origin = reflect('a', 'b')",
    "SELECT * FROM late, LATERAL (SELECT reflect('a', 'b'))",
    "SELECT * FROM late LATERAL VIEW explode(array(reflect('a', 'b'))) AS x",
    "SELECT * FROM (VALUES (reflect('java.lang.System', 'exit', 1))) AS v(x)",
    f"SELECT MAX(reflect('a', 'b')) FROM {WINDOW.format('flights')} GROUP BY window_start, window_end",
    "SELECT SUM(1) OVER (ORDER BY reflect('a', 'b')) FROM flights",
    "SELECT origin FROM flights LIMIT reflect('a', 'b')",
    "SELECT from_protobuf(x'00', 'M', '/etc/passwd')",
    "SELECT to_protobuf(named_struct('a', 1), 'M', '/etc/passwd')",
    "SELECT from_avro(x'00', '\"int\"', map('avroSchemaUrl', '/etc/passwd'))",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT xpath_string('<!DOCTYPE a SYSTEM \"http://localhost/x.dtd\"><a>1</a>', '/a')",
    "SELECT load_file('/etc/passwd')",
    "SELECT no_such_function(1)",
    "SELECT IDENTIFIER('origin') FROM flights",
    # files
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM '../../../../etc/passwd'",
    "SELECT * FROM 'file:///etc/passwd'",
    "SELECT * FROM 'file:/etc/passwd'",
    "SELECT * FROM '~/.ssh/*'",
    "SELECT * FROM '/proc/self/environ'",
    "SELECT * FROM 's3a://bucket/key.csv'",
    "SELECT * FROM 'http://localhost/x.csv'",
    "SELECT * FROM '/etc/{passwd,group}'",
    "SELECT * FROM `'/etc/passwd'`",
    "SELECT * FROM \"'/etc/passwd'\"",
    "WITH `'/etc/passwd'` AS (SELECT 1) SELECT * FROM (SELECT * FROM `'/etc/passwd'`)",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd', delim => ':')",
    "SELECT * FROM read_csv(['/etc/passwd', '/etc/group'])",
    "SELECT * FROM read_json_auto('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc')",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM files('/etc/passwd')",
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM binaryFile.`file:///etc/passwd`",
    "SELECT * FROM `json`.`../secret`",
    "SELECT * FROM `delta`.`/data/t`",
    "SELECT * FROM a.b.`/etc/passwd`",
    "SELECT * FROM jdbc.`jdbc:h2:mem`",
    "SELECT * FROM python_data_source.`x:y`",
    "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
    "SELECT (SELECT MAX(value) FROM '/etc/passwd')",
    "SELECT * FROM late JOIN '/etc/passwd' ON TRUE",
    "SELECT * FROM late WHERE origin IN (SELECT value FROM '/etc/passwd')",
    f"SELECT * FROM {WINDOW.format(chr(39) + '/etc/passwd' + chr(39))}",
    "SELECT * FROM TABLE(STATE('/data/checkpoint'))",
    "SELECT * FROM `STATE(-, -, '/data/checkpoint')`",
    "SELECT * FROM flights /*+ OPTIONS('path' = '/etc/passwd') */",
    "SELECT * FROM flights /*+ OPTIONS('clean-source' = 'delete') */",
    "SELECT * FROM flights /*+ OPTIONS('source-archive-dir' = '/tmp') */",
    "SELECT * FROM flights /*+ OPTIONS('url' = 'jdbc:postgresql://a/b') */",
    "SELECT * FROM flights /*+ OPTIONS('query' = 'SELECT 1') */",
    "DESCRIBE '/etc/passwd'",
    "DESCRIBE read_csv('/etc/passwd')",
    "SHOW CREATE TABLE '/etc/passwd'",
    "SUMMARIZE '/etc/passwd'",
    "ADVISE SELECT * FROM '/etc/passwd'",
    "ADVISE WITH ('arrival' = 'a') SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "EXPLAIN ROW SELECT * FROM '/etc/passwd'",
    "SUMMARIZE SELECT * FROM '/etc/passwd'",
    "SUMMARIZE SELECT reflect('java.lang.System', 'exit', 1)",
    "SHOW STATE OF '/data/checkpoint'",
    "EXPLAIN SELECT * FROM '/etc/passwd'",
    "EXPLAIN EXTENDED SELECT reflect('java.lang.System', 'exit', 1)",
    "EXPLAIN ANALYZE SELECT * FROM '/etc/passwd'",
    "EXPLAIN INSERT INTO flights SELECT * FROM '/etc/passwd'",
    "EXPLAIN ANALYZE INSERT INTO flights SELECT * FROM flights",
    "EXPLAIN CREATE TABLE t WITH ('connector' = 'memory') AS SELECT 1",
    # settings, the session, other statements
    "SET 'sqlwin.strict-flink' = 'true'",
    "SET 'spark.hadoop.fs.s3a.secret.key'",
    "SET spark.driver.extraJavaOptions",
    "SET VAR x = 1",
    "DECLARE VARIABLE x INT DEFAULT 1",
    "USE other",
    "USE CATALOG other",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "EXPLAIN EXECUTE IMMEDIATE 'SELECT 1'",
    "CALL system.procedure()",
    "CREATE TEMPORARY VIEW v AS SELECT 1 AS a",
    "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/etc/passwd')",
    "CREATE FUNCTION f AS 'java.lang.System'",
    "CREATE TABLE t (a INT) WITH ('connector' = 'memory')",
    "CREATE MATERIALIZED TABLE m AS SELECT 1",
    "ALTER TABLE flights RENAME TO t",
    "ALTER MATERIALIZED TABLE m REFRESH",
    "DROP VIEW late",
    "INSERT INTO flights SELECT * FROM flights",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1",
    "WITH a AS (SELECT 1) INSERT INTO flights SELECT * FROM a",
    "MERGE INTO flights USING late ON TRUE WHEN MATCHED THEN DELETE",
    "UPDATE flights SET origin = ''",
    "DELETE FROM flights",
    "TRUNCATE TABLE flights",
    "CACHE TABLE flights",
    "UNCACHE TABLE flights",
    "CLEAR CACHE",
    "REFRESH TABLE flights",
    "ANALYZE TABLE flights COMPUTE STATISTICS",
    "MSCK REPAIR TABLE flights",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE flights",
    "ADD JAR 'a.jar'",
    "ADD FILE '/etc/passwd'",
    "LIST FILE",
    "STOP STREAM 1",
    "SELECT origin INTO other FROM flights",
]
# Statements that only Spark can read. A sqlwin without Spark would start it to judge them.
HOSTILE_FOR_SPARK = [
    "SELECT IDENTIFIER('java_method')('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('java_' || 'method')('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('builtin.reflect')('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('a') FROM VALUES (1) AS v(a) WHERE IDENTIFIER('reflect')('a', 'b') = ''",
    "VALUES (IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME'))",
    "VALUES (reflect('java.lang.System', 'getenv', 'HOME'))",
    "TABLE csv.`/etc/passwd`",
    "TABLE IDENTIFIER('csv.`/etc/passwd`')",
    "SELECT * FROM parquet.passwd",
    "SELECT * FROM text.relative_path",
    "SELECT * FROM flights WITH ('path' = '/etc/passwd')",
    "SELECT TRANSFORM(origin) USING 'cat' FROM flights",
    "FROM flights SELECT TRANSFORM(origin) USING 'cat'",
    "FROM flights INSERT INTO flights SELECT *",
    "FROM flights INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT *",
    "DESCRIBE csv.`/etc/passwd`",
    "DESCRIBE QUERY SELECT * FROM csv.`/etc/passwd`",
    "DESCRIBE QUERY SELECT reflect('java.lang.System', 'exit', 1)",
    "SHOW CREATE TABLE csv.`/etc/passwd`",
    "SHOW COLUMNS IN csv.`/etc/passwd`",
    "EXPLAIN TABLE csv.`/etc/passwd`",
    "EXPLAIN SELECT IDENTIFIER('reflect')('java.lang.System', 'exit', 1)",
    # Spark ends this comment at the carriage return
    "SELECT 1 AS a --\r, reflect('java.lang.System', 'getenv', 'HOME') AS b",
    "SELECT * FROM range(1) |> SELECT IDENTIFIER('reflect')('java.lang.System', 'exit', 1)",
]

# Statements that a read-only server answers without Spark
GOOD = [
    "SELECT 1",
    'SELECT origin AS "a b", COUNT(*) FROM flights GROUP BY origin HAVING COUNT(*) > 1 ORDER BY 1',
    "SELECT DISTINCT origin FROM public.late ORDER BY origin DESC NULLS LAST LIMIT 1 OFFSET 1",
    "SELECT 'it''s java_method(' AS a, \"origin\" FROM late",
    "SELECT origin AS reflect FROM late",
    "SELECT '${env:HOME}' AS a",
    "SELECT * FROM flights /*+ OPTIONS('format' = 'parquet') */ WHERE 1 = 0",
    f"SELECT window_end, SUM(dep_delay) FROM {WINDOW.format('flights')} GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '91' DAYS, "
    "INTERVAL '182' DAYS)) GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '91' DAYS, "
    "INTERVAL '182' DAYS)) GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM TABLE(SESSION(TABLE flights PARTITION BY origin, DESCRIPTOR(sched_dep), "
    "INTERVAL '1' DAYS)) GROUP BY origin, window_start, window_end",
    "SELECT TUMBLE_END(sched_dep, INTERVAL '182' DAYS) AS e, COUNT(*) FROM flights "
    "GROUP BY TUMBLE(sched_dep, INTERVAL '182' DAYS)",
    f"EXPLAIN SELECT COUNT(*) FROM {WINDOW.format('flights')} GROUP BY window_start, window_end",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM flights",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW FUNCTIONS LIKE 'sum'",
    "SHOW STREAMS",
    "SHOW CREATE TABLE flights",
    "SHOW CREATE VIEW late",
    "DESCRIBE flights",
    "DESCRIBE EXTENDED public.late",
    "SELECT table_name FROM information_schema.tables",
    "SELECT current_setting('server_version_num')::int/100 AS version",
    "SET application_name = 'x'",
    "SET TIME ZONE 'Asia/Tokyo'",
    "SHOW TIME ZONE",
]
GOOD_FOR_SPARK = [
    "WITH a AS (SELECT origin FROM late), b(o) AS (SELECT 'EWR') SELECT * FROM a JOIN b ON o = origin",
    "SELECT * FROM late WHERE origin IN (SELECT origin FROM flights WHERE dep_delay > 900)",
    "SELECT origin FROM late UNION SELECT 'x' EXCEPT SELECT 'y'",
    "SELECT upper(origin), substring(origin, 1, 2), CAST(dep_delay AS DOUBLE) / 3 FROM late",
    "SELECT CASE WHEN dep_delay > 700 THEN 'a' ELSE 'b' END FROM late WHERE origin LIKE 'E%'",
    "SELECT EXTRACT(DAY FROM sched_dep), FLOOR(sched_dep TO DAY) FROM flights WHERE dep_delay > 900",
    "SELECT origin, ROW_NUMBER() OVER (PARTITION BY origin ORDER BY dep_delay) AS n FROM late",
    "SELECT COUNT(*) FILTER (WHERE dep_delay > 700), COUNT(DISTINCT origin) FROM late",
    "SELECT SUM(id), percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM range(10)",
    "SELECT transform(array(1, 2), x -> x + 1), map('a', 1)['a'], named_struct('a', 1).a",
    "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(n, s) PIVOT (SUM(n) FOR s IN ('a', 'b'))",
    "TABLE late",
    "VALUES (1), (2)",
    "FROM late |> WHERE dep_delay > 700 |> AGGREGATE COUNT(*) AS n GROUP BY origin |> ORDER BY n",
    "SELECT * FROM late LATERAL VIEW posexplode(array(1, 2)) x AS p, q",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT try_divide(1, 0), uuid() IS NOT NULL",
    "SELECT origin FROM late TABLESAMPLE (100 PERCENT) CLUSTER BY origin",
    "SELECT a.id FROM range(3) a LEFT SEMI JOIN range(2) b USING (id)",
    "SELECT INTERVAL 1 DAY 2 HOURS, X'1F', 1.5D, 2BD, DATE '2024-01-01' + 1, -id FROM range(1)",
    "SELECT trim(BOTH 'x' FROM 'xax'), overlay('abc' PLACING 'x' FROM 1), position('a' IN 'ba')",
    "SELECT timestampadd(DAY, 1, now()), datediff(DAY, now(), now()), current_date",
    "SELECT SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) FROM range(3)",
    "SELECT id FROM range(3) WHERE id NOT LIKE ALL ('a', 'b') OR id IS NOT UNKNOWN OR (id, 1) IN (SELECT 1, 1)",
    "DESCRIBE FUNCTION abs",
    "DESCRIBE QUERY SELECT origin FROM late",
    "SHOW DATABASES",
    "SHOW COLUMNS IN late",
    "EXPLAIN FORMATTED VALUES (1)",
    "SUMMARIZE late",
    "ADVISE WITH ('arrival' = 'left_at') SELECT window_end, COUNT(*) FROM "
    f"{WINDOW.format('departures')} GROUP BY window_start, window_end",
    f"EXPLAIN ROW SELECT window_end, COUNT(*) FROM {WINDOW.format('departures')} "
    "WHERE sched_dep < TIMESTAMP '2013-01-02 00:00:00' GROUP BY window_start, window_end",
    "SELECT plus_one(1)",
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a read-only server that must not start Spark."""
    session = sqlwin.connect(unstarted_spark(), settings={"sqlwin.double-quotes": "identifier"})
    session.execute(SCRIPT)
    served = ServedSession(session, can_write=False, double_quotes="identifier")
    with serving(served) as port, connect(port) as connection:
        yield connection
    session.close()


@pytest.fixture(scope="module")
def spark_client(spark: Any) -> Iterator[Any]:
    """A client of a read-only server on Spark."""
    session = sqlwin.connect(spark.newSession(), settings={"sqlwin.double-quotes": "identifier"})
    session.execute(SCRIPT)
    session.spark.udf.register("plus_one", lambda n: n + 1, "int")
    served = ServedSession(session, can_write=False, double_quotes="identifier")
    with serving(served) as port, connect(port) as connection:
        yield connection
    session.close()


def refuses(client: Any, statement: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="read-only") as raised:
        client.execute(statement)
    message = str(raised.value.diag.message_primary)
    assert "\n" not in message
    assert "org." not in message
    # the extended protocol: described before it runs
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        client.execute(statement, prepare=True)


def test_there_are_a_hundred_hostile_statements() -> None:
    assert len({*HOSTILE, *HOSTILE_FOR_SPARK}) == len(HOSTILE) + len(HOSTILE_FOR_SPARK) > 100


@pytest.mark.parametrize("statement", HOSTILE)
def test_a_hostile_statement_is_refused(client: Any, statement: str) -> None:
    refuses(client, statement)
    assert client.execute("SHOW TABLES").fetchall() == [("departures",), ("flights",), ("late",)]


def test_a_refusal_says_how_clients_may_write(client: Any) -> None:
    refused = psycopg.errors.ReadOnlySqlTransaction
    with pytest.raises(refused, match="the server is read-only") as raised:
        client.execute("DROP TABLE flights")
    assert raised.value.diag.message_hint == "start it with sqlwin serve --write"


@pytest.mark.variants(7)
@pytest.mark.parametrize("statement", HOSTILE_FOR_SPARK)
def test_spark_does_not_analyse_a_hostile_statement(spark_client: Any, statement: str) -> None:
    refuses(spark_client, statement)


@pytest.mark.parametrize("statement", GOOD)
def test_a_good_statement_runs(client: Any, statement: str) -> None:
    client.execute(statement)


@pytest.mark.long
@pytest.mark.parametrize("statement", GOOD_FOR_SPARK)
def test_a_good_statement_runs_on_spark(spark_client: Any, statement: str) -> None:
    assert spark_client.execute(statement).fetchall()


@pytest.mark.long
def test_spark_s_expressions_name_no_environment(spark_client: Any) -> None:
    texts = ("SELECT '${env:PATH}' AS a, uuid() AS u", "VALUES ('${system:user.dir}')")
    found = [spark_client.execute(text).fetchone()[0] for text in texts]
    assert found == ["${env:PATH}", "${system:user.dir}"]


def test_a_value_of_a_parameter_is_judged_like_the_text(client: Any) -> None:
    for query in ("SELECT * FROM read_csv(%s)", "SELECT * FROM %s"):
        with pytest.raises(psycopg.Error) as raised:
            client.execute(query, ("/etc/passwd",))
        assert "root" not in str(raised.value)
    call = "SELECT upper(%s) AS a, 'x' LIKE %s AS b"
    assert client.execute(call, ("reflect('a')", "y")).fetchone() == ("REFLECT('A')", False)


@pytest.mark.long
def test_a_declared_view_may_do_what_clients_may_not(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    session = sqlwin.connect(spark.newSession())
    session.execute(f"""
        CREATE VIEW home AS SELECT java_method('java.lang.System', 'getProperty', 'user.home') AS h;
        CREATE VIEW rows_of_file AS SELECT * FROM '{tmp_path}/f.csv'
    """)
    served = ServedSession(session, can_write=False, double_quotes="checked")
    with serving(served) as port, connect(port) as client:
        ((home,),) = client.execute("SELECT h FROM home").fetchall()
        assert home == os.path.expanduser("~")
        assert client.execute("SELECT SUM(a) FROM rows_of_file").fetchall() == [(1,)]
        refuses(client, f"SELECT * FROM '{tmp_path}/f.csv'")
    session.close()


# -- readable paths --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory `open` that clients may read, next to others."""
    root = tmp_path_factory.mktemp("files")
    for name in ("open/a.csv", "open/below/b.csv", "open/c d.csv", "opened/o.csv", "secret/s.csv"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("n\n1\n")
    (root / "open/linked.csv").symlink_to(root / "secret/s.csv")
    (root / "open/links").symlink_to(root / "secret")
    (root / "open/inside.csv").symlink_to(root / "open/a.csv")
    (root / "way").symlink_to(root / "open")
    return root


@pytest.fixture(scope="module")
def reader(files: Path) -> Iterator[Any]:
    session = sqlwin.connect(unstarted_spark(), settings={"sqlwin.double-quotes": "identifier"})
    served = ServedSession(
        session, can_write=False, double_quotes="identifier", readable=[f"{files}/open"]
    )
    with serving(served) as port, connect(port) as connection:
        yield connection
    session.close()


@pytest.mark.parametrize(
    ("path", "n_rows"),
    [
        ("{}/open/a.csv", 1),
        ("file://{}/open/a.csv", 1),
        ("file:{}/open/a.csv", 1),
        ("{}/open/below", 1),
        ("{}/open/below/*.csv", 1),
        ("{}/open/{{a,c d}}.csv", 2),
        ("{}/open/inside.csv", 1),
        ("{}/way/a.csv", 1),
        ("{}/open/c d.csv", 1),
    ],
)
def test_files_below_a_readable_path_are_read(
    reader: Any, files: Path, path: str, n_rows: int
) -> None:
    name = path.format(files)
    assert reader.execute(f"SELECT COUNT(*) FROM '{name}'").fetchall() == [(n_rows,)]
    assert reader.execute(f"DESCRIBE '{name}'").fetchall()
    assert reader.execute(f"SELECT n FROM read_csv('{name}', header => true)").fetchall()


@pytest.mark.parametrize(
    "path",
    [
        "{}/secret/s.csv",
        "{}/opened/o.csv",
        "{}/open*/o.csv",
        "{}/*/s.csv",
        "{}/open/../secret/s.csv",
        "{}/open/*/../../secret/s.csv",
        "{}/open/{{a,../secret/s}}.csv",
        "{{{0}/open/a.csv,{0}/secret/s.csv}}",
        "{}/open/linked.csv",
        "{}/open/links/s.csv",
        "{}/open/links",
        "{}/open/l*.csv",
        "{}/open/*",
        "{}/open",
        "{}/open/li*/s.csv",
        "file://{}/open/../secret/s.csv",
        "file://{}/open/%2e%2e/secret/s.csv",
        "file://localhost{}/secret/s.csv",
        "{}/open/\\\\.\\\\./secret/s.csv",
        "FILE:{}/secret/s.csv",
        "{}/open/{{a.csv",
        "secret/s.csv",
        "",
    ],
)
def test_files_elsewhere_are_refused(reader: Any, files: Path, path: str) -> None:
    name = path.format(files)
    for statement in (f"SELECT * FROM '{name}'", f"DESCRIBE '{name}'", f"SUMMARIZE '{name}'"):
        with pytest.raises(psycopg.Error) as raised:
            reader.execute(statement)
        assert raised.value.sqlstate in ("25006", "42601")
        assert (raised.value.sqlstate == "25006") or not name


# -- the lists -------------------------------------------------------------------------------------


def test_the_functions_of_sqlwin_s_own_reference_may_be_called() -> None:
    from sqlwin.help.functions import FUNCTIONS as DOCUMENTED

    assert {name.lower() for name in DOCUMENTED} - FUNCTIONS == set()
