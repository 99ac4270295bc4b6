"""Runs more than the tests: `python -m tests.fuzz statements --seed 20000 --count 5000`."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.fuzz.compiled_roads import CompiledRoads
from tests.fuzz.differences import Roads
from tests.fuzz.files import judge_file
from tests.fuzz.outcome import Outcome
from tests.fuzz.statements import Statements

WHAT = ("statements", "files", "queries", "histories", "streams", "catalog", "compiled", "portable")
# Random histories of each query
N_HISTORIES = 100
# Takes a number; returns the text that ran, and its outcome
Run = Callable[[int], tuple[str, Outcome]]


def main() -> int:
    """Run random tests by number and print one example of each fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--seed", type=int, default=0, help="first number")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument(
        "--spark", action="store_true", help="run queries on Spark, too, in ways that a seed draws"
    )
    parser.add_argument(
        "--remote", help="address of a Spark Connect server for portable, default: start one"
    )
    options = parser.parse_args()
    if options.what in ("streams", "catalog"):
        return _run_machine(options.what, options.count)
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    begun = time.monotonic()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlwin-fuzz-")))
        if options.what == "portable" and options.remote is None:
            options.remote = stack.enter_context(_server(directory))
        run, counts = _run(options, directory)
        for number in range(options.seed, options.seed + options.count):
            text, outcome = run(number)
            kinds[outcome.kind] += 1
            if outcome.kind == "fault":
                where = _where(outcome)
                key = f"{where} {outcome.text.partition(': ')[2][:40]}"
                faults[key] += 1
                if faults[key] == 1:
                    print(f"{number}: {outcome.text}\n  {where}\n  {text[:2_000]!a}\n", flush=True)
    if options.what == "histories":
        print(f"{N_HISTORIES} histories of each query")
    for way, count in counts.most_common():
        print(f"{count:8,} {way}")
    print(f"seed {options.seed}: {dict(kinds)} in {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


def _run_machine(what: str, n_examples: int) -> int:
    """Run a state machine, which prints the shortest steps that fail."""
    from tests.fuzz import test_catalog, test_streams

    begun = time.monotonic()
    run = test_catalog.run_machine if what == "catalog" else test_streams.run_machine
    run(n_examples, 50, derandomize=False)
    print(f"{n_examples} runs of 50 steps in {time.monotonic() - begun:.0f} s")
    return 0


def _run(options: argparse.Namespace, directory: Path) -> tuple[Run, Counter[str]]:
    """Return what runs a number, and the number of results compared by way, which it counts."""
    what = options.what
    if what == "histories":
        roads = Roads(directory)
        return _histories(roads), roads.counts
    if what == "queries":
        roads = _spark_roads(directory) if options.spark else Roads(directory, runs_all=True)
        return _queries(roads), roads.counts
    if what == "portable":
        from tests.fuzz.connect_roads import ConnectRoads

        return _texts(ConnectRoads(directory, options.remote))
    if what == "compiled":
        return _texts(_roads_of_spark_text(directory))
    if what == "files":
        return lambda number: _file(number, directory), Counter()
    statements = Statements(directory)
    os.chdir(directory)

    def run(number: int) -> tuple[str, Outcome]:
        example, text, outcome = statements.run(number)
        return f"{example.origin}: {text}", outcome

    return run, Counter()


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    """Start a Spark Connect server that cannot start Python workers, and yield its address."""
    from tests.connect_server import connect_server

    files = directory / "server"
    files.mkdir()
    with connect_server(files, python="/nowhere/python") as address:
        yield address


def _roads_of_spark_text(directory: Path) -> CompiledRoads:
    from runtime.spark.session import start_session
    from tests.fuzz.compiled_roads import SPARK_SETTINGS, run_on_spark

    # queries run once, so the optimizing compiler does not pay
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    conf = {
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.extraJavaOptions": java,
        **SPARK_SETTINGS,
    }
    spark = start_session("local[2]", conf)
    roads = CompiledRoads(directory, "spark", partial(run_on_spark, spark, directory))
    roads.n_shrinks = 60
    return roads


def _spark_roads(directory: Path) -> Roads:
    from runtime.spark.session import start_session
    from tests.fuzz.spark_roads import SparkRoads

    spark = start_session("local[2]", {"spark.sql.shuffle.partitions": "3"})
    return SparkRoads(directory, spark, streams=True, draws_ways=True)


def _histories(roads: Roads) -> Run:
    def run(number: int) -> tuple[str, Outcome]:
        before = roads.counts["histories"]
        fault = roads.check_histories(number, N_HISTORIES)
        kind = "fault" if fault else "rows" if roads.counts["histories"] > before else "spark"
        return "", Outcome(kind, fault or "")

    return run


def _queries(roads: Roads) -> Run:
    def run(number: int) -> tuple[str, Outcome]:
        before = roads.counts.copy()
        fault = roads.check(number)
        left = [kind for kind in ("spark", "limit") if roads.counts[kind] > before[kind]]
        kind = "fault" if fault else left[0] if left else "rows"
        return "", Outcome(kind, fault or "")

    return run


def _texts(roads: CompiledRoads) -> tuple[Run, Counter[str]]:
    queries = _queries(roads)

    def run(number: int) -> tuple[str, Outcome]:
        before = roads.refused.copy()
        _, outcome = queries(number)
        refused = roads.refused - before
        roads.counts.update({f"refused: {reason}": n for reason, n in refused.items()})
        return "", Outcome("refused", "") if refused and outcome.kind == "rows" else outcome

    return run, roads.counts


def _file(number: int, directory: Path) -> tuple[str, Outcome]:
    _, script, outcome = judge_file(number, directory)
    return script, outcome


def _where(outcome: Outcome) -> str:
    if outcome.cause is None:
        return ""
    frame = traceback.extract_tb(outcome.cause.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


if __name__ == "__main__":
    raise SystemExit(main())
