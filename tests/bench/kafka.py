"""Compare reading a Kafka topic with a loop of `consume()` and `json.loads`: `python -m
tests.bench.kafka`.

All readers read the same messages from librdkafka's mock broker, which runs in its own process on
the same cores. The loop discards the rows; sqlwin counts and sums them by key and minute. Also
measured: one loop per core, each with a share of the partitions, and `consume()` alone. Times are
the best of several runs after one that does not count. Results are checked.

With default settings, librdkafka waits a second before it polls a queue that was full, so the loop
spends most of its time waiting. It is measured with those settings and with sqlwin's. The table
also shows the CPU time of each reader, without the broker's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

import sqlwin

PARTITIONS = 4
# The mock broker drops all but the last megabytes of a partition
_ROWS_OF_TOPIC = 500_000
_KEYS = 1_000
_FIRST_S = 1_777_600_800
# The settings in `runtime.connectors.kafka.properties` about waiting
_PROMPT = {"fetch.queue.backoff.ms": "10", "fetch.wait.max.ms": "20"}


def main() -> None:
    """Run all readers and print the table; or run as the broker."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kafka", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--loops", action="store_true", help="measure only the other readers")
    parser.add_argument("--broker", action="store_true", help="serve the messages, for a parent")
    options = parser.parse_args()
    if options.broker:
        _serve(options.rows)
        return
    command = [sys.executable, "-m", "tests.bench.kafka", "--broker", "--rows", str(options.rows)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        address = broker.stdout.readline().strip()
        Console().print(_compare(address, options))
        broker.communicate()


def _topics(n_rows: int) -> list[str]:
    return [f"bench-{number}" for number in range(-(-n_rows // _ROWS_OF_TOPIC))]


def _serve(n_rows: int) -> None:
    """Serve messages until standard input ends."""
    producer = Producer({
        "test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 0, "linger.ms": 50,
        "compression.type": "lz4", "queue.buffering.max.messages": 200_000,
    })  # fmt: skip
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    for row in range(n_rows):
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(_FIRST_S + row // 1000))
        value = {"k": row % _KEYS, "v": row, "price": row / 4, "ts": f"{at}.{row % 1000:03}"}
        topic = f"bench-{row // _ROWS_OF_TOPIC}"
        while True:
            try:
                producer.produce(topic, json.dumps(value).encode(), partition=row % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


def _compare(address: str, options: argparse.Namespace) -> Table:
    table = Table("what", "rows", "s", "rows/s", "times the loop", "s of a core")
    n_rows, runs = options.rows, range(options.runs)
    one_share = [range(PARTITIONS)]
    shares = [range(core, PARTITIONS, options.cores) for core in range(options.cores)]

    def best(shares: Sequence[Sequence[int]], work: Work, prompt: bool) -> tuple[float, float]:
        config = _PROMPT if prompt else {}
        return min(_loops(address, n_rows, shares, work, config) for _ in runs)

    actual = {}
    for prompt, suffix in ((False, ""), (True, ", sqlwin's settings")):
        actual |= {
            f"consume() and json.loads{suffix}": best(one_share, json.loads, prompt),
            f"the same in {options.cores} processes{suffix}": best(shares, json.loads, prompt),
            f"consume() alone{suffix}": best(one_share, len, prompt),
        }
    loop = actual["consume() and json.loads"][0]
    if not options.loops:
        actual["sqlwin"] = (_sqlwin(address, options), 0.0)
    for name, (seconds, cpu_seconds) in actual.items():
        cells = (f"{n_rows:,}", f"{seconds:.2f}", f"{n_rows / seconds:,.0f}")
        of_cores = f"{cpu_seconds:.2f}" if cpu_seconds else ""
        table.add_row(name, *cells, f"{loop / seconds:.1f}", of_cores)
    return table


Work = Callable[[bytes], object]


def _loops(
    address: str,
    n_rows: int,
    shares: Sequence[Sequence[int]],
    work: Work,
    config: Mapping[str, str],
) -> tuple[float, float]:
    """Run one loop per process. Return seconds from the first message to the last, and CPU seconds."""
    asked = [(address, n_rows, share, work, config) for share in shares]
    with get_context("spawn").Pool(len(shares)) as pool:
        times = pool.starmap(_loop, asked, chunksize=1)
    seconds = max(end for _, end, _ in times) - min(start for start, _, _ in times)
    return seconds, sum(cpu for _, _, cpu in times)


def _loop(
    address: str, n_rows: int, partitions: Sequence[int], work: Work, config: Mapping[str, str]
) -> tuple[float, float, float]:
    """Return the times of the first and the last message of some partitions, and CPU seconds.

    The CPU seconds include librdkafka's threads.
    """
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False,
        "auto.offset.reset": "error", **config,
    })  # fmt: skip
    places = [TopicPartition(t, p, 0) for t in _topics(n_rows) for p in partitions]
    cpu_before = time.process_time()
    consumer.assign(places)
    expected = sum(len(range(p, n_rows, PARTITIONS)) for p in partitions)
    n_read, started = 0, 0.0
    while n_read < expected:
        for message in consumer.consume(1000, timeout=1):
            started = started or time.time()
            assert message.error() is None, message.error()
            work(message.value())
            n_read += 1
    ended, cpu_seconds = time.time(), time.process_time() - cpu_before
    consumer.close()
    return started, ended, cpu_seconds


def _sqlwin(address: str, options: argparse.Namespace) -> float:
    with sqlwin.connect(master=options.master) as session:
        session.execute(f"""
            CREATE TABLE bench (k INT, v BIGINT, price DOUBLE, ts TIMESTAMP(3)) WITH (
              'connector' = 'kafka', 'topic' = '{";".join(_topics(options.rows))}',
              'format' = 'json', 'scan.bounded.mode' = 'latest-offset',
              'properties.bootstrap.servers' = '{address}')""")
        best = float("inf")
        for _ in range(options.runs + 1):
            started = time.perf_counter()
            ((n, total),) = _rows(session, """
                SELECT SUM(n), SUM(total) FROM (
                  SELECT COUNT(*) AS n, SUM(v) AS total
                  FROM TABLE(TUMBLE(TABLE bench, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                  GROUP BY k, window_start, window_end)""")  # fmt: skip
            best = min(best, time.perf_counter() - started)
            assert (n, total) == (options.rows, options.rows * (options.rows - 1) // 2)
        return best


def _rows(session: sqlwin.Session, sql: str) -> list[Any]:
    (result,) = session.execute(sql)
    return list(result.rows or ())


if __name__ == "__main__":
    main()
