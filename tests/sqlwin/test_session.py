"""The Python API of a session."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import sqlwin


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-01T{text}")


@pytest.fixture
def db(fresh_session: sqlwin.Session) -> sqlwin.Session:
    #  12:00     12:10     12:20     12:30
    #  [---------)[--------)[--------)
    #  a1 b2  a3  a4        b5         (no time: 6)
    fresh_session.execute("""
        CREATE VIEW bids AS
        SELECT CAST(ts AS TIMESTAMP_NTZ) AS ts, item, price FROM VALUES
          ('2026-01-01 12:00:00', 'a', 1), ('2026-01-01 12:05:00', 'b', 2),
          ('2026-01-01 12:09:59.999999', 'a', 3), ('2026-01-01 12:10:00', 'a', 4),
          ('2026-01-01 12:20:00', 'b', 5), (NULL, 'a', 6) AS t(ts, item, price)
    """)
    return fresh_session


def rows(db: sqlwin.Session, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in db.sql(sql).collect()]


TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"


SUMS = """
    CREATE TABLE sums (window_end TIMESTAMP(3), total BIGINT, item STRING)
    PARTITIONED BY (item)
    WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
"""


@pytest.mark.long
def test_insert_writes_partitioned_files_that_a_table_reads(
    db: sqlwin.Session, tmp_path: Path
) -> None:
    db.execute(SUMS.format(path=tmp_path / "sums"))
    insert = f"SELECT window_end, SUM(price), item FROM {TUMBLE} GROUP BY item, window_end"
    (result,) = db.execute(f"INSERT INTO sums {insert}")
    assert result.row_count == 4
    assert (tmp_path / "sums" / "item=a").is_dir()
    assert rows(db, "SELECT SUM(total) FROM sums") == [(15,)]
    db.execute(f"INSERT INTO sums {insert}")
    assert rows(db, "SELECT SUM(total) FROM sums") == [(30,)]
    db.execute(f"INSERT OVERWRITE sums {insert}")
    assert rows(db, "SELECT SUM(total) FROM sums") == [(15,)]


@pytest.mark.long
def test_insert_into_a_partition_gives_its_value_to_all_rows(
    db: sqlwin.Session, tmp_path: Path
) -> None:
    db.execute(SUMS.format(path=tmp_path / "sums"))
    by_item = f"SELECT window_end, SUM(price), item FROM {TUMBLE} GROUP BY item, window_end"
    db.execute(f"INSERT INTO sums PARTITION (item) {by_item}")
    total = f"SELECT window_end, SUM(price) FROM {TUMBLE} GROUP BY window_end"
    db.execute(f"INSERT INTO sums PARTITION (item = 'all') {total}")
    sums = (
        "SELECT item = 'all' AS is_all, SUM(total) AS s FROM sums GROUP BY item = 'all' ORDER BY 1"
    )
    assert rows(db, sums) == [(False, 15), (True, 15)]
    db.execute("INSERT OVERWRITE sums PARTITION (item = 'all') (total) SELECT 2 * 21")
    assert rows(db, sums) == [(False, 15), (True, 42)]
    for wrong, message in {
        f"PARTITION (item = 'all') {by_item}": "the query returns 3 columns, but `sums` has 2",
        f"PARTITION (total = 3) {total}": "`sums` is not partitioned by `total`",
        "PARTITION (item = 'all') (item) SELECT 'b'": "`item` is both in PARTITION",
    }.items():
        with pytest.raises(sqlwin.SqlwinError, match=re.escape(message)):
            db.execute(f"INSERT INTO sums {wrong}")


def test_flinks_default_catalog_has_sparks_own_tables_too(fresh_session: sqlwin.Session) -> None:
    fresh_session.spark.range(3).createOrReplaceTempView("own")
    for catalog in ("default_catalog.default_database", "`default_database`"):
        assert rows(fresh_session, f"SELECT own.id FROM {catalog}.own WHERE own.id > 1") == [(2,)]
    fresh_session.spark.catalog.dropTempView("own")


@pytest.mark.long
def test_create_table_as_and_like(db: sqlwin.Session, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/copy', 'format' = 'json')
        AS SELECT item, price FROM bids
    """)
    assert rows(db, "SELECT COUNT(*), SUM(price) FROM copy") == [(6, 21)]
    db.execute(f"CREATE TABLE other WITH ('path' = '{tmp_path}/other') LIKE copy")
    db.execute("INSERT INTO other SELECT 'z', 9")
    assert rows(db, "SELECT * FROM other") == [("z", 9)]


def test_show_and_describe_list_the_sessions_objects(db: sqlwin.Session) -> None:
    db.execute("""
        CREATE TABLE made (
          id BIGINT NOT NULL COMMENT 'number', ts AS TIMESTAMP_NTZ'2026-01-01 00:00:00',
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'datagen', 'number-of-rows' = '3', 'fields.id.kind' = 'sequence',
              'fields.id.start' = '1', 'fields.id.end' = '3')
    """)
    tables, views, table = db.execute("SHOW TABLES; SHOW VIEWS; DESCRIBE made")
    assert [r[0] for r in tables.rows] == ["bids", "made"]
    assert [r[0] for r in views.rows] == ["bids"]
    assert [tuple(r) for r in table.rows] == [
        ("id", "BIGINT", "FALSE", "PRI(id)", "", ""),
        ("ts", "TIMESTAMP(6)", "TRUE", "", "AS TIMESTAMP_NTZ'2026-01-01 00:00:00'",
         "ts - INTERVAL '5' SECOND"),
    ]  # fmt: skip
    (created,) = db.execute("SHOW CREATE TABLE made")
    db.execute("DROP TABLE made")
    db.execute(created.rows[0][0])
    assert rows(db, "SELECT id FROM made ORDER BY id") == [(1,), (2,), (3,)]


def test_spark_statements_run_and_see_the_sessions_tables(db: sqlwin.Session) -> None:
    db.execute("CREATE TEMPORARY VIEW mine AS SELECT item, price FROM bids")
    (described,) = db.execute("DESCRIBE QUERY SELECT item FROM mine")
    assert described.rows[0][0] == "item"
    assert rows(db, "SELECT item FROM bids TABLESAMPLE (100 PERCENT) WHERE price = 5") == [("b",)]
    assert rows(db, "VALUES (1), (2)") == [(1,), (2,)]
    assert rows(db, "FROM bids SELECT MAX(price)") == [(6,)]


def test_statement_sets_run_every_insert(
    db: sqlwin.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    db.execute("CREATE TABLE out (item STRING, n BIGINT) WITH ('connector' = 'print')")
    (result,) = db.execute("""
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO out SELECT 'x', 1;
          INSERT INTO out (n) SELECT 2;
        END
    """)
    assert result.row_count == 2
    assert capsys.readouterr().out.splitlines() == ["+I[x, 1]", "+I[null, 2]"]


def test_a_registered_dataframe_is_a_table(db: sqlwin.Session) -> None:
    frame = db.spark.sql("SELECT TIMESTAMP_NTZ'2026-01-01 12:34:56' AS ts, 1 AS one")
    db.register("events", frame, time_column="ts", watermark="5 seconds")
    query = """
        SELECT window_start FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start
    """
    assert rows(db, query) == [(at("12:00"),)]
    with pytest.raises(sqlwin.SqlwinError, match="has no column `tz`"):
        db.register("events", frame, time_column="tz")


def test_a_spark_view_is_a_table(db: sqlwin.Session) -> None:
    db.spark.sql("SELECT TIMESTAMP'2026-01-01 12:34:56' AS ts").createOrReplaceTempView("sparks")
    query = """
        SELECT window_start FROM TABLE(TUMBLE(TABLE sparks, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start
    """
    assert rows(db, query) == [(at("12:00"),)]


def test_settings_are_set_shown_and_reset(db: sqlwin.Session) -> None:
    key = "table.optimizer.agg-phase-strategy"
    db.execute(f"SET '{key}' = 'ONE_PHASE'")
    (shown,) = db.execute(f"SET '{key}'")
    assert [tuple(r) for r in shown.rows] == [(key, "ONE_PHASE")]
    db.execute(f"RESET '{key}'")
    (shown,) = db.execute(f"SET '{key}'")
    assert shown.rows[0][1] == "AUTO"


def test_explain_names_a_disabled_rule(db: sqlwin.Session) -> None:
    db.execute("SET 'sqlwin.optimizer.disabled-rules' = 'split_window_aggregate'")
    plan = db.explain(f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY window_end")
    assert "split_window_aggregate on any node: disabled" in plan


@pytest.mark.long
def test_results_stream_as_arrow_batches(db: sqlwin.Session) -> None:
    (result,) = db.execute("SELECT id, CAST(NULL AS VOID) AS nothing FROM range(200000)")
    batches = list(result.batches())
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert max(batch.num_rows for batch in batches) <= 10_000
    assert sum(b.num_rows for b in result.batches(limit=7)) == 7


def test_positions_in_explain_and_statement_sets_refer_to_the_script(
    db: sqlwin.Session,
) -> None:
    for script in (
        "SELECT 1;\n  EXPLAIN SELECT nope FROM bids",
        "CREATE TABLE x (n INT) WITH ('connector' = 'blackhole');\n"
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO x SELECT nope FROM bids;\nEND",
    ):
        with pytest.raises(sqlwin.SqlwinError) as caught:
            for result in db.execute_iter(script):
                assert result
        assert caught.value.position is not None
        assert script[caught.value.position.offset :].startswith("nope")


@pytest.mark.long
def test_explain_details_of_spark_and_flink_are_answered(db: sqlwin.Session) -> None:
    query = f"SELECT window_end, COUNT(*) FROM {TUMBLE} GROUP BY window_end"
    (extended,) = db.execute(f"EXPLAIN EXTENDED {query}")
    assert "== Spark's Plan, EXTENDED ==" in extended.text
    assert "MapInArrow" in extended.text
    for detail, expected in (
        ("FORMATTED", "(1) "),
        ("COST", "sizeInBytes"),
        ("CODEGEN", "Codegen"),
    ):
        (explained,) = db.execute(f"EXPLAIN {detail} SELECT 1 AS twice, 2 AS twice")
        assert expected in explained.text.partition("== Spark's Plan")[2]
    (flinks,) = db.execute(f"EXPLAIN ESTIMATED_COST, CHANGELOG_MODE {query}")
    assert "[I]" in flinks.text
    assert flinks.notes == ("EXPLAIN ESTIMATED_COST adds nothing to the plan of a batch query",)


def test_spark_explains_statements_that_only_it_knows(db: sqlwin.Session) -> None:
    assert "LocalTableScan" in db.explain("VALUES (1), (2)")
    assert "== Physical Plan ==" in db.explain("EXPLAIN VALUES (1)")
    script = "SELECT 1;\nVALUES (1) AS a nope"
    with pytest.raises(sqlwin.SqlwinError) as caught:
        db.explain(script)
    assert caught.value.position is not None
    assert script[caught.value.position.offset :].startswith("nope")


@pytest.mark.variants(3)
@pytest.mark.parametrize("explain", ["explain", "execute"])
@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("VALUES (nope)", "nope"),
        ("FROM bids SELECT\n  nope", "nope"),
        ("DELETE FROM nowhere WHERE x = 1", "nowhere"),
        ("CREATE TABLE x AS VALUES (nope)", "nope"),
    ],
)
def test_a_statement_that_spark_cannot_plan_is_an_error_and_no_plan(
    db: sqlwin.Session, explain: str, statement: str, word: str
) -> None:
    script = f"SELECT 1;\nEXPLAIN {statement}" if explain == "execute" else statement
    with pytest.raises(sqlwin.SqlwinError) as caught:
        getattr(db, explain)(script)
    assert word in caught.value.message
    assert "SQLSTATE" not in str(caught.value)
    assert caught.value.position is not None
    assert script[caught.value.position.offset :].startswith(word)


def test_jobs_are_described_by_the_pipelines_name_and_the_statement(db: sqlwin.Session) -> None:
    db.execute("SET 'pipeline.name' = 'nightly'; SELECT\n 1")
    described = db.spark.sparkContext.getLocalProperty("spark.job.description")
    assert described == "nightly: SELECT 1"


def test_a_session_has_only_these_public_names() -> None:
    assert {name for name in dir(sqlwin.Session) if not name.startswith("_")} == {
        "close",
        "execute",
        "execute_iter",
        "explain",
        "explain_queries",
        "register",
        "register_aggregate",
        "register_function",
        "spark",
        "sql",
        "streams",
        "ui",
        "windows",
    }
