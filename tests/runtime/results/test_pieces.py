"""Batches are split by bytes, not by rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.results.pieces import pieces


def batch(*texts: str) -> pa.RecordBatch:
    lists = pa.array([[text] for text in texts], pa.list_(pa.string()))
    return pa.record_batch([pa.array(texts, pa.string()), lists], ["s", "l"])


@pytest.mark.parametrize("most_bytes", [1, 50, 200, 10_000])
def test_pieces_have_the_rows_in_order_within_the_limit(most_bytes: int) -> None:
    rows = [batch(*("x" * (i % 7) for i in range(40))), batch(), batch("y"), batch("z" * 90, "")]
    cut = list(pieces(rows, most_bytes))
    assert pa.Table.from_batches(cut) == pa.Table.from_batches(rows)
    assert all(piece.num_rows for piece in cut)
    assert all(piece.num_rows == 1 or piece.nbytes <= most_bytes for piece in cut)


def test_a_large_row_is_a_piece_of_its_own() -> None:
    rows = batch(*["a"] * 50, "b" * 10_000, *["c"] * 50)
    cut = list(pieces([rows], 2_000))
    assert pa.Table.from_batches(cut) == pa.Table.from_batches([rows])
    assert [piece.num_rows for piece in cut if piece.nbytes > 2_000] == [1]


def test_small_batches_are_not_copied() -> None:
    rows = batch("a", "b")
    assert next(pieces([rows], 1_000)) is rows


def test_no_rows_are_no_pieces() -> None:
    assert list(pieces([], 10)) == list(pieces([batch()], 10)) == []
