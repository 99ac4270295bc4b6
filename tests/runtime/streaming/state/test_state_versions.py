"""A checkpoint survives an upgrade: what an earlier version wrote is read, merged and freed."""

import random

import pyarrow as pa
import pytest

from runtime.compute.arrow.blobs import to_blob
from runtime.spec.windows import Cumulate, Hop, Tumble
from runtime.streaming.state import table_cache
from runtime.streaming.state.blobs import decode_facts, encode_facts
from tests.runtime.streaming.model import MS, SCHEMA, Stream

S = 1000 * MS


def as_before(table: pa.Table) -> bytes:
    """A blob as it was written when tables of state were not packed."""
    return bytes([2]) + to_blob(table, "zstd" if table.nbytes > 4096 else None)


@pytest.mark.parametrize(
    "window", [Tumble(60 * S), Hop(5 * S, 60 * S), Cumulate(10 * S, 60 * S)], ids=repr
)
def test_slices_that_an_earlier_version_wrote_count_in_their_windows(window, monkeypatch):
    rng = random.Random(3)
    keys = [f"customer-{number}" for number in range(60)]
    batches = [
        ([(rng.choice(keys), at + rng.randrange(4000), rng.randrange(9)) for _ in range(300)], at)
        for at in range(0, 100_000, 4000)
    ]
    plain, upgraded = Stream(window), Stream(window)
    wanted, found, versions = [], [], set()
    for number, (rows, watermark) in enumerate(batches):
        wanted += plain.micro_batch(rows, watermark)
        # another process, which remembers nothing
        table_cache.CACHE.clear()
        with monkeypatch.context() as patch:
            if number < 12:
                patch.setattr(table_cache, "encode_state", as_before)
            found += upgraded.micro_batch(rows, watermark)
        versions |= {blob[0] for blob in upgraded.store.blobs.values()}
    assert len(wanted) > 20
    assert versions == {2, 3}
    assert sorted(found) == sorted(wanted)


def test_slices_of_one_reader_are_read_and_written_as_an_operator_of_one_reader_has_them():
    """The facts that a checkpoint has, which a version before or after this one reads."""
    window = Tumble(60 * S)
    table = pa.table(
        {
            "key": ["a", "b"],
            "$slice_end": [60 * S, 60 * S],
            "n": [2, 1],
            "total": [7, 9],
            "largest": [4, 9],
        },
        SCHEMA.remove(len(SCHEMA) - 1),
    )
    stream = Stream(window)
    stream.store.blobs["chunk"] = as_before(table)
    chunk = ["chunk", 2, len(stream.store.blobs["chunk"]), 60 * S, 60 * S]
    stream.store.blobs["facts"] = encode_facts(
        {
            "watermark": 10 * S,
            "sources": [[10 * S, None]],
            "run": "",
            "slices": [[60 * S, 0, [chunk]]],
        }
    )
    assert stream.micro_batch([("a", 20_000, 1), ("c", 70_000, 3)], 20_000) == []
    assert stream.status.n_rows == 4
    facts = decode_facts(stream.store.blobs["facts"])
    assert set(facts) == {"watermark", "sources", "run", "slices"}
    slabs = {end: [each[0] for each in chunks] for end, _, chunks in facts["slices"]}
    assert list(map(len, slabs.values())) == [2, 1]
    assert slabs[60 * S][0] == "chunk"
    assert sorted(stream.micro_batch([], 60_000)) == [
        ("a", 0, 60_000, 3, 8, 4),
        ("b", 0, 60_000, 1, 9, 9),
    ]
