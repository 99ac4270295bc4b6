"""Tables in an object store that Spark has no package for: queries, columns, errors, secrets."""

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest

import sqlwin
from runtime.errors import SqlwinError
from runtime.scan.stores import filesystem_of
from tests.object_store import KEYS, ObjectStore, is_of_rows

N_ROWS = 600
BY_HOUR = """
    SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))
    GROUP BY window_start, window_end, k ORDER BY window_end, k
"""


def rows(first: int) -> pa.Table:
    begin = dt.datetime.fromisoformat("2024-01-01T00:00:00")
    numbers = range(first, first + N_ROWS)
    return pa.table(
        {
            "ts": pa.array([begin + dt.timedelta(minutes=i) for i in numbers], pa.timestamp("us")),
            "k": pa.array([i % 3 for i in numbers], pa.int32()),
            "v": pa.array(list(numbers), pa.int64()),
            "tags": [[f"t{i}"] for i in numbers],
        }
    )


@pytest.fixture(scope="module")
def store(store: ObjectStore) -> ObjectStore:
    for number in range(3):
        uri = f"events/day={number}/part-0.parquet"
        store.put(uri, rows(number * N_ROWS), row_group_size=N_ROWS // 4)
    return store


@pytest.fixture
def lake(lake: sqlwin.Session, store: ObjectStore) -> sqlwin.Session:
    """Provide a session that knows the store, with the table `events` in it."""
    create(lake, "events", store.uri("events"))
    return lake


def create(session: sqlwin.Session, name: str, path: str, columns: str = "") -> None:
    session.execute(
        f"CREATE TABLE {name} {columns} WITH ('connector' = 'filesystem', 'path' = '{path}', "
        "'format' = 'parquet')"
    )


@pytest.mark.long
def test_a_statement_looks_at_a_bucket_once(lake: sqlwin.Session, store: ObjectStore) -> None:
    for number in range(10):
        store.put(f"counted/part-{number}.parquet", rows(number * N_ROWS))

    def requests(work: Callable[[], object]) -> tuple[int, int]:
        """Return how often the directory is listed and how often files are opened."""
        store.requests.clear()
        work()
        opened = [path for method, path, _ in store.requests if path.endswith(".parquet")]
        heads = sum(method == "HEAD" for method, path, _ in store.requests if path in opened)
        return len(store.requests) - len(opened), heads

    looks, heads = requests(lambda: create(lake, "counted", store.uri("counted")))
    assert looks <= 4 and heads == 0
    windows = BY_HOUR.replace("TABLE events", "TABLE counted")
    looks, heads = requests(lambda: lake.sql(windows).collect())
    assert looks <= 6 and heads <= 22, "once for footers, once for rows"
    looks, heads = requests(lambda: lake.sql(windows).collect())
    assert looks <= 6 and heads <= 11, "footers are remembered"
    looks, heads = requests(lambda: lake.sql("SELECT MAX(v) FROM counted").collect())
    assert looks <= 6 and heads <= 11
    # the next statement sees new files
    store.put("counted/part-x.parquet", rows(10 * N_ROWS))
    store.put("counted/part-0.parquet", rows(0).slice(0, 100))
    (row,) = lake.sql("SELECT COUNT(*) AS n FROM counted").collect()
    assert row["n"] == 10 * N_ROWS + 100
    assert sum(row["n"] for row in lake.sql(windows).collect()) == 10 * N_ROWS + 100


@pytest.mark.long
def test_rows_of_a_bucket_are_read_without_a_window(lake: sqlwin.Session) -> None:
    result = lake.sql(
        "SELECT day, COUNT(*) AS n, MAX(v) AS v FROM events GROUP BY day ORDER BY day"
    )
    assert [tuple(row) for row in result.collect()] == [
        (n, N_ROWS, (n + 1) * N_ROWS - 1) for n in range(3)
    ]
    assert lake.sql("SELECT * FROM events WHERE v = 7").collect()[0].asDict() == {
        "ts": dt.datetime.fromisoformat("2024-01-01T00:07:00"),
        "k": 1,
        "v": 7,
        "tags": ["t7"],
        "day": 0,
    }


@pytest.mark.long
def test_files_of_a_bucket_are_tables_by_their_path(
    lake: sqlwin.Session, store: ObjectStore
) -> None:
    path = store.uri("events/day=1/*.parquet")
    assert lake.sql(f"SELECT COUNT(*) AS n FROM '{path}'").collect()[0]["n"] == N_ROWS


@pytest.mark.long
def test_declared_columns_and_metadata_come_from_the_files(
    lake: sqlwin.Session, store: ObjectStore
) -> None:
    columns = """(
        v BIGINT, extra STRING, day STRING,
        f STRING METADATA FROM 'file.name', w AS v + 1)
    """.replace("extra STRING, ", "")
    create(lake, "declared", store.uri("events/"), columns)
    result = lake.sql("SELECT * FROM declared WHERE v = 1300").collect()
    assert [tuple(row) for row in result] == [(1300, "2", "part-0.parquet", 1301)]
    create(lake, "wrong", store.uri("events"), "(nothing INT)")
    with pytest.raises(
        SqlwinError, match="column `nothing` of table `wrong` does not exist in s3a://lake"
    ):
        lake.sql("SELECT * FROM wrong").collect()


def refusal(session: sqlwin.Session, sql: str) -> str:
    with pytest.raises(SqlwinError) as raised:
        list(session.execute(sql)[-1].rows)
    text = str(raised.value)
    assert "Exception" not in text and KEYS["secret.key"] not in text
    return text


def test_missing_objects_are_named(lake: sqlwin.Session, store: ObjectStore) -> None:
    create(lake, "missing", store.uri("none.parquet"), "(k INT)")
    assert "s3a://lake/none.parquet does not exist" in refusal(lake, "SELECT * FROM missing")
    # nothing was written to a declared table yet
    create(lake, "unwritten", store.uri("none"), "(k INT)")
    assert lake.sql("SELECT * FROM unwritten").collect() == []
    with pytest.raises(SqlwinError, match="bucket nothing does not exist"):
        create(lake, "bucketless", "s3a://nothing/x")


@pytest.mark.long
def test_wrong_keys_and_a_store_that_fails_are_one_line(
    lake: sqlwin.Session, store: ObjectStore
) -> None:
    with store.failing("InvalidAccessKeyId"):
        assert "spark.hadoop.fs.s3a.access.key" in refusal(lake, BY_HOUR)
    with store.failing("AccessDenied", is_of_rows):
        assert "permission denied" in refusal(lake, BY_HOUR)
        assert "permission denied" in refusal(lake, "SELECT SUM(v) FROM events")


@pytest.mark.long
def test_formats_that_need_a_package_of_spark_name_it(
    lake: sqlwin.Session, store: ObjectStore
) -> None:
    system = filesystem_of(store.store())
    with system.open_output_stream("lake/texts/a.csv") as file:
        file.write(b"a,b\n1,2\n")
    lake.execute(
        "CREATE TABLE texts (a INT, b INT) WITH ('connector' = 'filesystem', "
        f"'path' = '{store.uri('texts')}', 'format' = 'csv')"
    )
    package = "spark.jars.packages=org.apache.hadoop:hadoop-aws:3."
    assert package in refusal(lake, "SELECT * FROM texts")
    create(lake, "sink", store.uri("out"), "(k INT)")
    with pytest.raises(SqlwinError, match=f"Spark writes to .*{package}"):
        lake.execute("INSERT INTO sink SELECT k FROM events")
