"""A standalone cluster whose workers have only pyarrow, numpy and protobuf."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.clusters.standalone import FLIGHTS, Driver, readings, stream_files
from tests.end_to_end.recovery import killed_stream
from tests.end_to_end.streams import queries
from tests.marks import among

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_workers_have_nothing_of_the_tests(cluster: Driver) -> None:
    result = cluster.run("""
        def seen(_):
            import importlib.util
            names = ("pyarrow", "numpy", "pandas", "sqlglot", "planner", "duckdb", "sqlwin")
            yield [name for name in names if importlib.util.find_spec(name)]
        answer = spark.sparkContext.parallelize(range(2), 2).mapPartitions(seen).collect()
    """)
    # modules of sqlwin that user functions may import
    assert result == [["pyarrow", "numpy", "sqlwin"]] * 2


def test_all_rows_of_a_batch(cluster: Driver) -> None:
    cluster.run(f"""session.execute('''CREATE TABLE flights WITH ('connector' = 'filesystem',
        {FLIGHTS})''')""")
    result = cluster.run("""
        result = session.execute('''SELECT origin, window_end, COUNT(*) AS n, AVG(dep_delay) AS a
            FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '12' HOURS, INTERVAL '1' DAY))
            GROUP BY origin, window_start, window_end''')[-1]
        batches = list(result.batches())
        answer = [sum(b.num_rows for b in batches), sum(sum(b['n'].to_pylist()) for b in batches)]
    """)
    assert result == [2193, 2 * 336_776]


def test_functions_of_users(cluster: Driver) -> None:
    result = cluster.run("""
        import pyarrow.compute as pc
        from sqlwin import windows as w
        session.register_function("twice", lambda v: pc.multiply(v, 2), "bigint")

        class EveryThird(w.Trigger):
            def on_row(self, row, window, context):
                context.memory = (context.memory or 0) + 1
                return w.Verdict(emit=context.memory % 3 == 0)
            def on_event_time(self, *_):
                return w.Verdict()

        session.execute('''CREATE VIEW visits AS SELECT * FROM VALUES
            ('ann', TIMESTAMP_NTZ'2024-02-28 10:01:00', 5), ('ann', TIMESTAMP_NTZ'2024-02-28 10:02:00', 1),
            ('bob', TIMESTAMP_NTZ'2024-02-28 10:12:00', 2), ('ann', TIMESTAMP_NTZ'2024-02-28 10:04:00', 4)
            AS v(visitor, ts, pages)''')
        gaps = session.windows("visits", keys=["visitor"], time="ts",
            window=w.session(lambda row: "1 minute" if row["pages"] > 4 else "90 seconds"),
            function=w.WholeWindowFunction(lambda key, window, rows: [len(list(rows))]), output="n int")
        answer = [rows("SELECT CAST(SUM(twice(pages)) AS INT) AS s FROM visits"),
                  sorted((r.visitor, r.n) for r in gaps.collect())]
    """)
    assert result == [["(24,)"], [["ann", 1], ["ann", 2], ["bob", 1]]]


@pytest.fixture(scope="module")
def events(cluster: Driver, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create the tables that `queries.QUERIES` read; `lts` has the watermark in `local_events`."""
    parts = [queries.events(200, 300 * i, i) for i in range(3)]
    options = stream_files(tmp_path_factory.mktemp("events") / "in", parts)
    columns = "ts TIMESTAMP(6), lts TIMESTAMP_LTZ(6), k STRING, v BIGINT"
    for name, time in (("events", "ts"), ("local_events", "lts")):
        cluster.run(f"""session.execute('''CREATE TABLE {name} ({columns},
            WATERMARK FOR {time} AS {time} - INTERVAL '5' SECONDS) WITH ({options})''')""")
    cluster.run("""session.execute("CREATE VIEW names AS SELECT * FROM VALUES "
        "('a', 'Anna'), ('b', 'Bert') AS n(k, name)")""")


@pytest.mark.parametrize(
    "name",
    among(queries.QUERIES, slow=queries.QUERIES.keys() - {"local time"}),
)
def test_each_stream_operator_gives_the_rows_of_the_batch(
    name: str, cluster: Driver, events: None
) -> None:
    query = queries.QUERIES[name]
    if name == "local time":
        query = query.replace("TABLE events", "TABLE local_events")
    result = cluster.run(f"""
query = '''{query}'''
answer = [rows(query, "streaming"), rows(query)]
""")
    assert len(result[1]) >= 3
    assert result[0] == result[1]


@pytest.mark.slow
def test_general_windows_on_a_stream(cluster: Driver, events: None) -> None:
    result = cluster.run("""
        from sqlwin import windows as w
        def counted(mode):
            session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
            session.windows("events", keys=["k"], time="ts", window=w.session("6 seconds"),
                function=w.WholeWindowFunction(lambda key, window, rows: [len(list(rows))]),
                output="n bigint", name=f"counted_{mode}")
            return f"SELECT * FROM counted_{mode}"
        session.execute("CREATE TABLE kept (k STRING, s TIMESTAMP(6), e TIMESTAMP(6), n BIGINT) "
            "WITH ('connector' = 'memory')")
        session.execute("SET 'execution.runtime-mode' = 'streaming';")
        session.execute("INSERT INTO kept " + counted("streaming"))
        answer = [rows("SELECT * FROM kept"), rows(counted("batch"))]
    """)
    assert len(result[1]) > 10
    assert result[0] == result[1]


@pytest.mark.slow
def test_modules_of_the_user_are_shipped_to_workers(
    cluster: Driver, events: None, tmp_path: Path
) -> None:
    (tmp_path / "counting.py").write_text(
        "def counted(key, window, rows): return [len(list(rows))]"
    )
    result = cluster.run(f"""
        spark.sparkContext.addPyFile("{tmp_path}/counting.py")
        import counting
        session.execute("SET 'execution.runtime-mode' = 'streaming'")
        session.windows("events", keys=["k"], time="ts", window=w.tumble("1 minute"),
            function=w.WholeWindowFunction(counting.counted), output="n bigint", name="by_module")
        session.execute("CREATE TABLE by_minute (k STRING, s TIMESTAMP(6), e TIMESTAMP(6), n BIGINT) "
            "WITH ('connector' = 'memory')")
        session.execute("INSERT INTO by_minute SELECT * FROM by_module")
        answer = [rows("SELECT SUM(n) FROM by_minute"),
                  rows("SELECT COUNT(*) FROM events WHERE ts IS NOT NULL")]
    """)
    assert result[0] == result[1]


@pytest.mark.slow
def test_generated_rows_and_processing_time(cluster: Driver) -> None:
    result = cluster.run("""
        session.execute('''CREATE TABLE made (k INT, at AS PROCTIME()) WITH ('connector' = 'datagen',
            'number-of-rows' = '1000', 'rows-per-second' = '500', 'fields.k.min' = '0', 'fields.k.max' = '3')''')
        answer = sum(int(r.split(",")[1].strip(")")) for r in rows('''SELECT window_end AS e, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(at), INTERVAL '1' SECOND))
            GROUP BY window_start, window_end'''.replace("window_end AS e", "'w' AS e"), "streaming"))
    """)
    assert result == 1000


def test_a_statement_set_with_late_rows_and_its_state(cluster: Driver, tmp_path: Path) -> None:
    parts = readings(
        [(s, s % 3, s) for s in range(0, 1200, 7)],
        [(s, s % 3, s) for s in range(1200, 2400, 7)],
        [(30, 1, -1), (2000, 2, -2)],  # late for all windows but the widest
        [(s, s % 3, s) for s in range(2400, 3000, 7)],
    )
    stream_files(tmp_path / "in", parts)
    result = cluster.run(f"""
tables = '''{killed_stream.set_tables(tmp_path)}'''
session.execute(tables)
session.execute("SET 'execution.runtime-mode' = 'streaming'; "
                "SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'")
before = len(session.streams.all())
(result,) = session.execute('''{killed_stream.statement_set()}''')
answer = {{"message": result.message, "n_streams": len(session.streams.all()) - before}}
for name in ("minutes", "moving", "so_far"):
    answer[name] = rows(f"SELECT * FROM {{name}}")
answer["late"] = rows("SELECT v, late_for FROM too_late")
session.execute("RESET 'execution.checkpointing.dir'")
""")
    in_time = [row for part in (parts[0], parts[1], parts[3]) for row in part.to_pylist()]
    # a row's value is its second
    assert len(result["minutes"]) == len({(row["k"], row["v"] // 60) for row in in_time})
    assert result["so_far"]
    assert result["n_streams"] == 1
    assert {row.split(",")[0].strip("(") for row in result["late"]} == {"-1", "-2"}
    # one task per core instead of Spark's 200
    (states,) = (tmp_path / "checkpoint").rglob("state")
    assert {path.name for path in (states / "0").iterdir() if path.name.isdigit()} == {"0", "1"}
