"""An engine in a process of its own: whatever memory it took is free again once it is closed.

And should memory run out, it is that process that the kernel ends, not the JVM and not this one.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class EngineFailed(RuntimeError):
    """An engine could not do what it was asked; the message is short enough for a table."""


@dataclass(frozen=True)
class Engine:
    """`run` computes all rows of the result; `digest` computes them and sums them up.

    `close` gives back what it holds.
    """

    run: Callable[[], object]
    digest: Callable[[], tuple[float, ...]]
    close: Callable[[], None] = lambda: None


def apart(make: Callable[[], Engine]) -> Engine:
    """The engine that `make`, which has to be picklable, makes in another process.

    Its functions raise `EngineFailed` where those of the other process raise anything, or where
    that process is gone.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, make), daemon=True)
    process.start()
    there.close()

    def ask(what: str) -> Any:
        try:
            here.send(what)
            error, answer = here.recv()
        except (EOFError, OSError):
            process.join()
            raise EngineFailed(f"ended by signal {-(process.exitcode or 0)}") from None
        if error is not None:
            raise EngineFailed(error)
        return answer

    def close() -> None:
        here.close()
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
    """The rows stay here."""


def _be_the_first_to_go() -> None:
    """Where Linux runs out of memory, it is to end this process."""
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000")
