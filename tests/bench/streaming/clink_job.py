"""A window aggregation in clink over the Parquet files of a benchmark.

A standalone program that imports nothing of the project, so that it runs with only the package
`pyclink`. `jobs.py` reads its output.
"""

import argparse
import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyclink


def main() -> None:
    """Write the closed windows, and then time all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True, help="a directory of Parquet files")
    parser.add_argument("--window", required=True, help="HOP(...) or TUMBLE(...)")
    parser.add_argument("--disorder", type=int, required=True, help="milliseconds")
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--closed", type=int, required=True, help="the end of the last to write")
    parser.add_argument("--least", type=int, required=True, help="the lowest maximum to be printed")
    parser.add_argument("--output", required=True, help="a file for the windows")
    options = parser.parse_args()
    # in a process whose memory is released afterwards
    child = os.fork()
    if not child:
        write(options)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the run that is compared failed")
    print("WINDOWS", flush=True)
    input()
    print("STARTED", flush=True)
    with pyclink.Engine(parallelism=options.parallelism) as engine:
        for batch in aggregate(engine, options, f"HAVING MAX(price) >= {options.least}"):
            for row in pc.value_counts(batch["window_end"]).to_pylist():
                print("FIRED", row["values"], row["counts"], flush=True)


def write(options):
    """Write all closed windows as Parquet."""
    with pyclink.Engine(parallelism=options.parallelism) as engine:
        batches = [
            batch.filter(pc.less_equal(batch["window_end"], options.closed))
            for batch in aggregate(engine, options, "")
        ]
        engine.await_all()
    pq.write_table(pa.Table.from_batches(batches), options.output)


def aggregate(engine, options, having):
    """Start the job and yield its windows, batch by batch."""
    engine.execute(f"""
        CREATE TABLE events (ts BIGINT, key BIGINT, price BIGINT, val DOUBLE PRECISION) WITH (
          connector = 'parquet', prefix = '{options.input}',
          event_time_column = 'ts', watermark_lag_ms = '{options.disorder}');
        CREATE TABLE results (
          key BIGINT, window_start BIGINT, window_end BIGINT,
          s BIGINT, n BIGINT, a DOUBLE PRECISION, m BIGINT
        ) WITH (connector = 'collect');
        INSERT INTO results
        SELECT key, window_start AS window_start, window_end AS window_end,
               SUM(price) AS s, COUNT(*) AS n, AVG(val) AS a, MAX(price) AS m
        FROM events GROUP BY {options.window}, key {having}
    """)
    return engine.collect("results")


if __name__ == "__main__":
    main()
