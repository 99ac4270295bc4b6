"""HOP and TUMBLE in Flink itself, over the CSV files of a benchmark: run by Flink's own Python.

A program by itself: nothing of the project is imported, so that it runs where there is nothing but
the package `apache-flink`. What it tells is one line of JSON behind `RESULT`: seconds from the
submission of the job to its end, and the directory that it wrote to.
"""

import argparse
import json
import time

from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    """Run the job and tell how long it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True, help="a directory of CSV files")
    parser.add_argument("--window", required=True, help="HOP(...) or TUMBLE(...)")
    parser.add_argument("--disorder", type=int, required=True, help="seconds")
    parser.add_argument("--backend", default="hashmap", choices=("hashmap", "rocksdb"))
    parser.add_argument("--checkpoints", help="a directory; none are taken without it")
    parser.add_argument("--interval", default="10 s", help="between checkpoints")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--output", help="a directory for the results, which else are dropped")
    options = parser.parse_args()
    table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": str(options.parallelism),
        "table.local-time-zone": "UTC",
        "state.backend.type": options.backend,
        "taskmanager.memory.managed.size": "512m",
        "taskmanager.numberOfTaskSlots": str(options.parallelism),
    }
    if options.checkpoints:
        settings["execution.checkpointing.interval"] = options.interval
        settings["execution.checkpointing.dir"] = f"file://{options.checkpoints}"
        settings["execution.checkpointing.incremental"] = "true"
    for key, value in settings.items():
        table_env.get_config().set(key, value)
    table_env.execute_sql(f"""
        CREATE TABLE events (
          ts TIMESTAMP(3), `key` BIGINT, price BIGINT, val DOUBLE,
          WATERMARK FOR ts AS ts - INTERVAL '{options.disorder}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{options.input}', 'format' = 'csv')
    """)
    sink = "'connector' = 'blackhole'"
    if options.output:
        sink = f"'connector' = 'filesystem', 'path' = 'file://{options.output}', 'format' = 'csv'"
    table_env.execute_sql(f"""
        CREATE TABLE results (
          `key` BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3),
          s BIGINT, n BIGINT, a DOUBLE, m BIGINT
        ) WITH ({sink})
    """)
    started = time.monotonic()
    table_env.execute_sql(f"""
        INSERT INTO results
        SELECT `key`, window_start, window_end, SUM(price), COUNT(*), AVG(val), MAX(price)
        FROM TABLE({options.window})
        GROUP BY `key`, window_start, window_end
    """).wait()
    print("RESULT " + json.dumps({"seconds": time.monotonic() - started}), flush=True)


if __name__ == "__main__":
    main()
