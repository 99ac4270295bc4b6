"""A block sends each request to a store once; after it, requests are sent again."""

from collections.abc import Callable
from threading import Thread

import pytest

from runtime.scan.request_cache import cache_requests, get_or_request


def counting() -> tuple[list[int], Callable[[], int]]:
    calls: list[int] = []

    def ask() -> int:
        calls.append(len(calls))
        return len(calls)

    return calls, ask


def test_a_block_reuses_answers() -> None:
    _, ask = counting()
    assert [get_or_request("x", ask), get_or_request("x", ask)] == [1, 2], "without a block"
    with cache_requests():
        assert [get_or_request("x", ask), get_or_request("x", ask)] == [3, 3]
        with cache_requests():
            assert get_or_request("x", ask) == 3
        assert get_or_request("x", ask) == 3, "a block within is a part"
        assert get_or_request("y", ask) == 4
    with cache_requests():
        assert get_or_request("x", ask) == 5


def test_an_error_is_not_an_answer() -> None:
    def fail() -> int:
        raise OSError("it failed")

    with cache_requests():
        with pytest.raises(OSError, match="it failed"):
            get_or_request("x", fail)
        assert get_or_request("x", lambda: 1) == 1
    with pytest.raises(OSError, match="it failed"), cache_requests():
        get_or_request("x", fail)
    assert get_or_request("x", lambda: 2) == 2


def test_a_block_is_of_one_thread() -> None:
    calls, ask = counting()
    with cache_requests():
        get_or_request("x", ask)
        thread = Thread(target=lambda: get_or_request("x", ask))
        thread.start()
        thread.join()
    assert len(calls) == 2
