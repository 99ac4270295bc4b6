"""INSERT and CREATE TABLE AS in this process: the files of Spark, complete or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import sqlwin
from sqlwin.session import Session
from tests.end_to_end.batch.test_in_process_files import trips
from tests.goldens import ROOT
from tests.unstarted import NeedsSparkError, unstarted_spark

OUT = (
    "CREATE TABLE out (city STRING, n BIGINT, s BIGINT, t TIMESTAMP_LTZ, u TIMESTAMP_NTZ, "
    "p DECIMAL(19, 2), x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{}', "
    "'format' = 'parquet');"
)
ROWS = (
    "SELECT city, COUNT(*) AS n, SUM(fare) AS s, MAX(tz) AS t, MIN(ts) AS u, SUM(price) AS p, "
    "MAX(x) AS x FROM trips GROUP BY city"
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    pq.write_table(trips(600, 5), tmp_path / "trips.parquet", row_group_size=100)
    return tmp_path


def tables(base: Path, out: str = "out") -> str:
    files = f"('connector' = 'filesystem', 'path' = '{base}/trips.parquet')"
    return f"CREATE TABLE trips WITH {files}; {OUT.format(base / out)}"


def without_spark(base: Path, out: str = "out") -> Session:
    session = Session(unstarted_spark(), settings={})
    session.execute(tables(base, out))
    return session


def rows_of(session: sqlwin.Session, sql: str) -> list[str]:
    (result,) = session.execute(sql)
    return sorted(map(repr, result.to_arrow().to_pylist()))


def files_in(directory: Path) -> list[Path]:
    names = sorted(directory.iterdir()) if directory.exists() else []
    return [path for path in names if path.name[0] not in "._"]


def test_rows_are_inserted_without_spark(base: Path) -> None:
    session = without_spark(base)
    assert "in process: " in session.explain(f"INSERT INTO out {ROWS}")
    (inserted,) = session.execute(f"INSERT INTO out {ROWS}")
    assert inserted.message == "INSERT INTO out: 4 rows"
    expected = rows_of(session, ROWS)
    assert rows_of(session, "SELECT * FROM out") == expected
    session.execute(f"INSERT INTO out {ROWS}")
    assert rows_of(session, "SELECT * FROM out") == sorted(2 * expected)
    # a query may read the table that it replaces
    session.execute("INSERT OVERWRITE out SELECT DISTINCT city, n, s, t, u, p, x FROM out")
    assert rows_of(session, "SELECT * FROM out") == expected


def test_a_table_is_created_from_a_query_without_spark(base: Path) -> None:
    session = without_spark(base)
    session.execute(
        f"CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = '{base}/copy', "
        "'format' = 'parquet') AS SELECT rider, fare FROM trips WHERE fare > 20; "
        "INSERT INTO copy VALUES ('new', 5000000000)"
    )
    expected = rows_of(session, "SELECT rider, fare FROM trips WHERE fare > 20")
    assert rows_of(session, "SELECT * FROM copy WHERE rider <> 'new'") == expected
    assert rows_of(session, "SELECT fare FROM copy WHERE rider = 'new'") == ["{'fare': 5000000000}"]


def test_no_rows_are_a_file_with_the_columns(base: Path) -> None:
    session = without_spark(base)
    session.execute(f"INSERT INTO out SELECT * FROM ({ROWS}) AS r WHERE n < 0")
    (file,) = files_in(base / "out")
    assert pq.read_metadata(file).num_rows == 0
    assert rows_of(session, "SELECT * FROM out") == []


def test_footers_have_the_schema_of_spark(base: Path) -> None:
    without_spark(base).execute(f"INSERT INTO out {ROWS}")
    (file,) = files_in(base / "out")
    metadata = pq.read_metadata(file).metadata
    assert metadata[b"org.apache.spark.version"] == pyspark.__version__.encode()
    fields = json.loads(metadata[b"org.apache.spark.sql.parquet.row.metadata"])["fields"]
    assert [field["type"] for field in fields[:4]] == ["string", "long", "long", "timestamp"]


def test_a_failed_insert_leaves_no_files(base: Path) -> None:
    session = without_spark(base)
    overflow = ROWS.replace("SUM(fare) AS s", "SUM(fare) * 9223372036854775807 AS s")
    with pytest.raises(sqlwin.SqlwinError, match="overflow"):
        session.execute(f"INSERT INTO out {overflow}")
    assert not (base / "out").exists()


SET_OF_TWO = (
    "EXECUTE STATEMENT SET BEGIN INSERT INTO out {first}; "
    "INSERT INTO hours SELECT window_end, SUM(fare) FROM TABLE(TUMBLE(TABLE trips, "
    "DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end; END"
)


def hours_table(base: Path) -> str:
    return (
        "CREATE TABLE hours (window_end TIMESTAMP(3), s BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{base}/hours', 'format' = 'parquet')"
    )


def with_hours(session: sqlwin.Session, base: Path) -> sqlwin.Session:
    session.execute(hours_table(base))
    return session


def test_a_statement_set_is_inserted_without_spark(base: Path) -> None:
    session = with_hours(without_spark(base), base)
    sql = SET_OF_TWO.format(first=ROWS)
    assert session.explain(sql).count("== Execution ==\nin process: ") == 2
    (inserted,) = session.execute(sql)
    n_hours = len(rows_of(session, "SELECT * FROM hours"))
    assert inserted.message == f"INSERT INTO out: 4 rows\nINSERT INTO hours: {n_hours} rows"
    assert inserted.row_count == 4 + n_hours
    assert rows_of(session, "SELECT * FROM out") == rows_of(session, ROWS)
    (by_hand,) = session.execute("SELECT SUM(s) AS s FROM hours")
    (expected,) = session.execute("SELECT SUM(fare) AS s FROM trips WHERE ts IS NOT NULL")
    assert by_hand.to_arrow() == expected.to_arrow()
    # a set that runs again adds its rows again, as on Spark
    session.execute(sql)
    assert len(rows_of(session, "SELECT * FROM hours")) == 2 * n_hours


BY_HOUR = (
    "SELECT city, window_end, SUM(fare) AS s FROM TABLE({window}(TABLE trips, DESCRIPTOR(ts), "
    "{sizes})) WHERE fare > {least} GROUP BY city, window_start, window_end"
)


@pytest.mark.parametrize(("least", "n_reads"), [(-40, 1), (0, 2)])
def test_windows_of_a_set_read_their_table_once(base: Path, least: int, n_reads: int) -> None:
    session = without_spark(base)
    for name in ("hops", "days"):
        session.execute(
            f"CREATE TABLE {name} (city STRING, window_end TIMESTAMP(3), s BIGINT) WITH ("
            f"'connector' = 'filesystem', 'path' = '{base}/{name}', 'format' = 'parquet')"
        )
    hour = BY_HOUR.format(window="HOP", sizes="INTERVAL '1' HOUR, INTERVAL '3' HOURS", least=-40)
    day = BY_HOUR.format(window="TUMBLE", sizes="INTERVAL '1' DAY", least=least)
    sql = f"EXECUTE STATEMENT SET BEGIN INSERT INTO hops {hour}; INSERT INTO days {day}; END"
    assert session.explain(sql).count("in process: ") == 2
    (inserted,) = session.execute(sql)
    assert inserted.scan_counts is not None
    assert inserted.scan_counts.rows_read() == 600 * n_reads
    assert rows_of(session, "SELECT * FROM hops") == rows_of(session, hour)
    assert rows_of(session, "SELECT * FROM days") == rows_of(session, day)


def test_a_set_that_reads_its_own_output_runs_on_spark(base: Path) -> None:
    session = with_hours(without_spark(base), base)
    session.execute("INSERT INTO hours VALUES (TIMESTAMP '2024-01-01 00:00:00', 5000000000)")
    reading = "INSERT OVERWRITE hours SELECT window_end, s + 1 AS s FROM hours"
    writing = "INSERT INTO hours VALUES (TIMESTAMP '2024-01-01 00:00:00', 6000000000)"
    explained = session.explain(f"EXECUTE STATEMENT SET BEGIN {writing}; {reading}; END")
    assert explained.count("on Spark: an INSERT reads a table that an earlier one") == 2
    session.execute(f"EXECUTE STATEMENT SET BEGIN {reading}; {writing}; END")
    assert rows_of(session, "SELECT s FROM hours") == ["{'s': 5000000001}", "{'s': 6000000000}"]


def test_a_failed_set_names_the_statements_that_completed(base: Path) -> None:
    session = with_hours(without_spark(base), base)
    overflow = ROWS.replace("SUM(fare) AS s", "SUM(fare) * 9223372036854775807 AS s")
    with pytest.raises(sqlwin.SqlwinError, match="overflow") as caught:
        session.execute(SET_OF_TWO.format(first=overflow))
    assert "INSERT 1 of 2 in the statement set failed (out): hours was not started" in str(
        caught.value
    )
    assert files_in(base / "out") == files_in(base / "hours") == []


def test_one_insert_that_needs_spark_runs_the_set_on_spark(base: Path) -> None:
    session = with_hours(without_spark(base), base)
    sql = SET_OF_TWO.format(first="SELECT INITCAP(rider) AS c, n, s, t, u, p, x FROM out")
    with pytest.raises(NeedsSparkError):
        session.execute(sql)
    assert files_in(base / "hours") == []


def test_a_set_over_large_files_runs_on_spark(base: Path) -> None:
    session = with_hours(without_spark(base), base)
    sql = SET_OF_TWO.format(first=ROWS)
    # 600 rows of six columns have about 29 kB, of two columns 10 kB
    session.execute("SET 'sqlwin.in-process.max-bytes' = '32 kb'")
    assert "in process: " in session.explain(f"INSERT INTO out {ROWS}")
    assert "on Spark: the INSERTs together read more bytes" in session.explain(sql)
    with pytest.raises(NeedsSparkError):
        session.execute(sql)
    assert files_in(base / "hours") == []


def test_explain_of_create_table_as_says_where_it_runs(base: Path) -> None:
    session = without_spark(base)
    create = (
        f"CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = '{base}/copy', "
        "'format' = '{}') AS SELECT rider, fare FROM trips"
    )
    place = session.explain(create.format("parquet")).partition("== Execution ==\n")[2]
    assert place.startswith("in process: ")
    place = session.explain(create.format("orc")).partition("== Execution ==\n")[2]
    assert place == "on Spark: Spark writes orc\n"
    assert not (base / "copy").exists()


KILLED = """
import os, signal, sys
from runtime.writing import files
from sqlwin.session import Session
from tests.unstarted import NeedsSparkError, unstarted_spark

class Killed(files.OpenFile):
    def write(self, rows):
        super().write(rows)
        if len(sys.argv) < 4 or sys.argv[3] in self.path:
            os.kill(os.getpid(), signal.SIGKILL)

session = Session(unstarted_spark(), settings={})
session.execute(sys.argv[1])
files.OpenFile = Killed
session.execute(sys.argv[2])
"""


@pytest.mark.long
@pytest.mark.parametrize("verb", ["INTO", "OVERWRITE"])
def test_a_killed_insert_leaves_no_half_result(base: Path, verb: str) -> None:
    session = without_spark(base)
    session.execute(f"INSERT INTO out {ROWS}")
    expected, before = rows_of(session, "SELECT * FROM out"), files_in(base / "out")
    script = [tables(base), f"INSERT {verb} out {ROWS}"]
    command = [sys.executable, "-c", KILLED, *script]
    killed = subprocess.run(command, cwd=ROOT, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert files_in(base / "out") == before
    assert rows_of(session, "SELECT * FROM out") == expected
    # the next INSERT removes leftovers that are too old to belong to a running process
    for path in base.rglob(".*"):
        os.utime(path, (0, 0))
    session.execute(f"INSERT OVERWRITE out {ROWS}")
    assert rows_of(session, "SELECT * FROM out") == expected
    hidden = [path for path in base.rglob(".*") if path.is_dir()]
    assert hidden == []


@pytest.mark.long
@pytest.mark.parametrize(("target", "n_complete"), [("out", 0), ("hours", 1)])
def test_a_killed_set_leaves_whole_inserts_only(base: Path, target: str, n_complete: int) -> None:
    session = with_hours(without_spark(base), base)
    sql = SET_OF_TWO.format(first=ROWS)
    assert session.explain(sql).count("in process: ") == 2
    script = [f"{tables(base)} {hours_table(base)}", sql, f"{base}/{target}"]
    command = [sys.executable, "-c", KILLED, *script]
    killed = subprocess.run(command, cwd=ROOT, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(files_in(base / "out")) == n_complete and files_in(base / "hours") == []
    if n_complete:
        assert rows_of(session, "SELECT * FROM out") == rows_of(session, ROWS)
    # the set runs again, and removes the remaining files
    for path in base.rglob(".*"):
        os.utime(path, (0, 0))
    session.execute(sql)
    assert len(files_in(base / "out")) == n_complete + 1 and len(files_in(base / "hours")) == 1
    assert [path for path in base.rglob(".*") if path.is_dir()] == []


@pytest.mark.long
@pytest.mark.parametrize("verb", ["INTO", "OVERWRITE"])
def test_an_insert_killed_between_partitions_leaves_no_rows(base: Path, verb: str) -> None:
    session = without_spark(base)
    cities = (
        "CREATE TABLE cities (rider STRING, city STRING) PARTITIONED BY (city) WITH ('connector' = "
        f"'filesystem', 'path' = '{base}/cities', 'format' = 'parquet')"
    )
    session.execute(cities)
    session.execute("INSERT INTO cities SELECT rider, city FROM trips WHERE fare > 0")
    expected = rows_of(session, "SELECT * FROM cities")
    assert expected
    insert = f"INSERT {verb} cities SELECT rider, city FROM trips"
    assert "in process: " in session.explain(insert)
    command = [sys.executable, "-c", KILLED, f"{tables(base)} {cities}", insert, "city=c"]
    killed = subprocess.run(command, cwd=ROOT, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert rows_of(session, "SELECT * FROM cities") == expected


@pytest.mark.parametrize(
    ("options", "insert", "reason"),
    [
        ("'format' = 'orc'", "INSERT INTO o SELECT 'a' AS k, 5000000000 AS n", "Spark writes orc"),
        (
            "'format' = 'csv', 'quoteAll' = 'true'",
            "INSERT INTO o SELECT 'a' AS k, 5000000000 AS n",
            "Spark writes csv with the option 'quoteAll'",
        ),
        (
            "'format' = 'json', 'compression' = 'gzip'",
            "INSERT INTO o SELECT 'a' AS k, 5000000000 AS n",
            "Spark writes json with the option 'compression'",
        ),
        (
            "'format' = 'parquet'",
            "INSERT INTO o (k) SELECT CAST(0.5 AS DOUBLE) AS x",
            "the cast from DOUBLE to STRING is not supported in this process",
        ),
        (
            "'format' = 'parquet', 'sink.parallelism' = '2'",
            "INSERT INTO o SELECT 'a' AS k, 5000000000 AS n",
            "'sink.parallelism'",
        ),
    ],
)
def test_explain_says_why_spark_writes(
    tmp_path: Path, options: str, insert: str, reason: str
) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute(
        "CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}/o', {options})"
    )
    place = session.explain(insert).partition("== Execution ==\n")[2]
    assert place.startswith("on Spark: ") and reason in place


TEXT_COLUMNS = (
    "k STRING, n BIGINT, x DOUBLE, p DECIMAL(10, 2), b BOOLEAN, d DATE, t TIMESTAMP(3), "
    "z TIMESTAMP_LTZ"
)


def text_table(session: sqlwin.Session, base: Path, options: str, *, name: str = "texts") -> None:
    """Create a table of text, and one with rows of every type to write to it."""
    values = ["a", "", None, ' say "hi", ', "#x", "é\n1", "\\", "n/a"]
    at = datetime(2024, 3, 31, 0, 59, 59, 999999, tzinfo=UTC)
    rows = pa.table(
        {
            "k": values,
            "n": [5, None, -1, 0, 2**63 - 1, -(2**63), 1, 2],
            "x": [0.5, None, 1e7, 1e-4, 123456.789, -0.0, float("nan"), float("inf")],
            "p": pa.array([Decimal("1.50"), None] * 4, pa.decimal128(10, 2)),
            "b": [True, False, None, True] * 2,
            "d": [date(2024, 1, 31), None, date(1, 1, 1), date(1969, 12, 31)] * 2,
            "t": pa.array([at.replace(tzinfo=None), None] * 4, pa.timestamp("us")),
            "z": pa.array([at, at, None, at] * 2, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(rows, base / "rows.parquet")
    session.execute(
        "SET 'table.local-time-zone' = 'Europe/Berlin'; CREATE OR REPLACE TABLE source WITH ("
        f"'connector' = 'filesystem', 'path' = '{base}/rows.parquet'); "
        f"CREATE OR REPLACE TABLE texts ({TEXT_COLUMNS}) WITH ('connector' = 'filesystem', "
        f"'path' = '{base}/{name}', {options})"
    )


@pytest.mark.parametrize(
    "options", ["'format' = 'csv'", "'format' = 'csv', 'header' = 'true'", "'format' = 'json'"]
)
def test_text_is_inserted_without_spark(base: Path, options: str) -> None:
    session = Session(unstarted_spark(), settings={})
    text_table(session, base, options)
    # CSV has no line ends in fields, and NULL for empty texts
    rows = "source WHERE n > -100 AND k <> ''"
    insert = f"INSERT INTO texts SELECT * FROM {rows}"
    assert "in process: " in session.explain(insert)
    (inserted,) = session.execute(insert)
    (file,) = files_in(base / "texts")
    assert file.suffix == (".json" if "json" in options else ".csv")
    # Spark reads DATE and TIMESTAMP_LTZ in JSON
    columns = "k, n, x, p, b, t" + ("" if "json" in options else ", d, z")
    expected = rows_of(session, f"SELECT {columns} FROM {rows}")
    assert inserted.row_count == len(expected) > 4
    if "csv" in options:
        # Spark's writer trims
        expected = sorted(row.replace(' say "hi", ', 'say "hi",') for row in expected)
    assert rows_of(session, f"SELECT {columns} FROM texts") == expected
    session.execute("INSERT OVERWRITE texts SELECT * FROM source WHERE k = 'none'")
    (file,) = files_in(base / "texts")
    assert file.read_text() == ("k,n,x,p,b,d,t,z\n" if "header" in options else "")


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        "'format' = 'csv'",
        "'format' = 'csv', 'header' = 'true', 'csv.field-delimiter' = ';', 'nullValue' = 'NA'",
        "'format' = 'json'",
        "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601', "
        "'json.encode.ignore-null-fields' = 'false'",
    ],
)
def test_text_has_the_bytes_of_spark(
    fresh_session: sqlwin.Session, base: Path, options: str
) -> None:
    written = []
    for name, limit in (("here", "1 gb"), ("spark", "0")):
        fresh_session.execute(f"SET 'sqlwin.in-process.max-bytes' = '{limit}'")
        text_table(fresh_session, base, options, name=name)
        insert = "INSERT INTO texts SELECT * FROM source"
        assert ("in process: " in fresh_session.explain(insert)) is (name == "here")
        fresh_session.execute(insert)
        written.append(b"".join(file.read_bytes() for file in files_in(base / name)))
    assert written[0] == written[1] and written[0].count(b"\n") > 7
