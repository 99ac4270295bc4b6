"""A window aggregation in Flink over the CSV files of a benchmark; run by Flink's Python.

A standalone program that imports nothing of the project, so that it runs with only the package
`apache-flink`. `jobs.py` reads its output.
"""

import argparse

from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    """Write the closed windows, and then time all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True, help="a directory of CSV files")
    parser.add_argument("--window", required=True, help="HOP(...) or TUMBLE(...)")
    parser.add_argument("--disorder", type=int, required=True, help="seconds")
    parser.add_argument("--parallelism", required=True)
    parser.add_argument("--closed", required=True, help="the end of the last window to be written")
    parser.add_argument("--least", type=int, required=True, help="the lowest maximum to be printed")
    parser.add_argument("--output", required=True, help="a directory for the windows")
    parser.add_argument("--backend", required=True, choices=("hashmap", "rocksdb"))
    parser.add_argument("--checkpoints", help="a directory; none are taken without it")
    parser.add_argument("--interval", default="10 s", help="between checkpoints")
    options = parser.parse_args()
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    configure(
        environment,
        {
            "parallelism.default": options.parallelism,
            "table.local-time-zone": "UTC",
            "taskmanager.memory.managed.size": "512m",
            "state.backend.type": "hashmap",
        },
    )
    environment.execute_sql(f"""
        CREATE TABLE events (
          ts TIMESTAMP(3), `key` BIGINT, price BIGINT, val DOUBLE,
          WATERMARK FOR ts AS ts - INTERVAL '{options.disorder}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{options.input}', 'format' = 'csv')
    """)
    files = f"'connector' = 'filesystem', 'path' = 'file://{options.output}', 'format' = 'csv'"
    aggregate(environment, options, files, f"window_end <= TIMESTAMP '{options.closed}'").wait()
    print("WINDOWS", flush=True)
    input()
    configure(environment, {"state.backend.type": options.backend})
    if options.checkpoints:
        configure(
            environment,
            {
                "execution.checkpointing.interval": options.interval,
                "execution.checkpointing.dir": f"file://{options.checkpoints}",
                "execution.checkpointing.incremental": "true",
            },
        )
    print("STARTED", flush=True)
    printed = f"MAX(price) >= {options.least}"
    aggregate(environment, options, "'connector' = 'print'", printed).wait()


def configure(environment, settings):
    """Set options for all jobs from now on."""
    for key, value in settings.items():
        environment.get_config().set(key, value)


def aggregate(environment, options, sink, having):
    """Start the job that writes windows to a sink."""
    environment.execute_sql("DROP TABLE IF EXISTS results")
    environment.execute_sql(f"""
        CREATE TABLE results (
          `key` BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3),
          s BIGINT, n BIGINT, a DOUBLE, m BIGINT
        ) WITH ({sink})
    """)
    return environment.execute_sql(f"""
        INSERT INTO results
        SELECT `key`, window_start, window_end, SUM(price), COUNT(*), AVG(val), MAX(price)
        FROM TABLE({options.window})
        GROUP BY `key`, window_start, window_end
        HAVING {having}
    """)


if __name__ == "__main__":
    main()
