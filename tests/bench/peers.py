"""The engines that are compared. Each has a function that runs and one that returns a digest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import sqlwin
from tests.bench import cases
from tests.bench.apart import Engine, apart
from tests.bench.cases import Case

# Maximum number of copies that an engine may make of rows. Above this, it and sqlwin run on fewer
# rows. 1.2 billion copies take Spark minutes.
MAX_COPIES = 1_200_000_000
EXPANDING = ("spark", "duckdb")
# Maximum number of windows per engine.
MAX_WINDOWS = 2_000_000_000


# Target of the rows: discarded where possible, Parquet, or an Arrow table
SINKS = ("noop", "parquet", "arrow")


def _empty_directory(path: Path, name: str) -> Path:
    """Return an empty directory for an engine's Parquet files."""
    actual = path.parent / f"written-{name}"
    shutil.rmtree(actual, ignore_errors=True)
    return actual


def sqlwin_engine(session: sqlwin.Session, case: Case, path: Path, sink: str) -> Engine:
    """Return sqlwin over the table `events`."""
    session.execute(
        f"CREATE OR REPLACE TABLE events WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{path}')"
    )
    query = cases.sqlwin_sql(case)

    def run() -> None:
        if sink == "noop":
            session.sql(query).write.format("noop").mode("overwrite").save()
        elif sink == "arrow":
            session.execute(query)[0].to_arrow()
        else:
            session.execute(
                f"DROP TABLE IF EXISTS written; CREATE TABLE written WITH ('connector' = "
                f"'filesystem', 'format' = 'parquet', 'path' = '{_empty_directory(path, 'sqlwin')}') "
                f"AS {query}"
            )

    return Engine(
        run=run,
        digest=lambda: _numbers(session.sql(f"SELECT {case.digest} FROM ({query})").collect()[0]),
    )


def _spark(session: sqlwin.Session, case: Case, path: Path, sink: str) -> Engine | None:
    spark = session.spark
    query = cases.spark_sql(case)

    def table() -> None:
        spark.read.parquet(str(path)).createOrReplaceTempView("events")

    def run() -> None:
        table()
        rows = spark.sql(query)
        if sink == "noop":
            rows.write.format("noop").mode("overwrite").save()
        elif sink == "arrow":
            rows.toArrow()
        else:
            rows.write.parquet(str(_empty_directory(path, "spark")))

    def digest() -> tuple[float, ...]:
        table()
        return _numbers(spark.sql(f"SELECT {case.digest} FROM ({query})").collect()[0])

    return Engine(run, digest)


def _duckdb(query: str, case: Case, path: Path, sink: str) -> Engine:
    import duckdb

    con = duckdb.connect()
    # otherwise it takes most of the memory, and Spark has half of it
    con.execute(
        "SET TimeZone = 'UTC'; SET threads = 2; SET memory_limit = '6GB'; "
        "SET enable_progress_bar = false"
    )

    def run() -> None:
        if sink == "noop":
            con.execute(f"CREATE OR REPLACE TEMP TABLE result AS {query}")
        elif sink == "arrow":
            con.sql(query).to_arrow_table()
        else:
            written = _empty_directory(path, "duckdb")
            con.execute(f"COPY ({query}) TO '{written}' (FORMAT parquet, PER_THREAD_OUTPUT)")

    return Engine(
        run=run,
        # fetchall: a result that is not read to its end blocks the connection
        digest=lambda: _numbers(con.execute(f"SELECT {case.digest} FROM ({query})").fetchall()[0]),
    )


def _duckdb_expanding(session: sqlwin.Session, case: Case, path: Path, sink: str) -> Engine | None:
    if case.approximate:
        return None  # another sketch, so estimates differ
    query = cases.duckdb_expanding(case, path)
    return _apart(session, partial(_duckdb, query, case, path, sink))


def _duckdb_slices(session: sqlwin.Session, case: Case, path: Path, sink: str) -> Engine | None:
    query = cases.duckdb_slices(case, path)
    return None if query is None else _apart(session, partial(_duckdb, query, case, path, sink))


def _polars_dynamic(session: sqlwin.Session, case: Case, path: Path, sink: str) -> Engine | None:
    """Return Polars: truncated times, group_by_dynamic or sessions by a running sum."""
    if case.kind == "CUMULATE" or case.approximate:
        return None
    return _apart(session, partial(_polars, case, path, sink))


def _polars(case: Case, path: Path, sink: str) -> Engine:
    import polars as pl

    aggregates = [
        pl.col("price").sum().alias("s"),
        pl.len().alias("n"),
        pl.col("val").mean().alias("a"),
        pl.col("price").max().alias("m"),
    ]
    if case.distinct:
        aggregates = [pl.col("price").n_unique().alias("n")]

    def result() -> pl.DataFrame:
        rows = pl.scan_parquet(str(path / "*.parquet"))
        if case.kind == "TUMBLE":
            start = pl.col("ts").dt.truncate(f"{case.step_us}us")
            return rows.group_by("key", start.alias("window_start")).agg(aggregates).collect()
        if case.kind == "SESSION":
            is_first = pl.col("ts").diff() > pl.duration(microseconds=case.step_us)
            session = is_first.fill_null(True).cum_sum().over("key")
            numbered = rows.sort("key", "ts").with_columns(session.alias("session"))
            bounds = [pl.col("ts").min().alias("window_start"), pl.col("ts").max().alias("last")]
            return numbered.group_by("key", "session").agg(*bounds, *aggregates).collect()
        windows = rows.sort("ts").group_by_dynamic(
            "ts",
            every=f"{case.step_us}us",
            period=f"{case.size_us}us",
            group_by="key",
            closed="left",
            # otherwise windows that begin before the first row are left out
            offset=f"-{case.size_us - case.step_us}us",
        )
        return windows.agg(aggregates).collect()

    def digest() -> tuple[float, ...]:
        frame = result()
        if case.distinct:
            return _numbers((len(frame), frame["n"].sum(), frame["n"].min(), frame["n"].max()))
        return _numbers((len(frame), *(frame[c].sum() for c in ("s", "n", "a", "m"))))

    def run() -> None:
        frame = result()
        if sink == "arrow":
            frame.to_arrow()
        elif sink == "parquet":
            written = _empty_directory(path, "polars")
            written.mkdir()
            frame.write_parquet(written / "part-0.parquet", compression="snappy")

    return Engine(run, digest)


def _apart(session: sqlwin.Session, make: Callable[[], Engine]) -> Engine:
    """Return an engine in its own process, with the memory that Spark's last queries left free."""
    context = session.spark.sparkContext
    context._jvm.System.gc()  # type: ignore[union-attr]
    return apart(make)


def _numbers(row: object) -> tuple[float, ...]:
    return tuple(float(value) for value in row)  # type: ignore[attr-defined]


Maker = Callable[[sqlwin.Session, Case, Path, str], Engine | None]

ENGINES: dict[str, Maker] = {
    "spark": _spark,
    "duckdb": _duckdb_expanding,
    "duckdb-slices": _duckdb_slices,
    "polars": _polars_dynamic,
}
