"""Trace the queries that ARCHITECTURE.md walks from text to rows: `python -m tests.docs.walks`.

Each query runs in this process and in Spark's Python workers with a profile function that records
the first call of every function of the three packages, and the data classes that are made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("sqlwin", "planner", "runtime")
WALKS = ("batch", "stream")
# A function named in a walk: path and qualified name
NAMED = re.compile(r"`([\w/]+\.py):([\w.]+)`")

HOP = """
SELECT carrier, window_end, SUM(dep_delay) AS delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTE, INTERVAL '1' HOUR))
GROUP BY carrier, window_start, window_end"""
TABLES = """
CREATE TABLE flights (
  carrier STRING, sched_dep TIMESTAMP(3), dep_delay INT,
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '1' HOUR
) WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{0}/flights');
CREATE TABLE delays (carrier STRING, window_end TIMESTAMP(3), delay BIGINT)
WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{0}/delays');
SET 'sqlwin.in-process.max-bytes' = '0'"""

Function = tuple[str, str]


def named_functions(walk: str) -> list[Function]:
    """Return the functions that a walk of ARCHITECTURE.md names: path and qualified name."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition(f"## The walk of a {walk}")[2].partition("\n## ")[0]
    return [(path, name) for path, name in NAMED.findall(section)]


class Tracer:
    """Records first calls and new data classes of a process and its forks in a file.

    Args:
        side: `driver` or `tasks`.
        file: File of JSON lines: side, kind (`call`, `made` or `passed`), name.
    """

    def __init__(self, side: str, file: str) -> None:
        self._side, self._file = side, file
        self._seen: set[tuple[str, object]] = set()
        self._named = {function for walk in WALKS for function in named_functions(walk)}

    def start(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _profile(self, frame: FrameType, event: str, value: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        function = function_of(code)
        if function is not None:
            self._record("call", function)
            if function in self._named:
                values = frame.f_locals.values() if event == "call" else [value]
                for one in values:
                    if (name := data_class(one)) is not None:
                        self._record("passed", name)
        elif event == "call" and code.co_name == "__init__" and code.co_filename == "<string>":
            if (name := data_class(frame.f_locals.get("self"))) is not None:
                self._record("made", name)

    def _record(self, kind: str, name: object) -> None:
        if (kind, name) not in self._seen:
            self._seen.add((kind, name))
            line = f"{json.dumps([self._side, kind, name])}\n".encode()
            # one write, so that lines of several processes do not mix
            file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, line)
            os.close(file)


def function_of(code: CodeType) -> Function | None:
    """Return the function of the three packages that has this code, or None."""
    path = code.co_filename.removeprefix(f"{ROOT}/")
    if path.split("/")[0] not in PACKAGES or code.co_name.startswith("<"):
        return None
    return path, code.co_qualname


def data_class(value: object) -> str | None:
    """Return the name of the data class of a value if it is one of the three packages', or None."""
    class_ = type(value)
    is_own = class_.__module__.split(".")[0] in PACKAGES and is_dataclass(class_)
    return f"{class_.__module__}.{class_.__qualname__}" if is_own else None


@dataclass(frozen=True)
class Trace:
    """Trace of a query.

    Attributes:
        n_rows: Number of rows of its result.
        lines: Side, kind and name, in order of first occurrence.
    """

    n_rows: int
    lines: tuple[tuple[str, str, str | Function], ...]

    def functions(self, side: str) -> list[Function]:
        """Return the functions of a side in the order of their first calls."""
        return [tuple(name) for name in self._names(side, "call")]  # type: ignore[misc]

    def classes(self, side: str, kind: str) -> list[str]:
        """Return the data classes that a side made, or passed between named functions."""
        return [str(name) for name in self._names(side, kind)]

    def _names(self, side: str, kind: str) -> Iterator[str | Function]:
        names = [name for one, other, name in self.lines if (one, other) == (side, kind)]
        yield from dict.fromkeys(tuple(name) if isinstance(name, list) else name for name in names)


def trace(walk: str) -> Trace:
    """Run the query of a walk with a Spark of its own and trace it."""
    directory = tempfile.mkdtemp()
    file = f"{directory}/trace.jsonl"
    os.environ["SQLWIN_WALK"] = file
    os.environ["PYTHONPATH"] = f"{Path(__file__).with_name('tracing')}:{ROOT}"
    import pyarrow.parquet as pq

    import sqlwin

    Path(directory, "flights").mkdir()
    flights = pq.read_table(ROOT / "queries/data/flights.parquet")
    # tracing takes a multiple of the time: some weeks do
    pq.write_table(flights.slice(0, 20_000), f"{directory}/flights/0.parquet")
    tracer = Tracer("driver", file)
    try:
        with sqlwin.connect(
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        ) as session:
            session.execute(TABLES.format(directory))
            session.spark.range(1).count()
            run: Callable[[], int] = {
                "batch": lambda: run_batch(session),
                "stream": lambda: run_stream(session),
            }[walk]
            tracer.start()
            try:
                n_rows = run()
            finally:
                tracer.stop()
        return Trace(n_rows, tuple(map(tuple, map(json.loads, Path(file).open()))))  # type: ignore[arg-type]
    finally:
        shutil.rmtree(directory)


def run_batch(session: Any) -> int:
    (result,) = session.execute(HOP)
    return sum(batch.num_rows for batch in result.batches())


def run_stream(session: Any) -> int:
    session.execute("SET 'execution.runtime-mode' = 'streaming'")
    # its input is bounded, so it has ended
    (result,) = session.execute(f"INSERT INTO delays {HOP}")
    return int(result.row_count)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--json"]:
        traced = trace(arguments[1])
        print(json.dumps({side: traced.functions(side) for side in ("driver", "tasks")}))
        return
    if not arguments:
        # workers inherit the environment of the first Spark of a process
        for walk in WALKS:
            subprocess.run([sys.executable, "-m", "tests.docs.walks", walk], check=True)
        return
    for walk in arguments:
        traced = trace(walk)
        named = named_functions(walk)
        print(f"{walk}: {traced.n_rows} rows; {len(named)} functions named")
        for side in ("driver", "tasks"):
            functions = traced.functions(side)
            passed, made = (traced.classes(side, kind) for kind in ("passed", "made"))
            print(
                f"  {side}: {sum(function in functions for function in named)} named functions "
                f"that pass {len(passed)} data classes; in all {len(functions)} functions in "
                f"{len({path for path, _ in functions})} modules, {len(made)} data classes made"
            )
            print(f"    passed: {', '.join(name.rpartition('.')[2] for name in passed)}")
            order = [function for function in functions if function in named]
            expected = [function for function in named if function in functions]
            if order != expected:
                print(f"    called in another order: {order}")
        everything = {*traced.functions("driver"), *traced.functions("tasks")}
        print(f"  not called: {[function for function in named if function not in everything]}")
        for path, name in traced.functions("driver") if os.environ.get("ALL") else ():
            print("  driver", path, name)
        for path, name in traced.functions("tasks") if os.environ.get("ALL") else ():
            print("  tasks", path, name)


if __name__ == "__main__":
    main()
