"""Windows over Parquet in Azure, on a server of the tests that speaks Azure's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.azure_store import HOST, KEY, SAS, WRONG_KEY, AzureStore, azure_store
from tests.end_to_end.sources.stored_rows import (
    BY_MINUTE,
    check_resumed_stream,
    minutes,
    rows,
    table,
)

pytestmark = pytest.mark.long


@pytest.fixture
def azure(fresh_session: sqlwin.Session) -> Iterator[AzureStore]:
    """Provide the store of an account with directories, configured in the session."""
    with azure_store(is_hierarchical=True) as result:
        result.configure(fresh_session.spark)
        yield result
        fresh_session.streams.stop_all()
        result.forget(fresh_session.spark)


def test_windows_over_a_container_equal_those_over_a_disk(
    fresh_session: sqlwin.Session, azure: AzureStore, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        result = minutes(number * 5, 5)
        azure.put(f"in/{number}.parquet", result, row_group_size=30)
        pq.write_table(result, tmp_path / f"in/{number}.parquet")
    session = fresh_session
    session.execute(table("there", azure.uri("in")) + table("here", tmp_path / "in"))
    plan = str(session.explain(BY_MINUTE.format("TABLE there")))
    assert "ArrowScanLocalWindowAggregate(table=[there]" in plan and KEY not in plan
    expected = rows(session, BY_MINUTE.format("TABLE here"))
    assert len(expected) > 30
    assert rows(session, BY_MINUTE.format("TABLE there")) == expected
    assert rows(session, BY_MINUTE.format(f"'{azure.uri('in')}/*.parquet'")) == expected
    assert rows(session, "SELECT COUNT(*), MAX(v) FROM there") == [(300, 99)]
    azure.forget(session.spark)
    azure.configure(session.spark, sas=SAS)
    assert rows(session, BY_MINUTE.format("TABLE there")) == expected


def test_a_stopped_stream_resumes_with_new_files(
    fresh_session: sqlwin.Session, azure: AzureStore, tmp_path: Path
) -> None:
    check_resumed_stream(
        fresh_session,
        azure.uri("in"),
        lambda name, part: azure.put(f"in/{name}", part),
        tmp_path,
    )
    records = "".join(p.read_text() for p in (tmp_path / "checkpoints").rglob("*.json"))
    assert azure.uri("in") in records
    assert KEY not in records


def test_missing_and_refused_objects_are_one_line(
    fresh_session: sqlwin.Session, azure: AzureStore
) -> None:
    azure.put("in/a.parquet", minutes(0, 1))
    session = fresh_session
    session.execute(
        table("there", azure.uri("in"))
        + table("pathless", azure.uri("nothing.parquet"))
        + table("boxless", azure.uri("in", container="nothing"))
    )

    def refused(name: str) -> str:
        with pytest.raises(SqlwinError) as caught:
            session.execute(BY_MINUTE.format(f"TABLE {name}"))
        assert "\n" not in caught.value.message
        return caught.value.message

    assert f"{azure.uri('nothing.parquet')} does not exist" in refused("pathless")
    assert "container nothing does not exist" in refused("boxless")
    azure.configure(session.spark, account_key=WRONG_KEY)
    expected = f"the store rejected the account key; check spark.hadoop.fs.azure.account.key.{HOST}"
    assert expected in refused("there")
    azure.configure(session.spark, account_key="not valid Base64")
    assert "the account key is not valid Base64" in refused("there")
    azure.configure(session.spark)
    azure.configure(session.spark, abfs_endpoint="127.0.0.1:1")
    assert "spark.hadoop.fs.azure.abfs.endpoint" in refused("there")
