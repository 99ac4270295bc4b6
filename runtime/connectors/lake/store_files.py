"""Files of a table in an object store that are written and removed; what reads them is in `scan`.

A file is there when it is closed, as a whole. Of one whose writer is killed parts may lie in the
store, unseen, until its rules for uploads that were not finished remove them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, explained, filesystem_of, why_of


def create_file(store: Store, uri: str) -> pa.NativeFile:
    """A new file, to be written from its begin to its end.

    Raises:
        ExecutionError: the store does not take it.
    """
    try:
        with explained(store, uri):
            return filesystem_of(store).open_output_stream(store.path(uri))
    except OSError as error:
        raise unwritten(store, uri, error) from error


def unwritten(store: Store, uri: str, error: Exception) -> ExecutionError:
    """The error for a file that a store did not take."""
    return ExecutionError(f"cannot write {uri}: {why_of(store, uri, error)}", subjects=(uri,))


def remove_file(store: Store, uri: str) -> None:
    """Remove a file, if it is there.

    Raises:
        OSError: the store does not.
    """
    with suppress(FileNotFoundError), explained(store, uri):
        filesystem_of(store).delete_file(store.path(uri))


def files_below(store: Store, uri: str) -> Iterator[tuple[str, float]]:
    """The files below a URI, in order: the URI of each, and when it was written, seconds of 1970.

    Raises:
        OSError: they cannot be listed.
    """
    for info in StoredFiles(store).listed_below(uri):
        yield store.uri(info.path), (info.mtime_ns or 0) / 1e9
