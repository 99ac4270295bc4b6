"""Commit versions of a slice table, each directly after the version it was planned on.

Object stores write the log with conditional puts: of two concurrent writers of a version, one
succeeds and the other gets an error.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.lake.delta_log import added_files, partition_texts
from runtime.lake.places import TablePlace
from runtime.materialized.changes import BaseFile
from runtime.materialized.faults import UnknownOutcome, table_error
from runtime.materialized.manifest import remove_manifest, write_manifest
from runtime.materialized.store import MANIFEST, SINCE, TIER, SliceFile, StoredSlices, stored_schema
from runtime.spec.materialized import Reached
from runtime.writing.places import remove_files
from runtime.writing.written import WrittenFile

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

# Key of the commit properties that identifies the writer of a version
_COMMIT = "sqlwin.commit"


class ChangedMeanwhile(Exception):
    """Error when another writer has committed a version since the table was opened."""


@contextmanager
def remove_on_error(place: TablePlace, mark: str) -> Iterator[None]:
    """Remove files with a mark if the block fails, unless they may be committed."""
    try:
        yield
    except UnknownOutcome:
        raise
    except BaseException:
        remove_files(place.store, place.path, mark)
        raise


def commit(
    table: StoredSlices,
    files: Sequence[WrittenFile],
    removed_files: Sequence[SliceFile],
    manifest: Sequence[BaseFile] | None,
    batch: tuple[str, int] | None = None,
    moved: Reached | None = None,
) -> int:
    """Commit the next version of an opened table and return its number.

    Args:
        table: Version that the commit was planned on.
        files: Data files to add.
        removed_files: Data files to remove.
        manifest: Base files of the next version. None if they are unchanged because the rewritten
            slices hold the same rows.
        batch: Stream identifier and number of the micro-batch whose rows are in the files.
        moved: Extent to which old slices are merged and dropped in the next version. None if
            unchanged.

    Raises:
        ChangedMeanwhile: Another writer committed first.
        UnknownOutcome: The store does not report whether the version was written.
        ExecutionError: The version cannot be written.
    """
    from deltalake import CommitProperties, Transaction
    from deltalake._internal import RemoveAction
    from deltalake.exceptions import DeltaError

    place = table.place
    # a compaction removes files but changes no rows
    changes_rows = manifest is not None or not removed_files or moved is not None
    now_ms = int(time.time() * 1000)
    partitions = table.partitions
    types = {f.name: f.dataType.simpleString() for f in stored_schema(table.form).fields}
    partition_types = [types[name] for name in partitions]
    actions: list[AddAction | RemoveAction] = [
        *added_files(files, partitions, types, now_ms, changes_rows=changes_rows)
    ]
    actions += [
        RemoveAction(
            file.path,
            changes_rows,
            now_ms,
            file.n_bytes,
            partition_texts(partitions, partition_types, file.partition),
        )
        for file in removed_files
    ]
    number = None if manifest is None else write_manifest(place, table.name, manifest)
    transactions = [] if number is None else [Transaction(MANIFEST, number)]
    transactions += [] if batch is None else [Transaction(*batch)]
    if moved is not None:
        transactions += [Transaction(f"{TIER}{t.width_us}", t.until_us) for t in moved.tiers]
        if moved.since_us is not None:
            transactions.append(Transaction(SINCE, moved.since_us))
    # The token identifies the writer if the store never responds.
    token = uuid.uuid4().hex
    properties = CommitProperties(
        max_commit_retries=0,
        app_transactions=transactions or None,
        custom_metadata={_COMMIT: token},
    )
    try:
        table.delta.create_write_transaction(
            actions,
            "append",
            table.delta.schema(),
            list(partitions),
            commit_properties=properties,
        )
    except (DeltaError, OSError) as error:
        # A step after the commit, such as a checkpoint of the log, may have failed.
        entry = _next_version(table, error)
        if entry is None or token not in entry:
            if number is not None:
                remove_manifest(place, number)
            if entry is not None:
                raise ChangedMeanwhile from error
            raise table_error(table.name, place, error) from error
    return table.version + 1


def _next_version(table: StoredSlices, failed: Exception) -> str | None:
    """Return the log entry of the version after the table's, or None if it does not exist.

    Raises:
        UnknownOutcome: The store does not respond.
    """
    path = f"{table.path}/_delta_log/{table.version + 1:020}.json"
    files = table.place.files
    try:
        return files.read_text(path) if files.is_file(path) else None
    except OSError as error:
        raise UnknownOutcome(
            table_error(table.name, table.place, failed).message,
            subjects=(table.name,),
            hint="it is unknown whether the version was written: run the statement again",
        ) from error
