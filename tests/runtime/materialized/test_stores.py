"""A slice table in an object store: concurrent writers, failures with unknown outcome, removal."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from runtime.errors import CatalogError, ExecutionError
from runtime.lake.places import TablePlace
from runtime.materialized.changes import BaseFile
from runtime.materialized.commits import ChangedMeanwhile, commit
from runtime.materialized.faults import UnknownOutcome
from runtime.materialized.manifest import remove_old_manifests
from runtime.materialized.removal import remove_slices
from runtime.materialized.store import (
    StoredSlices,
    create_slices,
    is_table,
    open_slices,
    set_suspended,
)
from runtime.writing.places import remove_files
from runtime.writing.written import WrittenFile
from tests.object_store import ObjectStore, is_write_of, store_of_a_process
from tests.runtime.materialized.test_store import FORM

LOGGED = is_write_of("_delta_log/")


@pytest.fixture
def elsewhere() -> Iterator[ObjectStore]:
    """Provide a store in another process: the library's calls block all threads of this one."""
    with store_of_a_process() as result:
        yield result


def _place(store: ObjectStore, path: str, attempts: int = 3) -> TablePlace:
    return TablePlace(store.uri(path), store.store(attempts_maximum=str(attempts)))


def _create(place: TablePlace) -> StoredSlices:
    create_slices(place, "m", '{"query": "SELECT 1"}', FORM)
    return open_slices(place, "m")


def _write(store: ObjectStore, table: StoredSlices, mark: str, end: int) -> WrittenFile:
    rows = pa.table({"city": ["a"], "slice_end": [end], "count": [1]})
    name = f"part-{mark}-0.parquet"
    store.put(f"{table.path.removeprefix(store.uri())}/{name}".lstrip("/"), rows)
    return WrittenFile(name, (), 1_000, 1, {"slice_end": (end, end)}, {"slice_end": 0})


def _files(place: TablePlace) -> list[str]:
    return [uri.removeprefix(f"{place.path}/") for uri in place.files.files_below(place.path)]


@pytest.mark.long
def test_a_version_has_its_manifest_and_the_one_before_has_its_own(store: ObjectStore) -> None:
    place = _place(store, "versions")
    table = _create(place)
    assert (table.version, table.manifest, table.files) == (0, (), ())
    base = (BaseFile("a.parquet", 10, 20, 60, 60),)
    assert commit(table, [_write(store, table, "x", 60)], [], base) == 1
    result = open_slices(place)
    assert (result.name, result.form, result.manifest) == ("m", FORM, base)
    assert [(file.n_rows, file.first_us) for file in result.files] == [(1, 60)]
    assert open_slices(place, version=0).manifest == ()
    with pytest.raises(ExecutionError, match=r"version 9 of .* was removed"):
        open_slices(place, "m", 9)


def test_the_description_of_a_table_is_stored_with_it(elsewhere: ObjectStore) -> None:
    place = _place(elsewhere, "said")
    set_suspended(_create(place), True)
    result = open_slices(place)
    assert result.is_suspended
    assert len(result.delta.history(1)) == 1


@pytest.mark.long
def test_of_two_that_write_a_version_at_once_the_store_takes_one(store: ObjectStore) -> None:
    place = _place(store, "race")
    _create(place)
    tables = [open_slices(place) for _ in range(2)]
    result: dict[str, object] = {}

    def run(table: StoredSlices, mark: str) -> None:
        try:
            result[mark] = commit(
                table, [_write(store, table, mark, 60)], [], (BaseFile(mark, 1, 1),)
            )
        except ChangedMeanwhile:
            result[mark] = "lost"

    # both see that the version does not exist before either writes it
    with store.holding(LOGGED, 2) as has_met:
        threads = [
            threading.Thread(target=run, args=(table, mark))
            for table, mark in zip(tables, "xy", strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert has_met.is_set()
    assert sorted(map(str, result.values())) == ["1", "lost"]
    actual = open_slices(place)
    (winner,) = (mark for mark, version in result.items() if version == 1)
    assert actual.manifest == (BaseFile(winner, 1, 1),)
    assert [file.path for file in actual.files] == [f"part-{winner}-0.parquet"]
    assert sum(name.startswith("_sqlwin/manifest-") for name in _files(place)) == 1


@pytest.mark.long
def test_a_version_whose_answer_was_lost_counts_once(store: ObjectStore) -> None:
    place = _place(store, "answer")
    table = _create(place)
    with store.failing("lost", LOGGED, times=1):
        assert commit(table, [], [], (BaseFile("a", 1, 1),)) == 1
    # without a second request, the store reports a failure
    table = open_slices(_place(store, "answer", attempts=0))
    with store.failing("lost", LOGGED, times=1):
        assert commit(table, [], [], (BaseFile("b", 1, 1),)) == 2
    assert open_slices(place).manifest == (BaseFile("b", 1, 1),)


def test_a_rejected_version_leaves_no_files(store: ObjectStore) -> None:
    place = _place(store, "refused", attempts=0)
    table = _create(place)
    with store.failing("AccessDenied", LOGGED), pytest.raises(ExecutionError) as raised:
        commit(table, [], [], (BaseFile("a", 1, 1),))
    assert not isinstance(raised.value, UnknownOutcome)
    assert raised.value.message.startswith(f"materialized table `m` at {place.path}: ")
    assert open_slices(place).version == 0
    assert not any("manifest-" in name for name in _files(place))


def test_files_stay_if_the_outcome_of_a_commit_is_unknown(store: ObjectStore) -> None:
    place = _place(store, "unknown", attempts=0)
    table = _create(place)
    written = _write(store, table, "x", 60)
    is_over: list[str] = []

    def fails(environ: dict[str, object]) -> bool:
        is_over.extend(["put"] * LOGGED(environ))
        return bool(is_over)

    with store.failing("lost", fails), pytest.raises(UnknownOutcome) as raised:
        commit(table, [written], [], (BaseFile("a", 1, 1),))
    assert "is unknown" in str(raised.value.hint)
    # it was written: its files exist
    result = open_slices(place)
    assert (result.version, result.manifest) == (1, (BaseFile("a", 1, 1),))
    assert written.path in _files(place)


@pytest.mark.long
def test_only_marked_directories_are_removed(store: ObjectStore) -> None:
    place = _place(store, "marks")
    table = _create(place)
    commit(table, [_write(store, table, "x", 60)], [], (BaseFile("a", 1, 1),))
    _write(store, table, "lost", 60)
    remove_files(place.store, place.path, "lost")
    assert [name for name in _files(place) if name.startswith("part-")] == ["part-x-0.parquet"]
    number = table.delta.transaction_version("sqlwin.manifest")
    assert number is None
    current = open_slices(place).delta.transaction_version("sqlwin.manifest")
    remove_old_manifests(place, current, 4e9)
    assert open_slices(place).manifest == (BaseFile("a", 1, 1),)


def test_a_place_that_holds_something_else_is_refused(store: ObjectStore) -> None:
    store.put("taken/f.parquet", pa.table({"a": [1]}))
    place = _place(store, "taken")
    with pytest.raises(CatalogError, match=r"s3a://lake/taken already exists"):
        create_slices(place, "m", "{}", FORM)
    with pytest.raises(CatalogError, match="is not a materialized table"):
        open_slices(place, "m")
    with pytest.raises(CatalogError, match="does not exist"):
        open_slices(_place(store, "nothing"), "m")


def test_a_store_that_refuses_says_which_setting_is_about_it(store: ObjectStore) -> None:
    place = _place(store, "keys")
    _create(place)
    with store.failing("InvalidAccessKeyId"), pytest.raises(ExecutionError) as raised:
        open_slices(place, "m")
    assert "spark.hadoop.fs.s3a.access.key" in raised.value.message
    with store.failing("AccessDenied"), pytest.raises(ExecutionError, match="permission denied"):
        is_table(place, "m")
    with store.failing("AccessDenied"), pytest.raises(ExecutionError, match="permission denied"):
        open_slices(place, "m", 0)
    with store.failing("AccessDenied", lambda _: True), pytest.raises(ExecutionError) as raised:
        create_slices(_place(store, "denied"), "m", "{}", FORM)
    assert "permission denied" in raised.value.message


@pytest.mark.long
def test_a_removal_that_was_cut_short_is_ended_by_the_next_one(store: ObjectStore) -> None:
    place = _place(store, "removed", attempts=0)
    table = _create(place)
    commit(table, [_write(store, table, "x", 60)], [], (BaseFile("a", 1, 1),))

    def is_of_data(environ: dict[str, object]) -> bool:
        return environ["REQUEST_METHOD"] == "DELETE" and "part-x" in str(environ["PATH_INFO"])

    with store.failing("InternalError", is_of_data):
        with pytest.raises(ExecutionError, match="was only partly deleted") as raised:
            remove_slices(place)
    assert "run the statement again" in str(raised.value.hint)
    # no reader sees half of it
    with pytest.raises(CatalogError, match=r"(is not a materialized table|does not exist)"):
        open_slices(place, "m")
    assert _create(place).version == 0
    assert [name for name in _files(place) if not name.startswith("_delta_log/")] == []
    remove_slices(place)
    assert _files(place) == []
    remove_slices(place)
