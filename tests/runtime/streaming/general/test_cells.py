"""Cells follow the size of the state: large ones split, small halves join, results stay the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.kernels.keys import bucket_of
from runtime.streaming.general.assigners import AlignedAssigner, SessionAssigner
from runtime.streaming.general.operator import WindowJob
from runtime.streaming.general.timers import Timers
from runtime.streaming.general.windows import TimeWindow
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.cells import (
    Cell,
    Cells,
    n_positions,
)
from runtime.streaming.state.split import Split, split_group
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.operators.test_general import VALUES, Group
from tests.runtime.streaming.state.test_split import signed_blobs

MS = 1_000
N_POSITIONS = n_positions(1)
SESSIONS = WindowJob(SessionAssigner(50 * MS), VALUES)
JOBS = {"tumble": WindowJob(AlignedAssigner(Tumble(40 * MS)), VALUES), "session": SESSIONS}


def place(key: str) -> int:
    return int(bucket_of([pa.array([key])], 1, N_POSITIONS)[0])


def group(job: WindowJob, cell_bytes: int) -> Group:
    created_group = Group(job, delay=30)
    spec = created_group._spec
    created_group._spec = replace(spec, n_positions=N_POSITIONS, cell_bytes=cell_bytes)
    created_group.position = place
    return created_group


def cells(of: Group) -> list[Cell]:
    return [Cell(cell.number, cell.of) for cell in of.store.contents.cells]


def rows_of(random: Random, at: int, n_keys: int, n_rows: int = 40) -> list[tuple[str, int, int]]:
    keys = [f"k{random.randrange(n_keys)}" for _ in range(n_rows)]
    return [(key, at + random.randrange(-40, 20), random.randrange(99)) for key in keys]


@pytest.mark.parametrize("name", JOBS)
def test_split_cells_give_the_same_results(name: str) -> None:
    few, cut, random = group(JOBS[name], 1 << 30), group(JOBS[name], 6_000), Random(3)
    most = 0
    for number in range(30):
        # many keys for a while, and then few
        rows = rows_of(random, number * 10, *((600, 100) if number < 15 else (3, 5)))
        progress = few.progress(rows)
        assert cut.batch(rows, progress=progress) == few.batch(rows, progress=progress)
        assert cut.status is not None and few.status is not None
        assert cut.status.n_late == few.status.n_late
        assert cut.status.n_rows == few.status.n_rows
        assert cut.status.next_window_end_us == few.status.next_window_end_us
        assert set(cut.store.blobs) == {METADATA, *(cell.blob for cell in cells(cut))}
        most = max(most, len(cells(cut)))
    assert most > 4
    assert cells(cut) == cells(few) == [Cell(0, 1)]
    assert cut.end() == few.end()
    assert set(cut.store.blobs) == {METADATA}


def test_a_row_costs_the_same_for_any_number_of_keys() -> None:
    cut = group(WindowJob(SessionAssigner(10_000 * MS), VALUES), 4_000)
    for start in range(0, 1_000, 100):
        cut.batch([(f"k{key}", 0, 1) for key in range(start, start + 100)])
    before = dict(cut.store.blobs)
    cut.batch([("k7", 1, 1)])
    written = [name for name, blob in cut.store.blobs.items() if before.get(name) != blob]
    assert sum(len(cut.store.blobs[name]) for name in written if name != METADATA) < 4_000
    assert sum(map(len, cut.store.blobs.values())) > 40_000


def test_keys_of_one_position_stay_together() -> None:
    cut = group(SESSIONS, 100)
    cut.position = lambda key: 5
    cut.batch([(f"k{key}", 0, 1) for key in range(20)])
    assert cells(cut) == [Cell(0, 1)]


@pytest.mark.parametrize("cell_bytes", [1_500, 1 << 20])
@pytest.mark.parametrize("into", [1, 2, 8])
def test_a_rescaled_checkpoint_has_the_cells_or_their_keys(into: int, cell_bytes: int) -> None:
    random = Random(8)
    whole = group(SESSIONS, cell_bytes)
    for number in range(4):
        whole.batch(rows_of(random, number * 10, 300))
    assert (len(cells(whole)) > 8) == (cell_bytes < 1 << 20)
    parts = []
    split = Split(n_groups=1, into=into)
    assert whole.store.metadata.by is None
    for blobs in split_group(signed_blobs(whole.store, ("k",)), 0, split):
        part = group(SESSIONS, cell_bytes)
        part._spec = replace(part._spec, n_positions=N_POSITIONS // into)
        part.store.blobs = dict(blobs)
        parts.append(part)
    rows = rows_of(random, 60, 300)
    progress = whole.progress(rows)
    expected = [*whole.batch(rows, progress=progress), *whole.end()]
    result = []
    for number, part in enumerate(parts):
        own = [row for row in rows if place(row[0]) * into // N_POSITIONS == number]
        result += [*part.batch(own, progress=progress), *part.end()]
    assert sorted(result, key=repr) == sorted(expected, key=repr)


def test_a_position_is_in_the_largest_cell_that_overlaps_no_other() -> None:
    existing = [Cell(0, 2), Cell(5, 8)]
    cells = Cells(existing, 16)
    number, of = cells.cells_of(np.arange(16))
    result = [Cell(*item) for item in zip(number.tolist(), of.tolist(), strict=True)]
    assert result == [Cell(0, 2)] * 8 + [Cell(4, 8)] * 2 + [Cell(5, 8)] * 2 + [Cell(3, 4)] * 4
    assert Cell(3, 4).blob == "c3/4"
    assert (cells.has_parts(Cell(1, 2)), cells.has_parts(Cell(0, 2))) == (True, False)


@pytest.mark.parametrize("n_groups", [1, 2, 4, 7, 96, 1 << 16, 3 << 14])
def test_positions_stay_when_key_groups_are_cut(n_groups: int) -> None:
    every = n_positions(n_groups)
    assert 1 << 29 <= every <= 1 << 30 and every % n_groups == 0
    assert n_positions(2 * n_groups) == every


def test_deleted_timers_leave_no_state() -> None:
    timers = Timers()
    owners = [(f"k{number}", TimeWindow(0, 10)) for number in range(500)]
    for owner in owners:
        timers.set(10, owner)
        timers.forget(10, owner)
        timers.set(11, owner)
    assert len(timers._queue) == 1_000
    for owner in owners[1:]:
        timers.forget(11, owner)
    assert len(timers._queue) < 100
    timers.tidy()
    assert len(timers._queue) == 1
    assert list(timers.due(20)) == [(11, owners[0])]


def test_a_timer_deleted_and_set_again_fires_once() -> None:
    timers = Timers()
    one, other = ("a", TimeWindow(0, 1)), ("b", TimeWindow(0, 1))
    for owner in (one, other):
        timers.set(5, owner)
    timers.forget(5, one)
    timers.set(5, one)
    timers.tidy()
    assert timers.next_us == 5
    assert list(timers.due(5)) == [(5, one), (5, other)]
    assert timers.next_us is None
