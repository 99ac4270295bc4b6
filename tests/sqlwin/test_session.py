"""A session from outside: SQL in, rows out."""

from __future__ import annotations

import re
from datetime import date, datetime
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


def test_row_on_a_window_end_belongs_to_the_next_window(db: sqlwin.Session) -> None:
    query = f"SELECT window_start, SUM(price) FROM {TUMBLE} GROUP BY window_start ORDER BY 1"
    assert rows(db, query) == [(at("12:00"), 6), (at("12:10"), 4), (at("12:20"), 5)]


def test_rows_without_a_time_are_in_no_window(db: sqlwin.Session) -> None:
    assert rows(db, f"SELECT COUNT(*) FROM {TUMBLE}") == [(5,)]


def test_window_function_without_aggregate_adds_three_columns(db: sqlwin.Session) -> None:
    frame = db.sql(f"SELECT * FROM {TUMBLE} WHERE price = 4")
    assert [f.dataType.simpleString() for f in frame.schema.fields[-3:]] == ["timestamp_ntz"] * 3
    assert [tuple(r) for r in frame.collect()] == [
        (at("12:10"), "a", 4, at("12:10"), at("12:20"), at("12:19:59.999"))
    ]


def test_hop_emits_windows_before_and_after_the_rows(db: sqlwin.Session) -> None:
    query = """
        SELECT window_start, window_end, COUNT(*) AS n
        FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '20' MINUTES))
        GROUP BY window_start, window_end ORDER BY window_start
    """
    assert rows(db, query) == [
        (at("11:50"), at("12:10"), 3),
        (at("12:00"), at("12:20"), 4),
        (at("12:10"), at("12:30"), 2),
        (at("12:20"), at("12:40"), 1),
    ]


def test_cumulate_repeats_a_total_until_the_end_of_the_largest_window(db: sqlwin.Session) -> None:
    query = """
        SELECT item, window_end, SUM(price) AS total
        FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '30' MINUTES))
        GROUP BY item, window_start, window_end ORDER BY item, window_end
    """
    assert rows(db, query) == [
        ("a", at("12:10"), 4),
        ("a", at("12:20"), 8),
        ("a", at("12:30"), 8),
        ("b", at("12:10"), 2),
        ("b", at("12:20"), 2),
        ("b", at("12:30"), 7),
    ]


def test_cumulate_emits_only_changed_steps_if_asked(db: sqlwin.Session) -> None:
    query = """
        SELECT item, window_end FROM TABLE(CUMULATE(
          DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '10' MINUTES,
          SIZE => INTERVAL '30' MINUTES, EMITONLYONUPDATE => true))
        GROUP BY item, window_start, window_end ORDER BY item, window_end
    """
    assert rows(db, query) == [
        ("a", at("12:10")), ("a", at("12:20")), ("b", at("12:10")), ("b", at("12:30")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "groups",
    [
        "item, window_start, window_end",
        "window_end, item",
        "i, w",
        "1, 2",
        "ALL",
        "b.item, b.window_end",
        "item, window_end, window_time",
    ],
)
def test_group_by_may_be_written_in_many_ways(db: sqlwin.Session, groups: str) -> None:
    query = f"""
        SELECT item AS i, window_end AS w, SUM(price) AS total
        FROM {TUMBLE} AS b GROUP BY {groups} HAVING total > 3 ORDER BY total DESC, item LIMIT 2
    """
    assert rows(db, query) == [("b", at("12:30"), 5), ("a", at("12:10"), 4)]


def test_expressions_around_and_inside_aggregates(db: sqlwin.Session) -> None:
    query = f"""
        SELECT UPPER(item) AS name, DATE_FORMAT(window_end, 'HH:mm') AS until,
               SUM(price * 2) + 1 AS x, x * 10 AS y,
               CASE WHEN COUNT(*) > 1 THEN 'many' ELSE 'one' END AS how
        FROM {TUMBLE} GROUP BY UPPER(item), window_start, window_end ORDER BY MIN(ts), name
    """
    assert rows(db, query) == [
        ("A", "12:10", 9, 90, "many"),
        ("B", "12:10", 5, 50, "one"),
        ("A", "12:20", 9, 90, "one"),
        ("B", "12:30", 11, 110, "one"),
    ]


def test_a_cte_may_have_the_name_of_the_table_it_reads(db: sqlwin.Session) -> None:
    query = f"""
        WITH bids AS (SELECT * FROM bids WHERE item = 'a')
        SELECT window_start, COUNT(*) FROM {TUMBLE} GROUP BY window_start ORDER BY window_start
    """
    assert rows(db, query) == [(at("12:00"), 2), (at("12:10"), 1)]


def test_ctes_nest_and_windows_in_them_are_joined(db: sqlwin.Session) -> None:
    query = f"""
        WITH w AS (SELECT item, window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY item, window_end),
             best(e, most) AS (SELECT window_end, MAX(n) FROM w GROUP BY window_end)
        SELECT w.item, w.n FROM w JOIN best ON w.window_end = best.e AND w.n = best.most
        WHERE w.window_end = TIMESTAMP_NTZ'2026-01-01 12:10:00'
    """
    assert rows(db, query) == [("a", 2)]


def test_windows_over_windows_of_a_view(db: sqlwin.Session) -> None:
    db.execute(f"""
        CREATE VIEW tens AS SELECT item, window_time AS t, SUM(price) AS total
        FROM {TUMBLE} GROUP BY item, window_start, window_end, window_time
    """)
    query = """
        SELECT window_end, SUM(total), COUNT(*)
        FROM TABLE(TUMBLE(TABLE tens, DESCRIPTOR(t), INTERVAL '1' HOUR)) GROUP BY window_end
    """
    assert rows(db, query) == [(at("13:00"), 15, 4)]


def test_columns_can_be_renamed_by_the_alias(db: sqlwin.Session) -> None:
    query = f"SELECT thing, we, SUM(p) FROM {TUMBLE} AS x(t, thing, p, ws, we, wt) GROUP BY thing, ws, we"
    assert (("b", at("12:30"), 5)) in rows(db, query)


def test_window_functions_join_with_tables(db: sqlwin.Session) -> None:
    query = f"""
        SELECT names.name, COUNT(*) FROM {TUMBLE} AS b
        JOIN (VALUES ('a', 'apple')) AS names(item, name) ON b.item = names.item
        GROUP BY names.name, b.window_end ORDER BY 2 DESC
    """
    assert rows(db, query) == [("apple", 2), ("apple", 1)]


def test_an_empty_table_has_no_windows(db: sqlwin.Session) -> None:
    query = """
        SELECT window_end, COUNT(*) FROM TABLE(HOP(
          (SELECT * FROM bids WHERE price > 100), DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))
        GROUP BY window_end
    """
    assert rows(db, query) == []


def test_first_and_last_value_go_by_time(db: sqlwin.Session) -> None:
    query = f"SELECT window_end, FIRST_VALUE(price), LAST_VALUE(price) FROM {TUMBLE} GROUP BY window_end"
    assert sorted(rows(db, query))[0] == (at("12:10"), 1, 3)


def test_a_day_without_an_hour_is_one_window_of_local_time(fresh_session: sqlwin.Session) -> None:
    # New York, 10 March 2024: 02:00 does not exist, the day has 23 hours
    fresh_session.execute("SET 'table.local-time-zone' = 'America/New_York'")
    fresh_session.execute("""
        CREATE VIEW t AS SELECT CAST(s AS TIMESTAMP) AS ts FROM VALUES
        ('2024-03-10T04:59:00Z'), ('2024-03-10T05:00:00Z'), ('2024-03-11T03:59:00Z'),
        ('2024-03-11T04:00:00Z') AS v(s)
    """)
    query = """
        SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
        GROUP BY window_start ORDER BY window_start
    """
    found = [(start.date(), n) for start, n in rows(fresh_session, query)]
    assert found == [(date(2024, 3, 9), 1), (date(2024, 3, 10), 2), (date(2024, 3, 11), 1)]


SUMS = """
    CREATE TABLE sums (window_end TIMESTAMP(3), total BIGINT, item STRING)
    PARTITIONED BY (item)
    WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')
"""


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


def test_create_table_as_and_like(db: sqlwin.Session, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/copy', 'format' = 'json')
        AS SELECT item, price FROM bids
    """)
    assert rows(db, "SELECT COUNT(*), SUM(price) FROM copy") == [(6, 21)]
    db.execute(f"CREATE TABLE other WITH ('path' = '{tmp_path}/other') LIKE copy")
    db.execute("INSERT INTO other SELECT 'z', 9")
    assert rows(db, "SELECT * FROM other") == [("z", 9)]


def test_show_and_describe_tell_what_there_is(db: sqlwin.Session) -> None:
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
        ("ts", "TIMESTAMP_NTZ", "TRUE", "", "AS TIMESTAMP_NTZ '2026-01-01 00:00:00'",
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


@pytest.mark.parametrize(
    "rule",
    ["push_filter_below_window", "pull_window_filter_above_aggregate",
     "fold_window_into_aggregate", "prune_aggregate_input", "split_window_aggregate"],
)  # fmt: skip
def test_every_rule_may_be_disabled_without_changing_the_result(
    db: sqlwin.Session, rule: str
) -> None:
    query = """
        SELECT item, window_end, SUM(price) AS total, AVG(price) AS mean
        FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))
        WHERE price <> 2 AND window_end > TIMESTAMP_NTZ'2026-01-01 12:10:00'
        GROUP BY item, window_start, window_end ORDER BY item, window_end
    """
    wanted = rows(db, query)
    db.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{rule}'")
    assert rows(db, query) == wanted
    assert f"{rule} on any node: disabled" in db.explain(query)


def test_results_stream_as_arrow_batches(db: sqlwin.Session) -> None:
    (result,) = db.execute("SELECT id, CAST(NULL AS VOID) AS nothing FROM range(200000)")
    batches = list(result.batches())
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert max(batch.num_rows for batch in batches) <= 10_000
    assert sum(b.num_rows for b in result.batches(limit=7)) == 7


def test_positions_in_explain_and_statement_sets_are_those_of_the_script(
    db: sqlwin.Session,
) -> None:
    for script in (
        "SELECT 1;\n  EXPLAIN SELECT nope FROM bids",
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO x SELECT nope FROM bids;\nEND",
    ):
        with pytest.raises(sqlwin.SqlwinError) as caught:
            for result in db.execute_iter(script):
                assert result
        assert caught.value.position is not None
        assert script[caught.value.position.offset :].startswith("nope")


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


def test_jobs_are_described_by_the_pipelines_name_and_the_statement(db: sqlwin.Session) -> None:
    db.execute("SET 'pipeline.name' = 'nightly'; SELECT\n 1")
    described = db.spark.sparkContext.getLocalProperty("spark.job.description")
    assert described == "nightly: SELECT 1"


def test_a_session_shows_its_users_what_is_for_them() -> None:
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
