"""What is asked of a store within a block is asked once, and anew after it."""

from collections.abc import Callable
from threading import Thread

import pytest

from runtime.scan.asked_once import asked, asking_once


def counting() -> tuple[list[int], Callable[[], int]]:
    calls: list[int] = []

    def ask() -> int:
        calls.append(len(calls))
        return len(calls)

    return calls, ask


def test_within_a_block_an_answer_is_given_again() -> None:
    _, ask = counting()
    assert [asked("x", ask), asked("x", ask)] == [1, 2], "without a block"
    with asking_once():
        assert [asked("x", ask), asked("x", ask)] == [3, 3]
        with asking_once():
            assert asked("x", ask) == 3
        assert asked("x", ask) == 3, "a block within is a part"
        assert asked("y", ask) == 4
    with asking_once():
        assert asked("x", ask) == 5


def test_an_error_is_not_an_answer() -> None:
    def fail() -> int:
        raise OSError("it failed")

    with asking_once():
        with pytest.raises(OSError, match="it failed"):
            asked("x", fail)
        assert asked("x", lambda: 1) == 1
    with pytest.raises(OSError, match="it failed"), asking_once():
        asked("x", fail)
    assert asked("x", lambda: 2) == 2


def test_a_block_is_of_one_thread() -> None:
    calls, ask = counting()
    with asking_once():
        asked("x", ask)
        thread = Thread(target=lambda: asked("x", ask))
        thread.start()
        thread.join()
    assert len(calls) == 2
