"""Slices in Azure: creation, concurrent refreshes, queries and removal."""

from __future__ import annotations

import random
import threading

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import sqlwin
from runtime.errors import SqlwinError
from runtime.lake.places import TablePlace
from tests.azure_store import KEY, AzureStore, azure_store
from tests.end_to_end.materialized.base import (
    QUERY,
    TABLE,
    random_rows,
    refresh,
    slices_of,
    slices_of_stored_rows,
)

pytestmark = pytest.mark.long


def stored_slices(azure: AzureStore) -> object:
    """Return the stored slices, read as a Delta table."""
    options = TablePlace(azure.uri("m"), azure.store()).delta_options
    return slices_of_stored_rows(
        DeltaTable(azure.uri("m"), storage_options=options).to_pyarrow_table()
    )


@pytest.mark.parametrize(
    "is_hierarchical",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["flat", "with directories"],
)
def test_slices_in_a_container_follow_files_in_it(
    fresh_session: sqlwin.Session, is_hierarchical: bool
) -> None:
    session, draw = fresh_session, random.Random(3)
    files = {number: random_rows(draw, 200, number * 300, number * 300 + 500) for number in (0, 1)}
    with azure_store(is_hierarchical=is_hierarchical) as azure:
        azure.configure(session.spark)
        try:

            def put(number: int, n_rows: int) -> None:
                files[number] = random_rows(draw, n_rows)
                azure.put(f"in/{number}.parquet", files[number])

            for number, table in files.items():
                azure.put(f"in/{number}.parquet", table)
            session.execute(TABLE.format(azure.uri("in")))
            session.execute(
                f"CREATE MATERIALIZED TABLE m WITH ('path' = '{azure.uri('m')}') AS {QUERY}"
            )
            put(2, 100)
            assert "1 new file" in refresh(session)
            put(1, 150)
            assert "1 changed file" in refresh(session)
            assert stored_slices(azure) == slices_of(pa.concat_tables(files.values()))

            # both look for the next version before either writes it
            other = sqlwin.connect(session.spark.newSession())
            azure.configure(other.spark)
            other.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{azure.uri('m')}')")
            put(3, 100)
            failed: list[SqlwinError] = []

            def run(item: sqlwin.Session) -> None:
                try:
                    refresh(item)
                except SqlwinError as error:
                    failed.append(error)

            with azure.waiting("PUT", "_delta_log/", 1):
                threads = [
                    threading.Thread(target=run, args=(session_,)) for session_ in (session, other)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert not failed
            assert azure.n_refused == 1
            assert stored_slices(azure) == slices_of(pa.concat_tables(files.values()))

            n_windows = session.execute("SELECT COUNT(*) AS n FROM m")[0].rows[0].n
            assert n_windows > 0 and KEY not in session.explain("SELECT * FROM m")
            session.execute("DROP MATERIALIZED TABLE m")
            # in an account without directories, Arrow keeps emptied directories as blobs
            left = [n for n, blob in azure.blobs.items() if not blob.is_directory and n[-1] != "/"]
            assert sorted(left) == [f"in/{number}.parquet" for number in sorted(files)]
            session.execute(
                f"CREATE MATERIALIZED TABLE m WITH ('path' = '{azure.uri('m')}') AS {QUERY}"
            )
            assert stored_slices(azure) == slices_of(pa.concat_tables(files.values()))
        finally:
            azure.forget(session.spark)
