"""A slice table on disk: visibility of its versions to concurrent readers and writers."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from runtime.errors import CatalogError, ExecutionError
from runtime.materialized.changes import BaseFile
from runtime.materialized.commits import ChangedMeanwhile, commit
from runtime.materialized.refresh import small_files
from runtime.materialized.store import (
    SliceFile,
    StoredSlices,
    create_slices,
    open_slices,
    set_suspended,
    stored_schema,
)
from runtime.materialized.tiers import TierRules
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.materialized import LocalForm, Reached, SliceKey, SlicePartial, Tier
from runtime.windows.tumble import Tumble
from runtime.writing.written import WrittenFile

FORM = LocalForm(
    "trips",
    "ts",
    "timestamp_ntz",
    "",
    Tumble(60),
    (SliceKey("city", "city", "string"),),
    (SlicePartial("COUNT(*)", Merge(("count",), MergeOp.COUNT), ("bigint",)),),
    (),
)


def _create(path: Path) -> StoredSlices:
    create_slices(str(path), "m", '{"query": "SELECT 1"}', FORM)
    return open_slices(str(path), "m")


def _write(table: StoredSlices, mark: str, end: int) -> WrittenFile:
    rows = pa.table({"city": ["a"], "slice_end": [end], "count": [1]})
    name = f"part-{mark}-0.parquet"
    pq.write_table(rows, f"{table.path}/{name}")
    size = os.path.getsize(f"{table.path}/{name}")
    return WrittenFile(name, (), size, 1, {"slice_end": (end, end)}, {"slice_end": 0})


def test_partials_and_their_files_become_visible_together(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    assert (table.version, table.manifest, table.files) == (0, (), ())
    base = (BaseFile("a.parquet", 10, 20, 60, 60), BaseFile("b.parquet", 0, 1))
    assert commit(table, [_write(table, "x", 60)], [], base) == 1
    result = open_slices(table.path)
    assert (result.name, result.form, result.manifest) == ("m", FORM, base)
    assert [(file.n_rows, file.first_us, file.last_us) for file in result.files] == [(1, 60, 60)]
    # the previous version is unchanged
    assert open_slices(table.path, version=0).manifest == ()


def test_of_two_concurrent_commits_one_succeeds(tmp_path: Path) -> None:
    one, other = _create(tmp_path / "m"), open_slices(str(tmp_path / "m"))
    commit(one, [_write(one, "x", 60)], [], (BaseFile("a", 1, 1),))
    with pytest.raises(ChangedMeanwhile):
        commit(other, [_write(other, "y", 60)], [], (BaseFile("a", 1, 1),))
    result = open_slices(one.path)
    assert result.version == 1
    assert len(result.files) == len(result.manifest) == 1
    assert len(list((tmp_path / "m" / "_sqlwin").iterdir())) == 1


def test_compaction_leaves_the_manifest_as_it_is(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    base = (BaseFile("a", 1, 1, 60, 60),)
    commit(table, [_write(table, "x", 60)], [], base)
    table = open_slices(table.path)
    commit(table, [_write(table, "y", 60)], table.files, None)
    result = open_slices(table.path)
    assert result.manifest == base
    assert [file.path for file in result.files] == ["part-y-0.parquet"]


def test_eight_files_of_a_size_are_merged() -> None:
    def of(*sizes: int) -> list[SliceFile]:
        return [SliceFile(f"{i}", size, 1, 0, 0) for i, size in enumerate(sizes)]

    assert small_files(of(*[100] * 7)) == []
    assert len(small_files(of(*[100] * 8, 1_000_000))) == 8
    assert len(small_files(of(*[100] * 2, *[5_000] * 8))) == 10
    assert small_files(of(*[1 << 30] * 9)) == []


def test_suspension_is_stored_with_the_table(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    commit(table, [], [], (BaseFile("a", 1, 1),))
    set_suspended(open_slices(table.path), True)
    result = open_slices(table.path)
    assert result.is_suspended
    assert result.manifest == (BaseFile("a", 1, 1),)


def test_how_far_old_slices_are_merged_is_in_the_version(tmp_path: Path) -> None:
    path, rules = str(tmp_path / "m"), TierRules(((300, 600), (1500, 6000)), 9000)
    create_slices(path, "m", '{"query": "SELECT 1"}', FORM, rules=rules)
    table = open_slices(path)
    assert table.delta.metadata().configuration["sqlwin.format"] == "3"
    assert (table.rules, table.reached) == (rules, Reached())
    commit(table, [_write(table, "x", 60)], [], (BaseFile("a", 1, 1),))
    moved = Reached((Tier(300, 600), Tier(1500, -1500)), -3000)
    table = open_slices(path)
    commit(table, [_write(table, "y", 300)], table.files, None, moved=moved)
    result = open_slices(path)
    assert result.reached == moved
    assert [file.first_us for file in result.files] == [300]
    assert result.manifest == (BaseFile("a", 1, 1),)
    assert open_slices(path, version=1).reached == Reached()
    # nothing of the dropped table remains
    commit(result, [], result.files, None, moved=Reached(moved.tiers, 600))
    assert open_slices(path).reached.since_us == 600
    assert open_slices(path).files == ()


def test_a_micro_batch_is_named_by_the_version_that_has_its_rows(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    other = open_slices(table.path)
    assert table.last_batch("s") == -1
    commit(table, [_write(table, "x", 60)], [], None, batch=("s", 3))
    result = open_slices(table.path)
    assert (result.last_batch("s"), result.last_batch("t")) == (3, -1)
    with pytest.raises(ChangedMeanwhile):
        commit(other, [_write(other, "z", 60)], [], None, batch=("t", 0))
    # files of others stay
    commit(result, [_write(result, "y", 60)], [], (BaseFile("a", 1, 1),))
    assert open_slices(table.path).last_batch("s") == 3


def test_a_directory_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "f").write_text("")
    with pytest.raises(CatalogError, match=r"m` cannot be created: .*/x already exists"):
        create_slices(str(tmp_path / "x"), "m", "{}", FORM)
    with pytest.raises(CatalogError, match="is not a materialized table"):
        open_slices(str(tmp_path / "x"), "m")
    with pytest.raises(CatalogError, match="does not exist"):
        open_slices(str(tmp_path / "y"), "m")


def test_another_delta_table_is_no_materialized_table(tmp_path: Path) -> None:
    from deltalake import Schema

    DeltaTable.create(str(tmp_path / "d"), Schema.from_json(stored_schema(FORM).json()))
    with pytest.raises(CatalogError, match="is not a materialized table"):
        open_slices(str(tmp_path / "d"), "m")


def test_another_format_is_refused(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    for number in ("1", "2", "x"):
        table.delta.alter.set_table_properties({"sqlwin.format": number}, raise_if_not_exists=False)
        with pytest.raises(CatalogError, match=f"has format {number}, but .* reads format 3"):
            open_slices(table.path, "m")


def test_a_missing_manifest_is_damage(tmp_path: Path) -> None:
    table = _create(tmp_path / "m")
    commit(table, [], [], (BaseFile("a", 1, 1),))
    (manifest,) = (tmp_path / "m" / "_sqlwin").iterdir()
    manifest.unlink()
    with pytest.raises(ExecutionError, match="is damaged"):
        _ = open_slices(table.path, "m").manifest


def test_a_missing_version_is_named(tmp_path: Path) -> None:
    _create(tmp_path / "m")
    with pytest.raises(ExecutionError, match=r"version 9 of .* was removed"):
        open_slices(str(tmp_path / "m"), "m", 9)
