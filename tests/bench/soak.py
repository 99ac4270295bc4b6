"""Run a stream of generated rows for minutes, to see whether memory and lag stay flat."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from runtime.frames.reports import recent_reports
from runtime.spark.clusters import stream_partitions
from runtime.streaming.status import Tally, stream_status
from sqlwin.execution.streams.options import stream_settings
from tests.bench.memory import cpu_seconds, jvms, resident, workers

_MINUTE = 60.0
_TABLE = """
    CREATE OR REPLACE TABLE made_up (
      key BIGINT, price BIGINT, at TIMESTAMP_LTZ(3),
      WATERMARK FOR at AS at - INTERVAL '1' SECOND
    ) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}', 'fields.key.min' = '0',
            'fields.key.max' = '{last_key}', 'fields.price.min' = '0',
            'fields.price.max' = '9999', 'fields.at.max-past' = '1 s')
"""
_QUERY = """
    SELECT key, window_end, SUM(price) AS s, COUNT(*) AS n, AVG(price) AS a, MAX(price) AS m
    FROM TABLE(HOP(TABLE made_up, DESCRIPTOR(at), INTERVAL '5' SECONDS, INTERVAL '1' MINUTE))
    GROUP BY key, window_start, window_end
"""


def run(session: sqlwin.Session, minutes: float, rate: int, keys: int, console: Console) -> None:
    """Run HOP 5 s / 1 min over `datagen` and print a line each minute.

    Each line reports the rows read so far; of the last micro-batch its rows, seconds, and the lag
    of its watermark behind processing time; the size of the state; the resident memory of the JVM
    and of all Python workers; the cores busy since the previous line; and late rows.

    Args:
        session: Session.
        minutes: Duration.
        rate: Rows per second.
        keys: Number of distinct keys.
        console: Console to print on.
    """
    table = Table(
        "minute", "rows", "rows/s", "batch s", "lag s", "state rows", "state MB", "JVM MB",
        "workers MB", "cores", "late", title=f"{rate:,} rows a second, {keys:,} keys, HOP 5 s / 1 min",
    )  # fmt: skip
    session.execute(_TABLE.format(rate=rate, last_key=keys - 1))
    checkpoint = Path(tempfile.mkdtemp(prefix="soak-"))
    writer = session.sql(_QUERY).writeStream.format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint))
    spark = session.spark
    partitions = stream_partitions(spark)
    with stream_settings(spark.conf, partitions, is_local=True):
        query = writer.start()
    tally = Tally(1)
    started = time.monotonic()
    n_rows, last_batch, last_rows, last_cpu, last_time = 0, -1, 0, 0.0, started
    try:
        for minute in range(1, max(1, round(minutes)) + 1):
            until = started + minute * _MINUTE
            while time.monotonic() < until:
                time.sleep(1)
                if not query.isActive:
                    query.awaitTermination()  # raises the stream's error
                for report in recent_reports(query):
                    if report.batch > last_batch:
                        last_batch = report.batch
                        n_rows += round(report.n_input_rows)
            status = stream_status(recent_reports(query), [["made_up"]], tally)
            operator = status.operators[0]
            watermark_us = operator.watermark_us
            pids = [*jvms(), *workers()]
            cpu, now = cpu_seconds(pids), time.monotonic()
            cells = (
                f"{minute}",
                f"{n_rows:,}",
                f"{(n_rows - last_rows) / (now - last_time):,.0f}",
                f"{status.batch_seconds:.2f}",
                "" if watermark_us is None else f"{time.time() - watermark_us / 1e6:.1f}",
                f"{operator.n_rows:,}",
                f"{operator.n_bytes / 1e6:.2f}",
                f"{sum(map(resident, jvms())) >> 20:,}",
                f"{sum(map(resident, workers())) >> 20:,}",
                f"{(cpu - last_cpu) / (now - last_time):.2f}",
                f"{tally.n_late[0]:,}",
            )
            last_rows, last_cpu, last_time = n_rows, cpu, now
            console.print(" | ".join(cells))
            table.add_row(*cells)
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    console.print(table)
