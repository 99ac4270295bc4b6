"""Missing state is an error that names it, never an incomplete result."""

import pytest

from runtime.errors import ExecutionError
from runtime.streaming.operators.firing import UpdateRules
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import MS, Stream
from tests.runtime.streaming.operators.test_general import JOBS, Group
from tests.runtime.streaming.operators.test_session import Stream as Sessions

S = 1000 * MS


def slice_stream(window, updates=None):
    stream = Stream(window, updates=updates)
    stream.micro_batch([("a", 1000, 5), ("b", 2000, 7)], 12_000 if updates else 2000)
    CACHE.clear()
    return stream.store, lambda: stream.micro_batch([("a", 3000, 1)], 90_000)


def session_stream():
    stream = Sessions()
    stream.micro_batch([("a", "x", 1, 5), ("b", "x", 2, 7)], 2)
    # a session that ends before others, so that a blob marks taken partials
    stream.micro_batch([("a", "x", 60, 1)], 30)
    CACHE.clear()
    return stream.store, lambda: stream.micro_batch([("a", "x", 70, 1)], 900_000)


def general_group():
    group = Group(JOBS["tumble"])
    group.batch([("a", 3, 1), ("b", 4, 2)])
    return group.store, lambda: group.batch([("a", 50, 1), ("b", 50, 2)])


@pytest.mark.parametrize(
    "made",
    [
        lambda: slice_stream(Tumble(10 * S)),
        lambda: slice_stream(Hop(5 * S, 20 * S)),
        lambda: slice_stream(Cumulate(5 * S, 20 * S)),
        lambda: slice_stream(Tumble(10 * S), UpdateRules(3600 * S, None, None)),
        session_stream,
        general_group,
    ],
    ids=["tumble", "hop", "cumulate", "updates", "session", "general"],
)
def test_a_missing_blob_is_an_error_and_no_result_without_it(made):
    names = [name for name in made()[0].blobs if name != "metadata"]
    assert names
    for number in range(len(names)):
        store, go_on = made()
        # names are unique, so they differ each time
        missing = [name for name in store.blobs if name != "metadata"][number]
        del store.blobs[missing]
        with pytest.raises(ExecutionError, match=f"blob {missing} is missing"):
            go_on()
