"""Versions of a table of slices: each right after the one that it was planned on, or not at all.

In an object store the log is written by conditional puts: of two writers of a version the store
takes one, and says so to the other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.connectors.lake.delta.write import partition_texts, statistics_text
from runtime.connectors.lake.parquet_files import WrittenFile
from runtime.slices.changes import BaseFile
from runtime.slices.faults import UnknownOutcome, broken
from runtime.slices.manifest import remove_manifest, write_manifest
from runtime.slices.store import MANIFEST, SINCE, TIER, SliceFile, StoredSlices, stored_schema
from runtime.spec.slices import Reached

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

# What a version says of who wrote it
_COMMIT = "sqlwin.commit"


class ChangedMeanwhile(Exception):
    """Somebody else has committed a version since the table was opened."""


def commit(
    table: StoredSlices,
    mark: str,
    files: Sequence[WrittenFile],
    gone: Sequence[SliceFile],
    manifest: Sequence[BaseFile] | None,
    batch: tuple[str, int] | None = None,
    moved: Reached | None = None,
) -> int:
    """Make files, less others, the version that follows the one that was opened; its number.

    Args:
        table: the version that all of this was planned on.
        mark: what is in the names of the new files.
        files: new data files.
        gone: data files of the version that the next one does not have.
        manifest: the files of the base table that are in the next version; None: as before, when
            slices are written anew that hold the same rows.
        batch: the stream and the micro-batch whose rows are in the files.
        moved: what has become of old slices in the next version; None: no more than before.

    Raises:
        ChangedMeanwhile: somebody else was quicker.
        UnknownOutcome: it may be written or not, and the store does not say.
        ExecutionError: it cannot be written.
    """
    from deltalake import CommitProperties, Transaction
    from deltalake._internal import RemoveAction
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction

    place = table.place
    # a compaction takes files away, and changes no rows
    changes_rows = manifest is not None or not gone or moved is not None
    now_ms = int(time.time() * 1000)
    partitions = table.partitions
    types = {f.name: f.dataType.simpleString() for f in stored_schema(table.form).fields}
    partition_types = [types[name] for name in partitions]
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            file.path,
            file.size,
            partition_texts(partitions, partition_types, file.partition),
            now_ms,
            changes_rows,
            statistics_text(file, types),
        )
        for file in files
    ]
    actions += [
        RemoveAction(
            file.path,
            changes_rows,
            now_ms,
            file.n_bytes,
            partition_texts(partitions, partition_types, file.partition),
        )
        for file in gone
    ]
    number = None if manifest is None else write_manifest(place, table.name, manifest)
    transactions = [] if number is None else [Transaction(MANIFEST, number)]
    transactions += [] if batch is None else [Transaction(*batch)]
    if moved is not None:
        transactions += [Transaction(f"{TIER}{t.width_us}", t.until_us) for t in moved.tiers]
        if moved.since_us is not None:
            transactions.append(Transaction(SINCE, moved.since_us))
    # whose version it is can be asked afterwards, where no answer came
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
        # what comes after the commit, such as a checkpoint of the log, may have failed
        found = _next_version(table, error)
        if found is None or token not in found:
            if number is not None:
                remove_manifest(place, number)
            if found is not None:
                raise ChangedMeanwhile from error
            raise broken(table.name, place, error) from error
    return table.version + 1


def _next_version(table: StoredSlices, failed: Exception) -> str | None:
    """What the log says of the version after a table's; None: there is none.

    Raises:
        UnknownOutcome: the store does not say.
    """
    path = f"{table.path}/_delta_log/{table.version + 1:020}.json"
    files = table.place.files
    try:
        return files.read_text(path) if files.is_file(path) else None
    except OSError as error:
        raise UnknownOutcome(
            broken(table.name, table.place, failed).message,
            subjects=(table.name,),
            hint="whether the version was written is not known: run the statement again",
        ) from error
