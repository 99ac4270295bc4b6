"""A window aggregation in Flink itself, over the CSV files of a benchmark; run by Flink's Python.

A program by itself: nothing of the project is imported, so that it runs where there is nothing but
the package `apache-flink`. What it reports is a line of JSON behind `RESULT`: the seconds from the
submission of the job to its end.
"""

import argparse
import json
import time

from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    """Run the job, once on a few rows and then on all, and report how long it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True, help="a directory of CSV files")
    parser.add_argument("--warm-up", required=True, help="another one, with less in it")
    parser.add_argument("--window", required=True, help="HOP(...) or TUMBLE(...)")
    parser.add_argument("--disorder", type=int, required=True, help="seconds")
    parser.add_argument("--backend", default="hashmap", choices=("hashmap", "rocksdb"))
    parser.add_argument("--checkpoints", help="a directory; none are taken without it")
    parser.add_argument("--interval", default="5 s", help="between checkpoints")
    parser.add_argument("--parallelism", default="2")
    parser.add_argument("--output", help="a directory for the results, which else are dropped")
    options = parser.parse_args()
    settings = {
        "parallelism.default": options.parallelism,
        "table.local-time-zone": "UTC",
        "state.backend.type": options.backend,
        "taskmanager.memory.managed.size": "512m",
    }
    if options.checkpoints:
        settings["execution.checkpointing.interval"] = options.interval
        settings["execution.checkpointing.dir"] = f"file://{options.checkpoints}"
        settings["execution.checkpointing.incremental"] = "true"
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in settings.items():
        environment.get_config().set(key, value)
    # the JVM compiles on the way
    run(environment, options, options.warm_up, None)
    seconds = run(environment, options, options.input, options.output)
    print("RESULT " + json.dumps({"seconds": seconds}), flush=True)


def run(environment, options, directory, output):
    """Aggregate the files of a directory; how many seconds it took."""
    for table in ("events", "results"):
        environment.execute_sql(f"DROP TABLE IF EXISTS {table}")
    environment.execute_sql(f"""
        CREATE TABLE events (
          ts TIMESTAMP(3), `key` BIGINT, price BIGINT, val DOUBLE,
          WATERMARK FOR ts AS ts - INTERVAL '{options.disorder}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{directory}', 'format' = 'csv')
    """)
    sink = "'connector' = 'blackhole'"
    if output:
        sink = f"'connector' = 'filesystem', 'path' = 'file://{output}', 'format' = 'csv'"
    environment.execute_sql(f"""
        CREATE TABLE results (
          `key` BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3),
          s BIGINT, n BIGINT, a DOUBLE, m BIGINT
        ) WITH ({sink})
    """)
    started = time.monotonic()
    environment.execute_sql(f"""
        INSERT INTO results
        SELECT `key`, window_start, window_end, SUM(price), COUNT(*), AVG(val), MAX(price)
        FROM TABLE({options.window})
        GROUP BY `key`, window_start, window_end
    """).wait()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
