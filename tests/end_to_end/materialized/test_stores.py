"""Slices in an object store: creation, refreshes, queries, removal, and failures of the store."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import sqlwin
from runtime.errors import CatalogError, SqlwinError
from runtime.lake.places import TablePlace
from runtime.materialized.store import open_slices
from tests.azure_store import azure_store
from tests.end_to_end.materialized.base import (
    QUERY,
    TABLE,
    Base,
    random_rows,
    refresh,
    slices_of,
    slices_of_stored_rows,
)
from tests.end_to_end.materialized.test_lakes import WINDOWS
from tests.marks import among, pairs
from tests.object_store import KEYS, ObjectStore, is_write_of, object_store
from tests.remote_store import RemoteStore

pytestmark = pytest.mark.long


@pytest.fixture
def remote(request: pytest.FixtureRequest, fresh_session: sqlwin.Session) -> Iterator[RemoteStore]:
    """Provide a store of a kind, which the session knows."""
    kind: str = request.param
    made = object_store() if kind == "s3" else azure_store(is_hierarchical=kind != "azure, flat")
    with made as store:
        store.configure(fresh_session.spark)
        yield store
        store.forget(fresh_session.spark)


def place(store: RemoteStore, path: str) -> TablePlace:
    return TablePlace(store.uri(path), store.store())


def stored_slices(store: RemoteStore, path: str) -> object:
    """Return the stored slices, read as a Delta table."""
    options = place(store, path).delta_options
    return slices_of_stored_rows(
        DeltaTable(store.uri(path), storage_options=options).to_pyarrow_table()
    )


def create(session: sqlwin.Session, store: RemoteStore, path: str, clauses: str = "") -> None:
    session.execute(
        f"CREATE MATERIALIZED TABLE m {clauses} WITH ('path' = '{store.uri(path)}') AS {QUERY}"
    )


def windows(rows: pa.Table) -> list[str]:
    """Return the windows of all rows, by definition."""
    assert len(rows)
    return sorted(map(repr, duckdb.sql(WINDOWS).fetchall()))


def answers(session: sqlwin.Session, condition: str = "") -> list[str]:
    result = session.sql(f"SELECT city, window_end, n, s, low FROM m {condition}")
    return sorted(repr(tuple(row.values())) for row in result.toArrow().to_pylist())


@pytest.mark.parametrize(
    ("remote", "clauses"),
    pairs(
        ["s3", "azure", "azure, flat"],
        ["PARTITIONED BY (city)", ""],
        slow=[
            ("s3", ""),
            ("azure", "PARTITIONED BY (city)"),
            *(("azure, flat", clauses) for clauses in ("PARTITIONED BY (city)", "")),
        ],
    ),
    indirect=["remote"],
)
def test_slices_in_a_store_follow_files_in_a_store(
    fresh_session: sqlwin.Session, remote: RemoteStore, clauses: str
) -> None:
    lake, store = fresh_session, remote
    draw = random.Random(3)
    files = {
        number: random_rows(draw, 200, number * 300, number * 300 + 500) for number in range(3)
    }

    def rows() -> pa.Table:
        return pa.concat_tables(files.values())

    for number, table in files.items():
        store.put(f"in/{number}.parquet", table)
    lake.execute(TABLE.format(store.uri("in")))
    create(lake, store, "m", clauses)
    assert stored_slices(store, "m") == slices_of(rows())
    # a file that the slices do not cover: read by tasks, and in this process
    files[3] = random_rows(draw, 100)
    store.put("in/3.parquet", files[3])
    explained = lake.explain("SELECT * FROM m")
    assert "tail=[1 file]" in explained and "in process" in explained
    assert store.secret not in explained
    assert answers(lake) == windows(rows())
    lake.execute("SET 'sqlwin.materialized.in-process-bytes' = '0'")
    assert "in process" not in lake.explain("SELECT * FROM m")
    assert answers(lake) == windows(rows())
    lake.execute("RESET 'sqlwin.materialized.in-process-bytes'")
    files[1] = random_rows(draw, 150, 200, 700)
    store.put("in/1.parquet", files[1])
    del files[0]
    store.delete("in/0.parquet")
    assert "1 new file, 1 changed file, 1 lost file" in refresh(lake)
    assert stored_slices(store, "m") == slices_of(rows())
    # enough files to trigger compaction
    for number in range(4, 12):
        files[number] = random_rows(draw, 50)
        store.put(f"in/{number}.parquet", files[number])
        refresh(lake)
    assert len(open_slices(place(store, "m")).files) < (8 if not clauses else 24)
    assert stored_slices(store, "m") == slices_of(rows())
    assert answers(lake) == windows(rows())
    # the key appears nowhere
    definition = str(open_slices(place(store, "m")).definition)
    shown = lake.execute("SHOW CREATE MATERIALIZED TABLE m")[0]
    for text in (definition, str(shown.rows)):
        assert store.secret not in text
    lake.execute("DROP MATERIALIZED TABLE m")
    assert list(place(store, "m").files.files_below(store.uri("m"))) == []


@pytest.mark.parametrize("remote", among(["s3", "azure"], slow=["s3"]), indirect=True)
def test_of_two_concurrent_refreshes_one_continues_the_other(
    fresh_session: sqlwin.Session, remote: RemoteStore, tmp_path: Path
) -> None:
    lake, store = fresh_session, remote
    base = Base(tmp_path / "in")
    base.write("day", 300)
    lake.execute(TABLE.format(base.root))
    create(lake, store, "two")
    other = sqlwin.connect(lake.spark.newSession())
    store.configure(other.spark)
    other.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{store.uri('two')}')")
    base.write("new", 100)
    base.write("day", 200, 0, 300)
    failed: list[Exception] = []

    def run(session: sqlwin.Session) -> None:
        try:
            refresh(session)
        except SqlwinError as error:
            failed.append(error)

    # both look for the next version before either writes it
    with store.meeting("_delta_log/"):
        threads = [threading.Thread(target=run, args=(item,)) for item in (lake, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert stored_slices(store, "two") == base.slices()


def test_a_failing_store_changes_nothing(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 300)
    lake.execute(TABLE.format(base.root))
    create(lake, store, "fails")
    before = base.slices()
    base.write("new", 100)
    lake.spark.conf.set("fs.s3a.attempts.maximum", "1")
    for part in ("part-", "_sqlwin/manifest-", "_delta_log/"):
        with store.failing("AccessDenied", is_write_of(f"fails/{part}")):
            with pytest.raises(SqlwinError) as raised:
                refresh(lake)
        assert KEYS["secret.key"] not in str(raised.value)
        if part == "part-":
            assert "cannot write s3a://" in raised.value.message
            assert "permission denied" in raised.value.message
        assert stored_slices(store, "fails") == before
    # no file of the failed attempt remains
    named = {f"{store.uri('fails')}/{f.path}" for f in open_slices(place(store, "fails")).files}
    existing = place(store, "fails").files.files_below(store.uri("fails"))
    assert {uri for uri in existing if "/part-" in uri} == named
    lake.spark.conf.unset("fs.s3a.attempts.maximum")
    # the write succeeds, and the answer is lost
    with store.failing("lost", is_write_of("fails/_delta_log/"), times=1):
        assert "1 new file" in refresh(lake)
    assert stored_slices(store, "fails") == base.slices()
    assert "is up to date" in refresh(lake)
    # a failed CREATE leaves neither the table nor files below its path
    lake.execute("DROP MATERIALIZED TABLE m")
    with store.failing("AccessDenied", is_write_of("half/part-")):
        with pytest.raises(SqlwinError, match="cannot write"):
            create(lake, store, "half")
    assert list(place(store, "half").files.files_below(store.uri("half"))) == []


def test_rows_are_inserted_and_old_slices_are_merged_and_dropped(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    base = Base(tmp_path / "in")
    base.write("first", 300, 0, 600)
    lake.execute(f"SET 'sqlwin.materialized.dir' = '{store.uri('all')}'")
    lake.execute(TABLE.format(base.root))
    lake.execute(
        "CREATE MATERIALIZED TABLE m WITH ('slices.tiers' = '10 min for 2 h, 1 h', "
        f"'slices.retention' = '20 h') REFRESH_MODE = CONTINUOUS AS {QUERY}"
    )
    lake.execute(f"INSERT INTO m {QUERY}")
    more = Base(tmp_path / "more", 9)
    more.write("last", 300, 600, 1440)
    lake.execute(
        "CREATE TABLE later (ts TIMESTAMP(6), city STRING, fare INT) WITH "
        f"('connector' = 'filesystem', 'path' = '{more.root}', 'format' = 'parquet')"
    )
    lake.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'execution.runtime-mode' = 'streaming';
        SET 'table.dml-sync' = 'true';
        INSERT INTO m {QUERY.replace("TABLE trips", "TABLE later")};
        SET 'execution.runtime-mode' = 'batch'
    """)
    stored = open_slices(place(store, "all/m"))
    assert stored.reached.since_us is not None and stored.reached.tiers
    paths = base.root / "first.parquet", more.root / "last.parquet"
    rows = pa.concat_tables(map(pq.read_table, paths))
    oldest = stored.reached.tiers[0].until_us
    result = stored_slices(store, "all/m")
    assert isinstance(result, dict)
    fine = {key: item for key, item in slices_of(rows).items() if key[1] > oldest}
    assert {key: item for key, item in result.items() if key[1] > oldest} == fine
    assert min(end for _, end in result) > stored.reached.since_us
    # another session finds it by its directory
    other = sqlwin.connect(lake.spark.newSession())
    store.configure(other.spark)
    other.execute(f"SET 'sqlwin.materialized.dir' = '{store.uri('all')}'")
    shown = other.execute("SHOW MATERIALIZED TABLES")[0].table
    assert shown is not None
    assert shown.column("path").to_pylist() == [store.uri("all/m")]
    query = "SELECT city, n FROM m WHERE window_end > TIMESTAMP_NTZ '2024-01-02 00:00:00'"
    assert other.sql(query).collect()


def test_slices_are_where_they_can_be(lake: sqlwin.Session, tmp_path: Path) -> None:
    Base(tmp_path / "in").write("day", 10)
    lake.execute(TABLE.format(tmp_path / "in"))
    with pytest.raises(
        CatalogError,
        match=r"slices cannot be stored at hdfs://h/m: .* is not on a local file system",
    ):
        lake.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = 'hdfs://h/m') AS {QUERY}")
