"""Which rows of the second table of a hybrid table count, at the bounds of the overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from runtime.connectors.hybrid import overlap as module
from runtime.connectors.hybrid.overlap import Overlap
from runtime.spec.source import SplitReader
from runtime.spec.table import Column

FROM_US, NEWEST_US = 1_000, 2_000
TIME, KEYS = Column("ts", "timestamp_ntz"), (Column("a", "int"), Column("b", "string"))


def rows(*values: tuple[int | None, int | None, str | None]) -> pa.RecordBatch:
    times, a, b = zip(*values, strict=True)
    columns = [
        pa.array(times, pa.timestamp("us")),
        pa.array(a, pa.int32()),
        pa.array(b, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["ts", "a", "b"])


@dataclass(frozen=True)
class FirstTable(SplitReader):
    """The first table; each split is one of its rows."""

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            time, a, b = split.split()
            yield rows((int(time), int(a), b))


@pytest.fixture(autouse=True)
def forgotten_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_read_keys", {})


def counted(history: Sequence[str], *then: tuple[int | None, int | None, str | None]) -> list[int]:
    """Return the places of the rows that count."""
    of = Overlap(TIME, KEYS, FROM_US, NEWEST_US, tuple(history), FirstTable())
    numbered = rows(*then).append_column("place", pa.array(range(len(then))))
    return of.rows_that_count(numbered).column("place").to_pylist()


def test_rows_before_the_overlap_belong_to_the_history() -> None:
    assert counted(["2000 9 x"], (999, 1, "x"), (1_000, 1, "x"), (1_001, 1, "x")) == [1, 2]


def test_rows_with_a_key_of_the_overlap_are_in_the_history() -> None:
    history = ["1000 1 x", "2000 2 x"]
    then = [(1_000, 1, "x"), (2_000, 1, "x"), (1_500, 2, "x"), (1_500, 1, "y"), (1_500, 2, "y")]
    assert counted(history, *then) == [3, 4]


def test_keys_before_the_overlap_do_not_matter() -> None:
    assert counted(["999 1 x", "2000 2 x"], (1_500, 1, "x"), (1_500, 2, "x")) == [0]


def test_later_rows_count_even_with_a_known_key() -> None:
    assert counted(["2000 1 x"], (2_000, 1, "x"), (2_001, 1, "x")) == [1]


def test_rows_without_a_time_or_a_key_count() -> None:
    assert counted(["2000 1 x"], (None, 1, "x"), (1_500, None, "x"), (1_500, 1, None)) == [0, 1, 2]


class Floats(SplitReader):
    """A first table with keys of type FLOAT."""

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        yield floats(0.0, float("nan"))


def floats(*keys: float) -> pa.RecordBatch:
    times = pa.array([1_500] * len(keys), pa.timestamp("us"))
    return pa.record_batch({"ts": times, "a": pa.array(keys, pa.float32())})


def test_zeros_and_nans_are_equal_keys_as_in_a_batch() -> None:
    of = Overlap(TIME, (Column("a", "float"),), FROM_US, NEWEST_US, ("0",), Floats())
    then = floats(-0.0, float("nan"), 1.0)
    assert of.rows_that_count(then).column("a").to_pylist() == [1.0]
