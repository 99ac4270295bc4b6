"""Retries of a stream while a database is unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.connectors.postgres.database import DatabaseAwayError
from runtime.options.checks import option_values
from runtime.outages import Outage, Retries
from runtime.spec.table import TableSpec

# Seconds before the first retry. Each retry waits twice as long as the one before, up to the most.
_FIRST_WAIT_S, _MAX_WAIT_S = 0.5, 8.0


@dataclass(frozen=True)
class AwayLimit:
    """Limit of retries: a number of them, or the duration of an outage.

    Attributes:
        max_retries: Maximum number of retries. None: the duration counts.
        retries: Retries of the stream.
    """

    max_retries: int | None = 3
    retries: Retries | None = None

    @classmethod
    def of(cls, spec: TableSpec, option: str, retries: Retries | None) -> AwayLimit:
        """Return the limit for a table, whose option may set a number of retries."""
        number = option_values(spec).get(option)
        if number is None and retries is not None:
            return cls(None, retries)
        return cls(3 if number is None else int(number), retries)

    @contextmanager
    def wait(self, spec: TableSpec) -> Iterator[Callable[[DatabaseAwayError], None]]:
        """Provide a function that waits before the next attempt, or raises the error.

        Args:
            spec: Table for notes about the outage.
        """
        outage = Outage(self.retries, spec.name)
        attempt = 0

        def wait(error: DatabaseAwayError) -> None:
            nonlocal attempt
            seconds = outage.goes_on(error.message)
            wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2**attempt)
            if self.max_retries is not None:
                if attempt >= self.max_retries:
                    raise error
            elif self.retries is not None and seconds >= self.retries.seconds:
                error.hint = self.retries.hint
                raise error
            attempt += 1
            time.sleep(wait_s)

        try:
            yield wait
        finally:
            outage.is_over()
