"""A kill between any two writes to state does not change an operator's results.

State behaves as in Spark: the writes of a micro-batch count together when it is committed. A worker
that survives keeps the tables that the attempt cached; a new one has none. Results are compared
with an operator that is never killed, and with DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.state.table_cache import CACHE
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.marks import pairs
from tests.oracle import OracleWindow, expected
from tests.runtime.streaming.model import MS, SPANS_FROM_THE_START, MetadataReader, Stream
from tests.runtime.streaming.operators.changelog import Changelog
from tests.runtime.streaming.operators.test_session import GAP
from tests.runtime.streaming.operators.test_session import Stream as SessionStream
from tests.runtime.streaming.operators.test_shared import Shared

S = 1000 * MS
STEP = 5_000
N_BATCHES = 32
N_KILLS = 30
WINDOWS = {
    "tumble": (Tumble(10 * S), OracleWindow("TUMBLE", 10 * S)),
    "hop": (Hop(5 * S, 20 * S), OracleWindow("HOP", 20 * S, 5 * S)),
    "running": (Hop(5 * S, 80 * S), OracleWindow("HOP", 80 * S, 5 * S)),
    "cumulate": (Cumulate(5 * S, 60 * S), OracleWindow("CUMULATE", 60 * S, 5 * S)),
}
LATENESS = 30_000
RULES = {
    "early": UpdateRules(0, FireRule(delay_us=0), None),
    "late": UpdateRules(LATENESS * MS, None, None),
    "both": UpdateRules(LATENESS * MS, FireRule(rows=3), FireRule(rows=2)),
}

QUICK = (("tumble", "early"), ("running", "late"))

Row = tuple[str, int, int]


class Killed(BaseException):
    """Raised at the end of an attempt that is killed."""


@dataclass
class Transaction(MetadataReader):
    """State in which the writes of an attempt count once it is committed.

    Attributes:
        blobs: Committed blobs.
        left: Number of writes after which the attempt is killed. None: never.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    left: int | None = None
    _new: dict[str, bytes | None] = field(default_factory=dict)

    def get(self, name: str) -> bytes | None:
        return self._new[name] if name in self._new else self.blobs.get(name)

    def put(self, name: str, blob: bytes) -> None:
        self._write(name, blob)

    def remove(self, name: str) -> None:
        self._write(name, None)

    def _write(self, name: str, blob: bytes | None) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed
        self._new[name] = blob

    def commit(self) -> int:
        """Commit the writes and return their number."""
        n_writes = len(self._new)
        self.blobs.update({name: blob for name, blob in self._new.items() if blob is not None})
        for name in [name for name, blob in self._new.items() if blob is None]:
            self.blobs.pop(name, None)
        self._new.clear()
        return n_writes

    def abort(self) -> None:
        """Discard the writes."""
        self._new.clear()
        self.left = None


class Victim:
    """Attempts micro-batches until each one succeeds.

    Attributes:
        state: State of the operator.
        n_kills: Number of killed attempts.
    """

    def __init__(self, seed: int) -> None:
        self.state = Transaction()
        self.n_kills = 0
        self._random = np.random.default_rng(seed)
        self._n_writes = 3

    def through(self, attempt: Callable[[], Any]) -> Any:
        """Return the result of the attempt that is committed."""
        while True:
            if self._random.random() < 0.7:
                self.state.left = int(self._random.integers(self._n_writes + 1))
            try:
                result = attempt()
            except Killed:
                self.n_kills += 1
                self.state.abort()
                self._restart()
                continue
            self.state.left = None
            # everything was written, and it was killed before the commit
            if self._random.random() < 0.2:
                self.n_kills += 1
                self.state.abort()
                self._restart()
                continue
            self._n_writes = max(1, self.state.commit())
            return result

    def _restart(self) -> None:
        if self._random.random() < 0.5:
            CACHE.clear()


def batches(seed: int, back: int) -> Iterator[tuple[list[Row], int]]:
    """Return rows (key, ms, value) of micro-batches, at most `back` out of order, and watermarks."""
    random = np.random.default_rng(seed)
    for number in range(1, N_BATCHES + 1):
        now = number * STEP
        times = now - random.integers(0, back, 40)
        keys, values = random.integers(0, 6, 40), random.integers(-50, 50, 40)
        rows = [(f"k{k}", int(t), int(v)) for k, t, v in zip(keys, times, values, strict=True)]
        yield rows, now - back


def by_definition(window: OracleWindow, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return the windows of rows from DuckDB, times in ms."""
    keys, times, values = zip(*rows, strict=True)
    data = pa.table(
        {
            "key": pa.array(keys),
            "ts": pa.array(np.array(times, np.int64) * MS, pa.timestamp("us")),
            "v": pa.array(values),
        }
    )
    result = expected(data, window, ["key"], ["COUNT(*)", "SUM(v)", "MAX(v)"])
    return sorted((k, s // MS, e // MS, *rest) for k, s, e, *rest in result)


@pytest.mark.variants(2)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_are_emitted_once_and_complete(kind: str) -> None:
    window, oracle = WINDOWS[kind]
    victim = Victim(1)
    stream = Stream(window, store=victim.state, thresholds=SPANS_FROM_THE_START)
    other = Stream(window, thresholds=SPANS_FROM_THE_START)
    rows, emitted, n_running = [], [], 0
    for some, watermark in batches(2, back=STEP):
        rows += some
        result = victim.through(lambda: stream.micro_batch(some, watermark))  # noqa: B023
        assert result == other.micro_batch(some, watermark)
        emitted += result
        n_running += bool(victim.state.contents.slices.spans)
    emitted += victim.through(stream.end)
    assert sorted(emitted) == by_definition(oracle, rows)
    assert set(victim.state.blobs) == {"metadata"}
    assert victim.n_kills >= N_KILLS
    assert (n_running > N_BATCHES // 2) == (kind == "running")


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("kind", "rules"),
    pairs(WINDOWS, RULES, long=[each for each in product(WINDOWS, RULES) if each not in QUICK]),
)
def test_changed_results_are_retracted_once(kind: str, rules: str) -> None:
    window, oracle = WINDOWS[kind]
    victim, log = Victim(3), Changelog()
    updates = RULES[rules]
    stream = Stream(window, updates=updates, store=victim.state, thresholds=SPANS_FROM_THE_START)
    other = Stream(window, updates=updates, thresholds=SPANS_FROM_THE_START)
    rows: list[Row] = []
    back = STEP + (LATENESS - STEP if updates.allowed_lateness_us else 0)
    for clock, (some, watermark) in enumerate(batches(4, back)):
        # rows behind the watermark, within the lateness
        ahead = watermark + back - STEP
        rows += some
        result = victim.through(lambda: stream.micro_batch(some, ahead, clock=clock))  # noqa: B023
        assert result == other.micro_batch(some, ahead, clock=clock)
        log.take(result)
    log.take(victim.through(stream.end))
    assert sorted((*name, *values) for name, values in log.rows.items()) == by_definition(
        oracle, rows
    )
    assert set(victim.state.blobs) == {"metadata"}
    assert victim.n_kills >= N_KILLS


@pytest.mark.long
def test_readers_of_shared_slices_get_their_windows_once() -> None:
    kinds = ("tumble", "running", "cumulate")
    victim, n_running = Victim(5), 0
    shared, other = (
        Shared(*(WINDOWS[kind][0] for kind in kinds), thresholds=SPANS_FROM_THE_START)
        for _ in range(2)
    )
    shared.store = victim.state
    rows: list[Row] = []
    emitted: list[list[Any]] = [[] for _ in kinds]
    for some, watermark in batches(6, back=STEP):
        rows += some
        result = victim.through(lambda: shared.micro_batch(some, watermark))  # noqa: B023
        assert result == other.micro_batch(some, watermark)
        for item, new in zip(emitted, result, strict=True):
            item += new
        n_running += bool(victim.state.spans(reader=1))
    for kind, item, last in zip(kinds, emitted, victim.through(shared.end), strict=True):
        assert sorted(item + last) == by_definition(WINDOWS[kind][1], rows)
    assert set(victim.state.blobs) == {"metadata"}
    assert victim.n_kills >= N_KILLS
    assert n_running > N_BATCHES // 2


def test_sessions_are_emitted_once_and_complete() -> None:
    victim = Victim(7)
    stream, other = SessionStream(store=victim.state), SessionStream()
    random = np.random.default_rng(8)
    rows: list[tuple[str, str, int, int]] = []
    emitted: set[tuple[Any, ...]] = set()
    for number in range(1, N_BATCHES + 1):
        now = number * 4 * GAP
        # rows of some of many keys, so that sessions of all lengths are open
        keys = random.choice(40, 6, replace=False)
        some = [
            (f"k{key}", "p", now - int(at), int(at) % 7)
            for key in keys
            for at in random.integers(0, 3 * GAP, 4)
        ]
        rows += some
        result = victim.through(lambda: stream.micro_batch(some, now - 3 * GAP))  # noqa: B023
        assert result == other.micro_batch(some, now - 3 * GAP)
        assert not emitted & result
        emitted |= result
    emitted |= victim.through(lambda: stream.micro_batch([], "end"))
    assert emitted == set(sessions(rows))
    assert victim.n_kills >= N_KILLS


def sessions(rows: list[tuple[str, str, int, int]]) -> Iterator[tuple[Any, ...]]:
    """Yield (key, page, start, end, n, largest) of rows that follow each other within the gap."""
    kept: dict[str, list[list[tuple[str, str, int, int]]]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        of_key = kept.setdefault(row[0], [])
        if of_key and row[2] - of_key[-1][-1][2] <= GAP:
            of_key[-1].append(row)
        else:
            of_key.append([row])
    for key, result in kept.items():
        for item in result:
            times, values = [row[2] for row in item], [row[3] for row in item]
            yield key, "p", min(times), max(times) + GAP, len(item), max(values)


def test_other_windows_resume_from_committed_state() -> None:
    wide, narrow = WINDOWS["running"][0], Hop(5 * S, 40 * S)
    victim = Victim(9)
    stream = Stream(wide, store=victim.state, thresholds=SPANS_FROM_THE_START)
    rows, emitted, cut = [], [], None
    for number, (some, watermark) in enumerate(batches(10, back=STEP)):
        rows += some
        if number == N_BATCHES // 2:
            cut = max(row[2] for row in emitted)
            # a start with other windows that dies before its first commit changes nothing
            victim.state.left = 1
            doomed = Stream(
                narrow, store=victim.state, generation=1, thresholds=SPANS_FROM_THE_START
            )
            with pytest.raises(Killed):
                doomed.micro_batch(some, watermark)
            victim.state.abort()
            CACHE.clear()
            assert victim.state.contents.slices.generation == 0
            stream = Stream(
                narrow, store=victim.state, generation=1, thresholds=SPANS_FROM_THE_START
            )
        emitted += victim.through(lambda: stream.micro_batch(some, watermark))  # noqa: B023
    emitted += victim.through(stream.end)
    assert cut is not None
    before = [row for row in by_definition(WINDOWS["running"][1], rows) if row[2] <= cut]
    after = by_definition(OracleWindow("HOP", 40 * S, 5 * S), rows)
    assert sorted(emitted) == sorted([*before, *(row for row in after if row[2] > cut)])
    assert set(victim.state.blobs) == {"metadata"}
    assert victim.n_kills >= N_KILLS
