"""Benchmark engines in separate processes."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.bench.apart import Engine, EngineFailed, apart


def engine(failure: str = "") -> Engine:
    def run() -> None:
        if failure == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if failure:
            raise ArithmeticError(failure)

    return Engine(run, lambda: (1.0, float(os.getpid())))


def test_an_engine_runs_in_another_process_until_it_is_closed() -> None:
    away = apart(engine)
    away.run()
    one, pid = away.digest()
    assert one == 1.0
    assert pid != os.getpid()
    assert away.digest() == (1.0, pid)
    away.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_failure_of_an_engine_names_it() -> None:
    away = apart(partial(engine, "too much"))
    with pytest.raises(EngineFailed, match="ArithmeticError"):
        away.run()
    assert away.digest()[0] == 1.0
    away.close()


def test_an_engine_killed_by_the_kernel_does_not_end_the_benchmark() -> None:
    away = apart(partial(engine, "killed"))
    with pytest.raises(EngineFailed, match="ended by signal 9"):
        away.run()
    away.close()
