"""The engines that are compared, each behind two functions: one that runs, one that digests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import sqlwin
from tests.bench import cases
from tests.bench.apart import Engine, apart
from tests.bench.cases import Case

# Engines that copy rows into their windows are not asked for more copies than this: they and sqlwin
# then run on fewer rows. 1.2 billion copies take Spark some minutes.
MOST_COPIES = 1_200_000_000
EXPANDING = ("spark", "duckdb")
# So many windows, at most, are asked of anyone.
MOST_WINDOWS = 2_000_000_000


def sqlwin_engine(session: sqlwin.Session, case: Case, path: Path) -> Engine:
    """sqlwin over the table `events`; rows go to Spark's noop sink."""
    session.execute(
        f"CREATE OR REPLACE TABLE events WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{path}')"
    )
    query = cases.sqlwin_sql(case)
    return Engine(
        run=lambda: session.sql(query).write.format("noop").mode("overwrite").save(),
        digest=lambda: _numbers(session.sql(f"SELECT {case.digest} FROM ({query})").collect()[0]),
    )


def _spark(session: sqlwin.Session, case: Case, path: Path) -> Engine | None:
    spark = session.spark
    query = cases.spark_sql(case)

    def table() -> None:
        spark.read.parquet(str(path)).createOrReplaceTempView("events")

    def run() -> None:
        table()
        spark.sql(query).write.format("noop").mode("overwrite").save()

    def digest() -> tuple[float, ...]:
        table()
        return _numbers(spark.sql(f"SELECT {case.digest} FROM ({query})").collect()[0])

    return Engine(run, digest)


def _duckdb(query: str, case: Case) -> Engine:
    import duckdb

    con = duckdb.connect()
    # by itself it takes most of the memory, of which Spark has half
    con.execute(
        "SET TimeZone = 'UTC'; SET threads = 2; SET memory_limit = '6GB'; "
        "SET enable_progress_bar = false"
    )
    return Engine(
        run=lambda: con.execute(f"CREATE OR REPLACE TEMP TABLE result AS {query}"),
        digest=lambda: _numbers(
            con.execute(f"SELECT {case.digest} FROM ({query})").fetchone() or ()
        ),
    )


def _duckdb_expanding(session: sqlwin.Session, case: Case, path: Path) -> Engine | None:
    if case.approximate:
        return None  # another sketch, and so other estimates
    return _apart(session, partial(_duckdb, cases.duckdb_expanding(case, path), case))


def _duckdb_slices(session: sqlwin.Session, case: Case, path: Path) -> Engine | None:
    query = cases.duckdb_slices(case, path)
    return None if query is None else _apart(session, partial(_duckdb, query, case))


def _polars_dynamic(session: sqlwin.Session, case: Case, path: Path) -> Engine | None:
    """group_by_dynamic: HOP and TUMBLE. It has no CUMULATE."""
    if case.kind == "CUMULATE" or case.approximate:
        return None
    return _apart(session, partial(_polars, case, path))


def _polars(case: Case, path: Path) -> Engine:
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
        rows = pl.scan_parquet(str(path / "*.parquet")).sort("ts")
        windows = rows.group_by_dynamic(
            "ts",
            every=f"{case.step_us}us",
            period=f"{case.size_us}us",
            group_by="key",
            closed="left",
            # without it the windows that begin before the first row are left out
            offset=f"-{case.size_us - case.step_us}us",
        )
        return windows.agg(aggregates).collect()

    def digest() -> tuple[float, ...]:
        frame = result()
        if case.distinct:
            return _numbers((len(frame), frame["n"].sum(), frame["n"].min(), frame["n"].max()))
        return _numbers((len(frame), *(frame[c].sum() for c in ("s", "n", "a", "m"))))

    return Engine(result, digest)


def _apart(session: sqlwin.Session, make: Callable[[], Engine]) -> Engine:
    """An engine in its own process, with the memory that Spark's last queries left behind."""
    context = session.spark.sparkContext
    context._jvm.System.gc()  # type: ignore[union-attr]
    return apart(make)


def _numbers(row: object) -> tuple[float, ...]:
    return tuple(float(value) for value in row)  # type: ignore[attr-defined]


Maker = Callable[[sqlwin.Session, Case, Path], Engine | None]

ENGINES: dict[str, Maker] = {
    "spark": _spark,
    "duckdb": _duckdb_expanding,
    "duckdb-slices": _duckdb_slices,
    "polars": _polars_dynamic,
}
