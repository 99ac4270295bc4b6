"""A checkpoint survives an upgrade: what an earlier version wrote is read, merged and freed."""

import random

import pyarrow as pa
import pytest

from runtime.compute.arrow.blobs import to_blob
from runtime.spec.windows import Cumulate, Hop, Tumble
from runtime.streaming.state import slices as slice_state
from tests.runtime.streaming.model import MS, Stream

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
        slice_state.CACHE.clear()
        with monkeypatch.context() as patch:
            if number < 12:
                patch.setattr(slice_state, "encode_state", as_before)
            found += upgraded.micro_batch(rows, watermark)
        versions |= {blob[0] for blob in upgraded.store.blobs.values()}
    assert len(wanted) > 20
    assert versions == {2, 3}
    assert sorted(found) == sorted(wanted)
