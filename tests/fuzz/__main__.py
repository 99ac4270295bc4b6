"""Runs more than the tests: `python -m tests.fuzz statements --seed 20000 --count 5000`."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.differences import Roads
from tests.fuzz.files import DamagedFiles
from tests.fuzz.outcome import Outcome, judge, new_session
from tests.fuzz.statements import Statements

# Takes a number; returns the text that ran, and its outcome
Run = Callable[[int], tuple[str, Outcome]]


def main() -> int:
    """Run statements, files or queries by number, and print one example of each fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("what", choices=["statements", "files", "queries"])
    parser.add_argument("--seed", type=int, default=0, help="first number")
    parser.add_argument("--count", type=int, default=2_000)
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sqlwin-fuzz-") as name:
        run = _run(options.what, Path(name))
        for number in range(options.seed, options.seed + options.count):
            text, outcome = run(number)
            kinds[outcome.kind] += 1
            if outcome.kind == "fault":
                where = _where(outcome)
                key = f"{where} {outcome.text.partition(': ')[2][:40]}"
                faults[key] += 1
                if faults[key] == 1:
                    print(f"{number}: {outcome.text}\n  {where}\n  {text[:2_000]!a}\n", flush=True)
    print(f"seed {options.seed}: {dict(kinds)} in {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


def _run(what: str, directory: Path) -> Run:
    if what == "queries":
        return _queries(Roads(directory))
    if what == "files":
        return lambda number: _file(number, directory)
    statements = Statements(directory)
    os.chdir(directory)

    def run(number: int) -> tuple[str, Outcome]:
        example, text, outcome = statements.run(number)
        return f"{example.origin}: {text}", outcome

    return run


def _queries(roads: Roads) -> Run:
    def run(number: int) -> tuple[str, Outcome]:
        before = roads.counts.copy()
        fault = roads.check(number)
        left = [kind for kind in ("spark", "limit") if roads.counts[kind] > before[kind]]
        kind = "fault" if fault else left[0] if left else "rows"
        return "", Outcome(kind, fault or "")

    return run


def _file(number: int, directory: Path) -> tuple[str, Outcome]:
    path, script = DamagedFiles(number, directory).draw()
    outcome = judge(new_session(), script)
    path.unlink()
    return script, outcome


def _where(outcome: Outcome) -> str:
    if outcome.cause is None:
        return ""
    frame = traceback.extract_tb(outcome.cause.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


if __name__ == "__main__":
    raise SystemExit(main())
