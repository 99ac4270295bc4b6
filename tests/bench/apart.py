"""Run an engine in its own process, so that its memory is free again once it is closed.

If memory runs out, the kernel kills that process instead of the JVM or this one.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class EngineFailed(RuntimeError):
    """An engine failed. The message is short enough for a table."""


@dataclass(frozen=True)
class Engine:
    """`run` computes all rows of the result. `digest` computes them and returns aggregates of them.

    `close` releases its memory and files.
    """

    run: Callable[[], object]
    digest: Callable[[], tuple[float, ...]]
    close: Callable[[], None] = lambda: None


def apart(make: Callable[[], Engine]) -> Engine:
    """Return an engine that `make`, a picklable function, creates in another process.

    Its functions raise `EngineFailed` if the other process raises an exception or dies.
    """
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_serve, args=(child_end, make), daemon=True)
    process.start()
    child_end.close()

    def ask(what: str) -> Any:
        try:
            parent_end.send(what)
            error, answer = parent_end.recv()
        except (EOFError, OSError):
            process.join()
            raise EngineFailed(f"ended by signal {-(process.exitcode or 0)}") from None
        if error is not None:
            raise EngineFailed(error)
        return answer

    def close() -> None:
        parent_end.close()
        process.join()

    return Engine(lambda: ask("run"), lambda: ask("digest"), close)


def _serve(connection: Connection, make: Callable[[], Engine]) -> None:
    _be_the_first_to_go()
    engine = make()
    while True:
        try:
            what = connection.recv()
        except EOFError:
            return
        try:
            answer = engine.digest() if what == "digest" else _nothing(engine.run())
        except Exception as error:
            connection.send((type(error).__name__, None))
        else:
            connection.send((None, answer))


def _nothing(_: object) -> None:
    """Return nothing: the rows stay in this process."""


def _be_the_first_to_go() -> None:
    """Ask Linux to kill this process first if memory runs out."""
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000")
