"""Time the answers of a server to many clients, alone and while heavy queries run.

`python -m tests.bench.serve`. One client runs a join that takes minutes, one runs the same join and
cancels it again and again, and the others ask one question after the other. Answers are compared
before their time counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles

import psycopg

from tests.sqlwin.server.load import HEAVY, QUESTIONS, connect, serve_command

# Seconds for which the join runs before it is cancelled
_HEAVY_S = 3.0


def ask(port: int, end: float) -> dict[str, list[float]]:
    """Return the seconds of each answer to a client until a time, by kind of question."""
    seconds: dict[str, list[float]] = defaultdict(list)
    with connect(port) as client:
        while time.monotonic() < end:
            for kind, (question, answer) in QUESTIONS.items():
                started = time.perf_counter()
                rows = client.execute(question).fetchall()
                seconds[kind].append(time.perf_counter() - started)
                if rows != answer:
                    raise AssertionError(f"{kind}: {rows} instead of {answer}")
    return seconds


def run_heavy(client: psycopg.Connection[object]) -> None:
    """Run the join until it is cancelled."""
    try:
        client.execute(HEAVY)
    except psycopg.errors.QueryCanceled:
        return


def cancel_again_and_again(port: int, end: float) -> int:
    """Run the join and cancel it until a time, and return how often."""
    n_cancelled = 0
    with connect(port) as client:
        while time.monotonic() < end:
            timer = threading.Timer(_HEAVY_S, client.cancel_safe)
            timer.start()
            run_heavy(client)
            timer.join()
            n_cancelled += 1
    return n_cancelled


def measure(port: int, n_clients: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of all answers by kind of question."""
    end = time.monotonic() + seconds
    merged: dict[str, list[float]] = defaultdict(list)
    with ThreadPoolExecutor(n_clients) as pool:
        for answers in list(pool.map(lambda _: ask(port, end), range(n_clients))):
            for kind, times in answers.items():
                merged[kind] += times
    return merged


def report(title: str, seconds: dict[str, list[float]]) -> None:
    """Print the figures of each kind of question."""
    load = os.getloadavg()[0]
    print(f"\n{title}; load average {load:.1f} on {os.cpu_count()} cores")
    print(f"{'question':<12} {'answers':>8} {'p50 s':>8} {'p99 s':>8} {'most s':>8}")
    for kind, times in seconds.items():
        parts = quantiles(times, n=100, method="inclusive")
        print(f"{kind:<12} {len(times):>8} {parts[49]:>8.3f} {parts[98]:>8.3f} {max(times):>8.3f}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    n_others = options.clients - 2
    with (
        tempfile.TemporaryDirectory() as directory,
        serve_command(Path(directory)) as port,
        ThreadPoolExecutor(2) as pool,
        connect(port) as heavy,
    ):
        measure(port, 1, 1.0)  # Spark starts
        report("one client", measure(port, 1, options.seconds / 3))
        report(f"{n_others} clients", measure(port, n_others, options.seconds))
        running = pool.submit(run_heavy, heavy)
        cancelling = pool.submit(cancel_again_and_again, port, time.monotonic() + options.seconds)
        figures = measure(port, n_others, options.seconds)
        state = "has ended" if running.done() else "still runs"
        title = f"{n_others} clients, a join that {state}"
        heavy.cancel_safe()
        report(f"{title}, {cancelling.result()} cancelled joins", figures)
        running.result()


if __name__ == "__main__":
    main()
