"""Outages of brokers and databases: how long a stream retries, and the notes about it.

Whoever retries, in this process or in a task, keeps a file with the reason in a directory of the
stream on this machine; SHOW STREAMS reads it. Tasks on other machines retry without a note.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

SETTING = "sqlwin.retry-timeout"
# Seconds without an answer after which a wait is an outage
_NOTICED_S = 2.0
# Age of a note after which its process must have been killed
_FORGOTTEN_S = 15.0


@dataclass(frozen=True)
class Retries:
    """How a stream retries while a broker or a database is away.

    Attributes:
        seconds: Maximum duration of an outage.
        directory: Directory of the notes about outages.
    """

    seconds: float
    directory: str

    @property
    def hint(self) -> str:
        """Hint for the error after the last retry."""
        return f"'{SETTING}' is {self.seconds:g} s; run the statement again once it can be reached"


class Outage:
    """Wait for a broker or a database, which becomes an outage after some seconds.

    Args:
        retries: Retries of the stream. None outside of streams, where nothing is noted.
        table: Table that is read or written.
    """

    def __init__(self, retries: Retries | None, table: str) -> None:
        self._retries = retries
        self._table = table
        self._since: float | None = None
        self._path: Path | None = None

    def goes_on(self, reason: str) -> float:
        """Record that there is still no answer, and return for how many seconds."""
        now = time.time()
        if self._since is None:
            self._since = now
        seconds = now - self._since
        if self._retries is not None and seconds >= _NOTICED_S:
            self._note(self._retries, reason, self._since)
        return seconds

    def _note(self, retries: Retries, reason: str, since: float) -> None:
        note = {"table": self._table, "reason": reason, "since": since, "most": retries.seconds}
        with suppress(OSError):  # a task on another machine
            if self._path is None:
                self._path = Path(retries.directory) / f"{os.getpid()}-{uuid4().hex}.json"
            hidden = self._path.with_suffix(".tmp")
            hidden.write_text(json.dumps(note))
            hidden.replace(self._path)

    def is_over(self) -> None:
        """Record an answer, or the end of the retries."""
        self._since = None
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            self._path = None


def outages_text(directory: str) -> str:
    """Return the present outages of a stream, or an empty text."""
    texts: list[str] = []
    if not directory:
        return ""
    now = time.time()
    for path in sorted(Path(directory).glob("*.json")):
        with suppress(OSError, ValueError):  # it is over
            if now - path.stat().st_mtime > _FORGOTTEN_S:
                continue
            note = json.loads(path.read_text())
            waited, most = f"{now - note['since']:.0f} s", f"{note['most']:g} s"
            texts.append(
                f"`{note['table']}`: {note['reason']}; retrying for {waited}, at most {most}"
            )
    return "; ".join(dict.fromkeys(texts))
