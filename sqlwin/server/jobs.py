"""The thread of a client, and the Spark jobs that its statements start."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar

from runtime.spark.jobs import begin_group, cancel_until, running_tasks
from sqlwin.control import SessionControl
from sqlwin.session import Session

T = TypeVar("T")

LOG = logging.getLogger("sqlwin.server")
# Seconds after which tasks of a cancelled statement are reported
_PATIENCE_S = 5.0
_POLL_S = 0.2
_groups = count(1)


class Pools:
    """Names of the scheduler's pools. Spark never forgets a pool, so later clients use it again."""

    def __init__(self) -> None:
        self._used: set[int] = set()

    def take(self) -> int:
        """Return the number of a pool that no client uses."""
        number = next(number for number in count(1) if number not in self._used)
        self._used.add(number)
        return number

    def give_back(self, number: int) -> None:
        """Let another client use a pool."""
        self._used.discard(number)


class ClientJobs:
    """Runs the statements of a client one after the other in a thread of its own.

    Their Spark jobs are in a pool of the client, so that they get a share of the task slots.

    Args:
        session: Session of the statements.
        control: Its control.
        pools: Pools of all clients.
        warn: Function that tells the client something, called in any thread.
    """

    def __init__(
        self, session: Session, control: SessionControl, pools: Pools, warn: Callable[[str], None]
    ) -> None:
        self._session = session
        self._control = control
        self._pools = pools
        self._warn = warn
        self._pool = pools.take()
        self._group = self._new_group()
        self._cancelled = threading.Event()
        self._cancelled.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlwin-client")

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work after the statement that runs now."""
        return self._thread.submit(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work. Cancelling it cancels all jobs of the client."""
        future = self._thread.submit(self._run_in_group, work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._cancel(future)
            raise

    def close(self) -> None:
        """Let the thread end after its work."""
        self._thread.submit(self._pools.give_back, self._pool)
        self._thread.shutdown(wait=False)

    def _run_in_group(self, work: Callable[[], T]) -> T:
        # a late cancellation of the last statement would cancel this one
        self._cancelled.wait()
        if self._control.has_spark:
            begin_group(self._session.spark, self._group, f"sqlwin-{self._pool}")
        return work()

    def _new_group(self) -> str:
        return f"sqlwin-client-{next(_groups)}"

    def _cancel(self, future: Future[Any]) -> None:
        if not self._control.has_spark:
            return
        group, self._group = self._group, self._new_group()
        self._cancelled.clear()
        threading.Thread(target=self._end_jobs, args=(group, future.done), daemon=True).start()

    def _end_jobs(self, group: str, is_over: Callable[[], bool]) -> None:
        """Cancel the jobs of a group, and report tasks that do not end."""
        spark, begun = self._session.spark, time.monotonic()
        try:
            cancel_until(spark, group, is_over)
        finally:
            self._cancelled.set()

        def seconds() -> float:
            return time.monotonic() - begun

        while running_tasks(spark, group) and seconds() < _PATIENCE_S:
            time.sleep(_POLL_S)
        n_tasks = running_tasks(spark, group)
        if not n_tasks:
            return
        tasks = "1 task" if n_tasks == 1 else f"{n_tasks} tasks"
        text = f"a query was cancelled, but {tasks} of it did not end within {_PATIENCE_S:.0f} s"
        self._warn(f"{text}: until then they take task slots")
        LOG.warning("%s", text)
        while running_tasks(spark, group):
            time.sleep(_POLL_S)
        LOG.warning("the tasks of the cancelled query ended after %.0f s", seconds())
