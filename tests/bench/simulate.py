"""Histories per second of the simulator, and cases per second of `sqlwin test`.

Times of histories are of the processor, because other programs delay short histories.

python -m tests.bench.simulate
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlwin
from sqlwin.testing.cases import read_cases
from sqlwin.testing.parallel import n_processes, run_cases
from sqlwin.testing.running import TestOptions
from tests.runtime.simulator.queries import WINDOWS, of_window, stream

N_ROWS = 100
CASES = """
tables:
  t:
    columns: {{ts: TIMESTAMP(3), k: STRING, v: BIGINT}}
    watermark: ts - INTERVAL '5' SECOND
    rows:
      - ['00:00:01', a, 1]
      - ['00:00:12', b, 2]
      - ['00:00:09', a, 3]
cases:
{cases}"""
CASE = """
  - name: case {number}
    query: |
      SELECT k, window_end, COUNT(*) AS n, {call} AS s
      FROM TABLE({window})
      GROUP BY k, window_start, window_end
    expect:
      dropped: 0
"""
CALLS = ("SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)", "LAST_VALUE(v)")


def cases_text(n_cases: int) -> str:
    """Return a test file whose cases differ in their windows and aggregates."""
    windows = list(WINDOWS.values())
    cases = [
        CASE.format(
            number=number,
            window=windows[number % len(windows)],
            call=CALLS[number // len(windows) % len(CALLS)],
        )
        for number in range(n_cases)
    ]
    return CASES.format(cases="".join(cases))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100, help="histories of each window")
    parser.add_argument("--cases", type=int, default=50, help="cases of the test file")
    options = parser.parse_args()
    rows = [(number * 400, "abc"[number % 3], number % 7, number / 4) for number in range(N_ROWS)]
    print(f"{'window':<16}{'ms per history':>16}{'histories/s':>14}{'micro-batches':>16}")
    for name in WINDOWS:
        of = stream(of_window(name), rows)
        of.run(of.history(0))
        begun = time.process_time()
        n_batches = sum(len(of.run(of.history(n)).batches) for n in range(options.histories))
        seconds = time.process_time() - begun
        rate = options.histories / seconds
        mean = n_batches / options.histories
        print(f"{name:<16}{1_000 / rate:>16.1f}{rate:>14.0f}{mean:>16.1f}")
    with TemporaryDirectory() as directory:
        path = Path(directory) / "cases.sqlwin.yaml"
        path.write_text(cases_text(options.cases))
        cases, how = read_cases(path), TestOptions(starts_spark=False)
        processes = n_processes(len(cases), how)
        begun, used = time.perf_counter(), _cpu_seconds()
        results = list(run_cases(cases, sqlwin.connect, how, processes))
        seconds, used = time.perf_counter() - begun, _cpu_seconds() - used
    assert all(result.has_passed for result in results), "a case failed"
    print(
        f"{len(results)} cases of {how.histories} histories in {processes} processes: "
        f"{seconds:.1f} s, {len(results) / seconds:.0f} cases/s; {used:.1f} s of CPU"
    )


def _cpu_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
