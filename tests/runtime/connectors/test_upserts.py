"""Changes of a micro-batch, folded by key in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.connectors.upserts import fold_changes
from runtime.errors import SqlwinError
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

SPEC = TableSpec("t", "postgres", primary_key=("K", "w"))


def changes(*rows: tuple[str, str | None, int, int]) -> pa.Table:
    kinds, keys, windows, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table(
        {
            ROW_KIND: pa.array(kinds, pa.string()), "k": pa.array(keys, pa.string()),
            "w": pa.array(windows, pa.int32()), "v": pa.array(values, pa.int64()),
        }
    )  # fmt: skip


def folded(*rows: tuple[str, str | None, int, int]) -> tuple[set[tuple], set[tuple]]:
    upserts = fold_changes(changes(*rows), SPEC)
    return tuple(  # type: ignore[return-value]
        {tuple(row.values()) for row in table.to_pylist()}
        for table in (upserts.rows, upserts.deleted)
    )


def test_a_row_retracted_and_added_again_is_an_upsert() -> None:
    # the order of the two does not matter
    for rows in ([("-U", "a", 1, 1), ("+U", "a", 1, 2)], [("+U", "a", 1, 2), ("-U", "a", 1, 1)]):
        assert folded(*rows) == ({("a", 1, 2)}, set())


def test_a_row_that_is_only_retracted_is_a_delete() -> None:
    """A condition such as HAVING no longer holds for it."""
    assert folded(("-U", "a", 1, 1), ("+I", "a", 2, 1)) == ({("a", 2, 1)}, {("a", 1)})
    assert folded(("-D", "a", 1, 1)) == (set(), {("a", 1)})


def test_no_changes_are_no_upserts() -> None:
    assert folded() == (set(), set())


def test_two_rows_of_a_key_are_an_error() -> None:
    with pytest.raises(
        SqlwinError, match=r"micro-batch 7 have the PRIMARY KEY \(K, w\) = \('a', 1\)"
    ):
        fold_changes(changes(("+I", "a", 1, 1), ("+U", "a", 1, 2)), SPEC, batch=7)


def test_the_last_of_two_ordered_rows_counts() -> None:
    table = changes(("+I", "a", 1, 5), ("+I", "b", 1, 1), ("+I", "a", 1, 2)).drop([ROW_KIND])
    rows = fold_changes(table, SPEC, is_ordered=True).rows
    assert rows.to_pylist() == [{"k": "b", "w": 1, "v": 1}, {"k": "a", "w": 1, "v": 2}]


def test_a_null_in_the_key_is_an_error() -> None:
    with pytest.raises(SqlwinError, match="column `k` of the PRIMARY KEY is NULL"):
        folded(("+I", None, 1, 1))
