"""The stream of the end-to-end benchmark, in a process that may be killed.

`python -m tests.bench.end_to_end.job ADDRESS DIRECTORY TARGET BATCH_RECORDS MASTER`
"""

from __future__ import annotations

import sys

import sqlwin
from tests.bench.end_to_end.records import DELAY_S, WINDOW_S

SOURCE = "readings"
_CONF = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "2g"}
_SCRIPT = """
    CREATE TABLE readings (
      k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND
    ) WITH (
      'connector' = 'kafka', 'topic' = '{source}', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset', 'maxOffsetsPerTrigger' = '{batch_records}',
      'properties.bootstrap.servers' = '{address}');
    CREATE TABLE totals (k BIGINT, window_end TIMESTAMP(3), n BIGINT, total BIGINT)
    WITH (
      'connector' = 'kafka', 'topic' = '{target}', 'format' = 'json',
      'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{target}',
      'properties.bootstrap.servers' = '{address}');
"""
_INSERT = """
    INSERT INTO totals
    SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '{size}' SECONDS))
    GROUP BY k, window_start, window_end
"""


def main(address: str, directory: str, target: str, batch_records: str, master: str) -> None:
    """Run the stream until it is killed, or resume where an earlier run was."""
    settings = {
        "execution.checkpointing.dir": f"{directory}/checkpoint",
        # a micro-batch starts when the one before it has ended
        "execution.checkpointing.interval": "1 ms",
    }
    script = _SCRIPT.format(
        delay=DELAY_S, source=SOURCE, target=target, address=address, batch_records=batch_records
    )
    with sqlwin.connect(master=master, conf=_CONF, settings=settings) as session:
        session.execute(script)
        # so that the time until Spark has started does not count
        session.spark.range(1).count()
        print("ready", flush=True)
        (result,) = session.execute(_INSERT.format(size=WINDOW_S))
        assert result.stream is not None
        while result.stream.is_running:
            result.stream.wait(60)
        print(result.stream.failure(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
