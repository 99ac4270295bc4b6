"""Refresh a slice table from the current files of its base table, and compact it."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from runtime.errors import CatalogError, ExecutionError
from runtime.lake.places import TablePlace
from runtime.materialized.build import BaseRows, Inputs, JobsRun, UncommittedFiles, build
from runtime.materialized.changes import (
    Changes,
    Intervals,
    changes,
    covers,
    current_file,
    overlaps,
    set_ranges,
)
from runtime.materialized.commits import ChangedMeanwhile, commit, remove_on_error
from runtime.materialized.store import (
    SliceFile,
    StoredSlices,
    open_slices,
    remove_leftovers,
)
from runtime.materialized.tiers import due_tiers, is_touched, widen
from runtime.spec.materialized import LocalForm, Reached
from runtime.spec.scan import DEFAULT_BUFFER_BYTES, PartitionValue
from runtime.writing.places import remove_files

# Maximum number of commit attempts when other writers commit first
MAX_ATTEMPTS = 20
# Number of similar-sized data files that are compacted into one
_FILES_PER_LEVEL = 8
# Files of at least this size are not compacted
_LARGE_BYTES = 128 << 20


@dataclass(frozen=True)
class PlannedRows:
    """Definition of a materialized table, planned over the current base files.

    Attributes:
        form: Form of the slices that the definition yields.
        rows: Local stage over all files.
    """

    form: LocalForm
    rows: BaseRows


@dataclass(frozen=True)
class RefreshResult:
    """Result of a refresh.

    Attributes:
        version: Version of the table after the refresh.
        n_added: Number of files read for the first time.
        n_changed: Number of changed files that were read again.
        n_gone: Number of files whose rows were removed.
        n_read: Number of rows read from base files.
        n_written: Number of partials written.
    """

    version: int
    n_added: int = 0
    n_changed: int = 0
    n_gone: int = 0
    n_read: int = 0
    n_written: int = 0


def refresh(
    spark: SparkSession,
    place: TablePlace,
    name: str,
    plan: Callable[[], PlannedRows],
    jobs_run: JobsRun = nullcontext,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
) -> RefreshResult:
    """Add the rows of new files, and recompute slices of files that changed or no longer exist.

    Every file is added exactly once, despite concurrent refreshes and crashes, because slices and
    the list of their files become visible together (see `runtime.materialized.store`). If another
    refresh commits first, this one is planned again on the new version.

    Args:
        spark: Spark session.
        place: Directory of the table.
        name: Table name.
        plan: Plans the definition over the current files. Called for each attempt.
        jobs_run: Context manager in which Spark jobs run.
        buffer_bytes: Maximum bytes of partials that a task buffers before it sends them.

    Raises:
        CatalogError: The definition now means something else because columns of the base table or
            settings changed.
        ExecutionError: A file cannot be read or written.
    """
    done: tuple[Changes, UncommittedFiles, Reached] | None = None
    mark = uuid.uuid4().hex
    with remove_on_error(place, mark):
        for _ in range(MAX_ATTEMPTS):
            planned = plan()
            table = open_slices(place, name)
            check_form(table, planned.form)
            files = planned.rows.step.source.files
            current_files = map(current_file, (*files.files, *files.others))
            todo = changes(current_files, table.manifest, partial(_extend_to_stored, table))
            # The files are still valid after a commit that does not concern them.
            if done is not None and (
                todo.intervals or done[0].added != todo.added or done[2] != table.reached
            ):
                remove_files(place.store, place.path, mark)
                done = None
            if todo.is_nothing:
                return RefreshResult(table.version)
            replaced = [f for f in table.files if overlaps(todo.intervals, f.first_us, f.last_us)]
            if done is None:
                inputs = _inputs(table, planned.rows, todo, replaced)
                built = build(spark, table, inputs, mark, buffer_bytes, jobs_run)
                done = todo, built, table.reached
            built = done[1]
            manifest = (*todo.unchanged, *set_ranges(todo.added, dict(built.ranges)))
            try:
                version = commit(table, built.files, replaced, manifest)
            except ChangedMeanwhile:
                continue
            return RefreshResult(
                version,
                len(todo.added) - todo.n_changed,
                todo.n_changed,
                todo.n_gone,
                built.n_read,
                built.n_rows,
            )
        raise ExecutionError(
            f"materialized table `{name}` was changed concurrently in all {MAX_ATTEMPTS} "
            "attempts to refresh it",
            subjects=(name,),
            hint="run one refresh at a time",
        )


def compact(
    spark: SparkSession,
    place: TablePlace,
    name: str,
    jobs_run: JobsRun = nullcontext,
) -> int:
    """Merge small data files of similar size, and return how many fewer files remain.

    If a refresh commits at the same time, nothing is done until the next call.

    Raises:
        ExecutionError: A file cannot be read or written.
    """
    table = open_slices(place, name)
    few = small_files(table.files)
    if not few:
        return 0
    inputs = Inputs(slice_files=few, reached=table.reached)
    built = _rewrite(spark, table, inputs, few, jobs_run)
    if built is None:
        return 0
    remove_leftovers(open_slices(place, name))
    return len(few) - len(built.files)


def settle(
    spark: SparkSession,
    place: TablePlace,
    name: str,
    jobs_run: JobsRun = nullcontext,
) -> int:
    """Merge old slices into wider ones, drop expired ones, and return the number of files written.

    All changes become visible as one version. If another writer commits first, nothing is done
    until the next call.

    Args:
        spark: Spark session.
        place: Directory of the table.
        name: Table name.
        jobs_run: Context manager in which Spark jobs run.

    Raises:
        ExecutionError: A file cannot be read or written, or a sum overflows its type.
    """
    table = open_slices(place, name)
    if not table.rules or not table.files:
        return 0
    newest_us = max(file.last_us for file in table.files)
    target = due_tiers(
        table.rules, table.form.grid, table.reached, table.files[0].first_us, newest_us
    )
    if target == table.reached:
        return 0
    touched = [f for f in table.files if is_touched(f.first_us, f.last_us, table.reached, target)]
    since_us = target.since_us
    rest = [file for file in touched if since_us is None or file.last_us > since_us]
    inputs = Inputs(slice_files=rest, reached=target)
    built = _rewrite(spark, table, inputs, touched, jobs_run, target)
    return 0 if built is None else len(built.files)


def _rewrite(
    spark: SparkSession,
    table: StoredSlices,
    inputs: Inputs,
    replaced: Sequence[SliceFile],
    jobs_run: JobsRun,
    moved: Reached | None = None,
) -> UncommittedFiles | None:
    """Replace data files. Return the new ones, or None if another writer commits first."""
    mark = uuid.uuid4().hex
    with suppress(ChangedMeanwhile), remove_on_error(table.place, mark):
        built = build(spark, table, inputs, mark, DEFAULT_BUFFER_BYTES, jobs_run)
        commit(table, built.files, replaced, None, moved=moved)
        return built
    return None


def _extend_to_stored(table: StoredSlices, intervals: Intervals) -> Intervals:
    return widen(intervals, table.form.grid, table.reached)


def small_files(files: Iterable[SliceFile]) -> list[SliceFile]:
    """Return the data files to compact: per partition, all files up to a size that many files have.

    Size levels are powers of `_FILES_PER_LEVEL`, so a partial is rewritten once per level and not
    with each refresh.
    """
    small = [file for file in files if file.n_bytes < _LARGE_BYTES]
    levels = Counter((file.partition, _level(file)) for file in small)
    highest: dict[tuple[PartitionValue, ...], int] = {}
    for (partition, level), n_files in levels.items():
        if n_files >= _FILES_PER_LEVEL:
            highest[partition] = max(level, highest.get(partition, level))
    return [file for file in small if _level(file) <= highest.get(file.partition, -1)]


def check_form(table: StoredSlices, form: LocalForm) -> None:
    """Check that a definition still matches the stored slices.

    Raises:
        CatalogError: The definition does not match.
    """
    if form == table.form:
        return
    stored = table.form
    why = "its columns have changed"
    if form.time_zone != stored.time_zone:
        zones = (form.time_zone or "any", stored.time_zone or "any")
        why = "the session's time zone is {}, but the slices use {}".format(*zones)
    elif _types(form) != _types(stored):
        why = f"the columns of `{stored.base}` have changed"
    raise CatalogError(
        f"the slices of materialized table `{table.name}` no longer match its definition: {why}",
        subjects=(table.name,),
        hint="DROP MATERIALIZED TABLE and create it again, or undo the change",
    )


def _inputs(
    table: StoredSlices, rows: BaseRows, todo: Changes, replaced: Sequence[SliceFile]
) -> Inputs:
    """Return what a refresh reads to replace some data files."""
    return Inputs(
        rows.of(file.path for file in todo.added) if todo.added else None,
        rows.of(file.path for file in todo.again) if todo.again else None,
        [f for f in replaced if not covers(todo.intervals, f.first_us, f.last_us)],
        todo.intervals,
        table.reached,
    )


def _types(form: LocalForm) -> list[object]:
    keys = [(key.name, key.type) for key in form.keys]
    return [form.time_type, keys, [partial.types for partial in form.partials]]


def _level(file: SliceFile) -> int:
    return int(math.log(max(file.n_bytes, 1), _FILES_PER_LEVEL))
