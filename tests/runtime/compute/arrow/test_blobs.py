"""Blobs of the exchange."""

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.arrow.blobs import from_blobs, split_by_bucket, to_blob, to_blobs

TABLE = pa.table({"k": ["a", None, "c", "d", "e"], "v": [1, 2, None, 4, 5]})


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_table_is_restored_from_its_blobs(compression):
    blobs = [to_blob(TABLE, compression), to_blob(TABLE.to_batches()[0].slice(1, 2), compression)]
    assert from_blobs(blobs).equals(pa.concat_tables([TABLE, TABLE.slice(1, 2)]))


def test_a_blob_without_rows_keeps_its_schema():
    assert from_blobs([to_blob(TABLE.schema.empty_table())]).equals(TABLE.schema.empty_table())


def test_no_blobs_need_a_schema():
    assert from_blobs([], TABLE.schema).num_rows == 0
    with pytest.raises(ValueError, match="no schema"):
        from_blobs([])


def test_a_blob_contains_only_its_slice():
    wide = pa.table({"v": np.zeros(100_000)}).to_batches()[0]
    assert len(to_blob(wide.slice(10, 5))) < 2_000


@pytest.mark.parametrize("step", [1, 100_000])
def test_rows_split_by_bucket_keep_their_order(step):
    buckets = np.array([2, 0, 2, 0, 5], np.int32) * step
    parts = {b: batch.column("v").to_pylist() for b, batch in split_by_bucket(TABLE, buckets)}
    assert parts == {0: [2, 4], 2 * step: [1, None], 5 * step: [5]}


def test_no_rows_split_into_no_parts():
    assert list(split_by_bucket(TABLE.slice(0, 0), np.array([], np.int32))) == []


def test_blobs_written_together_equal_those_written_singly():
    table = TABLE.append_column("b", pa.array([True, None, False, True, True]))
    (batch,) = table.to_batches()
    parts = [batch, batch.slice(1, 3), batch.slice(4, 1), batch.slice(2, 0)]
    for compression in (None, "lz4"):
        together = to_blobs(parts, compression).to_pylist()
        assert together == [to_blob(part, compression) for part in parts]
    assert to_blobs([]).to_pylist() == []
