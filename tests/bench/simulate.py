"""Histories per second of the simulator, and cases per second of `sqlwin test`.

Times are of the processor, because other programs delay short histories.

python -m tests.bench.simulate
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlwin
from sqlwin.testing.cases import read_cases
from sqlwin.testing.running import TestOptions, run_case
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
      SELECT k, window_end, COUNT(*) AS n, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY k, window_start, window_end
    expect:
      rows: [[a, '00:00:10', 2, 4], [b, '00:00:20', 1, 2]]
"""


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
        cases = "".join(CASE.format(number=number) for number in range(options.cases))
        path.write_text(CASES.format(cases=cases))
        begun = time.process_time()
        results = [
            run_case(sqlwin.connect, case, TestOptions(starts_spark=False))
            for case in read_cases(path)
        ]
        seconds = time.process_time() - begun
    assert all(result.has_passed for result in results), "a case failed"
    print(f"{len(results)} cases of 20 histories in {seconds:.1f} s of CPU")


if __name__ == "__main__":
    main()
