"""How many buckets of keys the global stage takes at a time."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from runtime.batch.global_aggregate import whole_buckets

BLOBS = st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=9))).map(
    lambda pairs: [(bucket, memoryview(blob)) for bucket, blob in sorted(pairs, key=lambda p: p[0])]
)


@given(BLOBS, st.integers(1, 20))
def test_buckets_are_taken_whole_and_no_more_of_them_than_needed(pairs, enough):
    taken = list(whole_buckets(pairs, enough))
    assert [blob for blobs in taken for blob in blobs] == [blob for _, blob in pairs]
    rest = iter(pairs)
    buckets = [[next(rest)[0] for _ in blobs] for blobs in taken]
    for before, after in itertools.pairwise(buckets):
        assert before[-1] != after[0]
    for numbers, blobs in zip(buckets, taken, strict=True):
        # without its last bucket there was not enough yet
        sizes = [len(b) for n, b in zip(numbers, blobs, strict=True) if n != numbers[-1]]
        assert sum(sizes) < enough


def test_small_buckets_go_together_and_a_large_one_alone():
    pairs = [(0, b"ab"), (1, b"c"), (1, b"d"), (2, b"e" * 9), (3, b"f")]
    taken = [
        list(map(bytes, blobs))
        for blobs in whole_buckets(((n, memoryview(b)) for n, b in pairs), 4)
    ]
    assert taken == [[b"ab", b"c", b"d"], [b"e" * 9], [b"f"]]
