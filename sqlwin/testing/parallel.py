"""Run cases in several processes at once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from runtime.spark.context import has_java
from sqlwin.testing.cases import Case
from sqlwin.testing.running import CaseResult, Connect, TestOptions, run_case

# Fewer cases are done before processes have started
_FEWEST_CASES = 8
# Cases that a process takes at a time
_CASES_AT_A_TIME = 4


def n_processes(n_cases: int, options: TestOptions) -> int:
    """Return the number of processes that run cases. 1: they run in this process.

    A process of its own must not have a Spark, and must not inherit one.

    Args:
        n_cases: Number of cases.
        options: How they run.
    """
    if options.on_spark or n_cases < _FEWEST_CASES or has_java():
        return 1
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(_processors(), n_cases)


def run_cases(
    cases: Sequence[Case], connect: Connect, options: TestOptions, processes: int
) -> Iterator[CaseResult]:
    """Yield the results of cases in their order.

    A case that needs Spark runs in this process.

    Args:
        cases: Cases.
        connect: Opens a new session.
        options: How they run.
        processes: Number of processes, from `n_processes`.
    """
    if processes == 1:
        for case in cases:
            yield run_case(connect, case, options)
        return
    without_spark = replace(options, starts_spark=False)
    with _pool(processes) as pool:
        starts = range(0, len(cases), _CASES_AT_A_TIME)
        parts = [cases[start : start + _CASES_AT_A_TIME] for start in starts]
        futures: list[Future[list[CaseResult]]] = []
        with warnings.catch_warnings():
            # the processes that Python warns of are forked before this one has threads of its own
            warnings.simplefilter("ignore", DeprecationWarning)
            futures += [pool.submit(_run_part, part, connect, without_spark) for part in parts]
        for future in futures:
            for result in future.result():
                needs_spark = result.needs_spark and options.starts_spark
                yield run_case(connect, result.case, options) if needs_spark else result


def _run_part(part: Sequence[Case], connect: Connect, options: TestOptions) -> list[CaseResult]:
    """Run some cases in a process of the pool."""
    return [run_case(connect, case, options) for case in part]


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool, and end it without waiting for cases that have not begun."""
    # forked processes have all modules already
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _spare_collector)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _spare_collector() -> None:
    """Let Python look for circular garbage less often: a case leaves little of it."""
    gc.freeze()
    gc.set_threshold(100_000)


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
