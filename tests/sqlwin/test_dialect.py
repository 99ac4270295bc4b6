"""The dialect registered with sqlglot: parsing, formatting, transpiling."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, UnsupportedError

import sqlwin
from sqlwin.dialect import ConnectorTable, SqlWin
from sqlwin.statements.nodes import CreateTable
from sqlwin.statements.parse import parse_statement
from tests.goldens import ROOT

TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
TABLE = """CREATE TABLE IF NOT EXISTS bids (
  k STRING COMMENT 'the key',
  ms BIGINT,
  price DECIMAL(10, 2),
  ts AS TO_TIMESTAMP_LTZ(ms, 3),
  PRIMARY KEY (k) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
)
PARTITIONED BY (k)
WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json')"""


def test_sqlglot_finds_it_by_the_entry_point_of_the_package(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (result,) = project["entry-points"]["sqlglot.dialects"].items()
    assert result == ("sqlwin", "sqlwin.dialect:SqlWin")
    # as pip would write it, for an environment with an older installed version
    info = tmp_path / "sqlwin_dialect-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sqlwin-dialect\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sqlglot.dialects]\nsqlwin = sqlwin.dialect:SqlWin\n")
    program = (
        "import sys, sqlglot, sqlwin.parser.parser;"  # which has its own dialect
        f"sys.path.insert(0, {str(tmp_path)!r});"
        f"tree = sqlglot.parse_one({f'SELECT * FROM {TUMBLE}'!r}, read='sqlwin');"
        "print(tree.sql('sqlwin'))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert printed.stdout == f"SELECT * FROM {TUMBLE}\n"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, window_end, SUM(v) FROM {TUMBLE} AS w GROUP BY k, window_start, window_end",
        "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        "SELECT * FROM t /*+ OPTIONS('a' = 'b') */ AS x WHERE x.k = :k AND n > ? LIMIT :n",
        "SELECT ts + INTERVAL :n MINUTES, INTERVAL '1' DAY '2' HOURS, 10L, DATE '2024-01-01' FROM t",
        "SELECT EXTRACT(DAY FROM ts), TRY_CAST(a AS INT), date_add(ts, 1), my_function(x) FROM t",
        "SELECT k FROM t EMIT ON WINDOW CLOSE",
        "SELECT * FROM 'it\\'s.csv' AS f",
        "SELECT * FROM TABLE(TUMBLE(TABLE 'f.csv', DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT * FROM TABLE(RANGES(TABLE t, DESCRIPTOR(ts), (SELECT a, b FROM u), DESCRIPTOR(a, b)))",
        "SUMMARIZE 'f.csv'",
        "ADVISE WITH ('arrival' = 'a') SELECT 1",
        "INSERT INTO u SELECT k FROM t",
        "CREATE VIEW v AS SELECT 1 AS one",
        "SET 'table.local-time-zone' = 'UTC'",
        "SHOW TABLES",
        "CREATE TABLE t (ts TIMESTAMP(3) METADATA VIRTUAL, r ROW<a INT>) WITH ('connector' = 'x')",
        "EXPLAIN SELECT 1",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
    ],
)
def test_statements_are_written_as_they_were_read(sql: str) -> None:
    assert sqlglot.transpile(sql, read=SqlWin) == [sql]
    (pretty,) = sqlglot.transpile(sql, read=SqlWin, pretty=True)
    assert sqlglot.transpile(pretty, read=SqlWin) == [sql]


def test_a_script_is_a_tree_a_statement_and_comments_stay() -> None:
    script = "-- the first\nSELECT 1; SHOW VIEWS;\nSELECT ';' /* three */"
    trees = sqlglot.parse(script, read=SqlWin)
    assert [type(tree) for tree in trees] == [exp.Select, exp.Command, exp.Select]
    assert "three" in trees[2].sql(SqlWin)


def test_tables_are_trees_that_mean_the_same_when_written() -> None:
    tree = sqlglot.parse_one(TABLE, read=SqlWin)
    assert isinstance(tree, ConnectorTable)
    assert [column.name for column in tree.find_all(exp.ColumnDef)][:3] == ["k", "ms", "price"]
    for pretty in (False, True):
        written, first = parse_statement(tree.sql(SqlWin, pretty=pretty)), parse_statement(TABLE)
        assert isinstance(written, CreateTable) and isinstance(first, CreateTable)
        assert written.columns == first.columns and written.watermark == first.watermark
        assert written.options == first.options and written.primary_key == first.primary_key
        assert written.partitioned_by == first.partitioned_by


def test_refusals_of_sqlwin_are_parse_errors_with_a_position() -> None:
    with pytest.raises(ParseError, match="unknown window function TUMBEL") as raised:
        sqlglot.parse_one(
            f"SELECT 1;\nSELECT * FROM {TUMBLE.replace('TUMBLE', 'TUMBEL')}", read=SqlWin
        )
    assert raised.value.errors[0]["highlight"] == "TUMBEL"
    assert raised.value.errors[0]["line"] == 2
    with pytest.raises(ParseError, match="WHERE needs a condition"):
        sqlglot.parse_one("SELECT * FROM t WHERE ORDER BY k", read=SqlWin)


@pytest.mark.parametrize(
    ("sql", "write", "message"),
    [
        (
            f"SELECT * FROM {TUMBLE}",
            "duckdb",
            "DuckDB has no equivalent of the window function TUMBLE",
        ),
        (
            f"SELECT * FROM {TUMBLE}".replace("MINUTES", "MONTHS"),
            "spark",
            "no equivalent of this TUMBLE",
        ),
        (
            "SELECT * FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
            "spark",
            "Spark has no equivalent of this SESSION",
        ),
        ("SELECT 1 FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY)", "spark", "TUMBLE, a window in"),
        (TABLE, "spark", "CREATE TABLE ... WITH ('connector' = ...)"),
        (TABLE.replace("price DECIMAL(10, 2)", "m INT METADATA"), "spark", "statement CREATE"),
        ("SELECT * FROM 'f.csv'", "spark", "files by their name"),
        ("EXPLAIN\nSELECT 1", "duckdb", "sqlwin's statement EXPLAIN"),
        ("SHOW STREAMS", "spark", "sqlwin's statement SHOW"),
    ],
)
def test_transpiling_names_constructs_that_the_target_lacks(
    sql: str, write: str, message: str
) -> None:
    with pytest.raises(UnsupportedError) as raised:
        sqlglot.transpile(sql, read=SqlWin, write=write)
    assert message in str(raised.value)
    assert sqlglot.transpile(sql, SqlWin, write, unsupported_level=ErrorLevel.IGNORE)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' WEEK)",
        "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY, INTERVAL '-3' HOURS)",
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' MINUTES, INTERVAL '10' MINUTES)",
        "HOP((SELECT * FROM t WHERE n > 1), DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '3' HOURS)",
        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '1' HOUR)",
        "CUMULATE(TABLE t, DESCRIPTOR(at), INTERVAL '6' HOURS, INTERVAL '1' DAY, INTERVAL '1' HOUR)",
    ],
)
def test_windows_as_sql_of_spark_have_the_same_rows(
    fresh_session: sqlwin.Session, window: str
) -> None:
    fresh_session.execute("""
        SET 'table.local-time-zone' = 'Asia/Kolkata';
        CREATE VIEW t AS SELECT id AS n, CAST(at AS TIMESTAMP_NTZ) AS ts, at FROM (
          SELECT id, IF(id = 3, NULL, TIMESTAMP '2024-05-01 00:00:00+05:30'
            + make_dt_interval(0, 0, CAST(id * id * 7 AS INT), 0)) AS at FROM range(20))
    """)
    query = f"SELECT n, window_start, window_end, window_time FROM TABLE({window}) ORDER BY ALL"
    (spark,) = sqlglot.transpile(query, read=SqlWin, write="spark")
    assert "DESCRIPTOR" not in spark
    rows = fresh_session.sql(query).collect()
    assert fresh_session.sql(spark).collect() == rows
    assert len(rows) >= 17


FILLED = (
    "SELECT k, COUNT(*) AS n FROM t "
    "GROUP BY k, window_end FILL (n = 0, m = LOCF) FROM TIMESTAMP '2026-01-01' "
    "KEYS (SELECT k FROM u) HAVING COUNT(*) > 1"
)
GAPS = (
    "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
    "FILL => (v = LOCF, 0), FROM => '2026-01-01')) AS g"
)


@pytest.mark.parametrize("sql", [FILLED, GAPS])
def test_gap_filling_is_written_as_it_was_and_has_no_equivalent_elsewhere(sql: str) -> None:
    tree = sqlglot.parse_one(sql, dialect=SqlWin)
    written = tree.sql(SqlWin)
    assert sqlglot.parse_one(written, dialect=SqlWin).sql(SqlWin) == written
    for part in ("LOCF", "2026-01-01", "0"):
        assert part in written
    for dialect in ("spark", "duckdb", "postgres"):
        with pytest.raises(UnsupportedError, match="FILL"):
            tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)


@pytest.mark.parametrize(
    ("function", "others"), [("FROM_CHANGELOG", ", error_handling => 'SKIP'"), ("TO_CHANGELOG", "")]
)
def test_a_changelog_is_written_as_it_was_and_has_no_equivalent_elsewhere(
    function: str, others: str
) -> None:
    sql = (
        f"SELECT k FROM TABLE({function}(input => TABLE t PARTITION BY k, op => DESCRIPTOR(o), "
        f"op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE']{others})) AS f"
    )
    tree = sqlglot.parse_one(sql, dialect=SqlWin)
    assert tree.sql(SqlWin) == sql
    for dialect in ("spark", "duckdb"):
        with pytest.raises(UnsupportedError, match=function):
            tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
