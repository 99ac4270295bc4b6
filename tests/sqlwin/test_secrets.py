"""A secret is set in every place that accepts one, and appears in no output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.errors import SqlwinError
from runtime.logs import append_trace, log_file
from sqlwin.execution.explain_formats import MODES
from tests.observing import files_below, wait_until

SECRET = "Xq7-must/never.be+seen"
JAAS = f'org.x.PlainLoginModule required username="u" password="{SECRET}";'
WINDOWS = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
)


@pytest.fixture
def db(fresh_session: sqlwin.Session, tmp_path: Path) -> sqlwin.Session:
    (tmp_path / "in").mkdir()
    times = pa.array([0, 1, 4_000_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "in" / "a.parquet")
    fresh_session.execute(events(tmp_path, SECRET))
    return fresh_session


def events(tmp_path: Path, secret: str, name: str = "events") -> str:
    return f"""
        CREATE TABLE {name} (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
          'connector' = 'spark', 'format' = 'parquet', 'path' = '{tmp_path}/in',
          'source.unbounded' = 'true', 'password' = '{secret}',
          'fs.azure.account.key.acct' = '{secret}', 'keyPassphrase' = '{secret}',
          'url' = 'jdbc:postgresql://u:{secret}@host:5432/db?sslpassword={secret}&x=1')
    """


def output_of(session: sqlwin.Session, sql: str) -> str:
    """Return all output of a statement, including an error's report."""
    try:
        results = session.execute(sql)
    except SqlwinError as error:
        return f"{error}\n{error!r}\n{error.message}\n{error.hint}"
    contents = [r.to_arrow().to_pylist() for r in results if r.kind != "query"]
    return f"{contents}\n" + "\n".join(f"{r.message}{r.notes}" for r in results)


def test_listings(db: sqlwin.Session) -> None:
    db.execute(f"""
        CREATE TABLE k (v STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
          'properties.bootstrap.servers' = 'h:1', 'properties.sasl.jaas.config' = '{JAAS}');
        CREATE VIEW v AS SELECT '{JAAS}' AS text;
        SET 'spark.hadoop.fs.azure.account.key.acct' = '{SECRET}'
    """)
    statements = [
        output_of(db, sql)
        for sql in (
            "SHOW CREATE TABLE events",
            "SHOW CREATE TABLE k",
            "SHOW CREATE VIEW v",
            "DESCRIBE events",
            "SET",
            "SET 'spark.hadoop.fs.azure.account.key.acct'",
        )
    ]
    assert SECRET not in "\n".join(statements)
    assert "'password' = '******'" in statements[0]
    assert (
        "'url' = 'jdbc:postgresql://u:******@host:5432/db?sslpassword=******&x=1'" in statements[0]
    )
    assert "'properties.sasl.jaas.config' = '******'" in statements[1]
    assert "'properties.bootstrap.servers' = 'h:1'" in statements[1]
    assert "******" in statements[5]


def test_names_that_a_setting_adds(db: sqlwin.Session) -> None:
    secret = "plain-value-of-a-plant"
    table = f"""CREATE TABLE p (v STRING) WITH (
        'connector' = 'spark', 'format' = 'text', 'power.plant' = '{secret}')"""
    db.execute(f"SET 'sqlwin.redaction.regex' = 'PLANT'; {table}")
    assert "'power.plant' = '******'" in output_of(db, "SHOW CREATE TABLE p")
    assert secret not in output_of(db, f"{table} AND")
    assert "regular expression" in output_of(db, "SET 'sqlwin.redaction.regex' = '('")


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE TABLE x WITH ('connector' = 'kafka', 'password' = '{SECRET}')",
        f"CREATE TABLE x WITH ('password' = '{SECRET}' 'b' = 'c')",
        f"CREATE TABLE x WITH ('password' '{SECRET}')",
        f"CREATE TABLE x WITH ('password' = '{SECRET}",
        f"SELECT * FROM events /*+ OPTIONS('password' = '{SECRET}', 'format' = 'nothing') */",
        f"SELECT * FROM events /*+ OPTIONS('password' = '{SECRET}' */",
        f"SELECT nothing FROM events /*+ OPTIONS('password' = '{SECRET}') */",
        f"SET 'secret.setting' = '{SECRET}'",
        f"SELECT 1 FROM parquet.`s3a://key:{SECRET}@bucket/x`",
        f"SELECT raise_error('cannot log in with {SECRET} at jdbc:x://u:{SECRET}@h')",
    ],
)
def test_errors(db: sqlwin.Session, sql: str) -> None:
    message = output_of(db, sql)
    if "raise_error" in sql:
        with pytest.raises(SqlwinError) as caught:
            _ = db.execute(sql)[0].rows
        message = str(caught.value)
    assert SECRET not in message
    assert message


def test_explain_and_descriptions_of_jobs(db: sqlwin.Session, spark: SparkSession) -> None:
    query = WINDOWS.replace("events", f"events /*+ OPTIONS('password' = 'an {SECRET}') */")
    for mode in MODES:
        explained = db.explain(query, mode)
        assert SECRET not in explained
        assert SECRET not in str(explained.document)
    assert "password' = '******'" in db.explain(query)
    assert SECRET not in output_of(db, f"EXPLAIN EXTENDED {query}")
    described = spark.sparkContext.getLocalProperty("spark.job.description")
    assert "OPTIONS('password' = '******')" in str(described)


def test_two_secrets_of_a_table_in_a_statement_stay_two(db: sqlwin.Session) -> None:
    one, other = (f"(SELECT COUNT(*) FROM events /*+ OPTIONS('x.token' = '{t}') */)" for t in "ab")
    explained = db.explain(f"SET 'execution.runtime-mode' = 'batch'; SELECT {one} + {other}")
    assert len(set(re.findall("events__options_[0-9a-f]{12}", explained))) == 2


def test_logs(db: sqlwin.Session) -> None:
    secret = "another-secret-than-before"
    # The Java side recognises a secret only by its name or its place in a URL
    failing = f"SELECT raise_error('jdbc:x://u:{secret}@h?password={secret}&x=1')"
    with pytest.raises(SqlwinError):
        _ = db.execute(failing)[0].rows
    append_trace("it failed", f"at jdbc:x://u:{secret}@h\nwith {secret}")
    log = log_file().read_text(errors="replace")
    assert "jdbc:x://u:******@h?password=******&x=1" in log
    assert secret not in log


@pytest.mark.long
def test_a_checkpoint_resumes_with_another_secret_and_stores_none(
    db: sqlwin.Session, tmp_path: Path
) -> None:
    db.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/ck';
        CREATE TABLE out (a TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole')
    """)
    for number, secret in enumerate((SECRET, f"{SECRET}-2")):
        db.execute("DROP TABLE events")
        db.execute(events(tmp_path, secret))
        hinted = WINDOWS.replace("events", f"events /*+ OPTIONS('x.token' = '{secret}') */")
        db.execute(f"INSERT INTO out {hinted}")
        (stream,) = [item for item in db.streams.all() if item.state.value == "running"]
        wait_until(lambda stream=stream: stream.query.lastProgress)
        assert SECRET not in output_of(db, "SHOW STREAMS")
        stream.stop()
        assert not stream.failure(), number
    (checkpoint,) = (tmp_path / "ck").iterdir()
    assert checkpoint.stat().st_mode & 0o777 == 0o700
    assert (checkpoint / "sqlwin.json").stat().st_mode & 0o777 == 0o600
    files = files_below(checkpoint)
    assert len(files) > 3
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.long
@pytest.mark.spark
def test_the_command_line_of_the_jvm_and_all_that_a_run_says(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        f"SET 'spark.x.password' = '{SECRET}'; SET; SELECT java_method('java.lang.System', "
        "'getProperty', 'x.keyStorePassword') = 'a b\"c' AND assert_true(false) IS NULL;"
    )
    command = [sys.executable, "-m", "sqlwin.cli.app", "run", str(script)]
    options = ["spark.hadoop.fs.azure.account.key.acct", "spark.ssl.keyPassphrase"]
    for name in options:
        command += ["--conf", f"{name}={SECRET}"]
    command += ["--conf", "spark.driver.extraJavaOptions=-Dx.keyStorePassword='a b\"c'"]
    command += ["--conf", f"spark.x.url=jdbc:x://u:{SECRET}@h", "--master", "local[1]"]
    log = tmp_path / "log"
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "SQLWIN_LOG_FILE": str(log), "SPARK_CONF_DIR": str(tmp_path)},
    )
    command_lines: set[str] = set()

    def has_ended() -> bool:
        command_lines.update(command_lines_of_children(process.pid))
        return process.poll() is not None

    wait_until(has_ended)
    assert process.stdout is not None
    output = process.stdout.read()
    assert "assert" in output
    assert process.returncode == 3, output
    assert any("java" in line for line in command_lines)
    assert not [line for line in command_lines if SECRET in line or 'a b"c' in line]
    assert SECRET not in output
    assert SECRET not in log.read_text(errors="replace")
    assert log.stat().st_mode & 0o777 == 0o600
    assert not re.search(r"Exception|Traceback", output)


def command_lines_of_children(parent: int) -> set[str]:
    """Return the command lines of a process's children, except the one that the user started."""
    parents_line = (Path("/proc") / str(parent) / "cmdline").read_bytes()
    lines: set[str] = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            status = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent:
                text = (directory / "cmdline").read_bytes()
                if (
                    text != parents_line
                ):  # between fork and exec, a child has its parent's command line
                    lines.add(text.replace(b"\0", b" ").decode(errors="replace"))
        except (OSError, IndexError):
            continue  # it has ended
    return lines
