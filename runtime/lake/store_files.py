"""Write and remove files of a table in an object store; reading is in `scan`.

A file appears as a whole when it is closed. If its writer is killed, invisible parts may remain
until the store's rules for incomplete uploads remove them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, explain_errors, filesystem_of, why_of


def create_file(store: Store, uri: str) -> pa.NativeFile:
    """Open a new file for sequential writing.

    Raises:
        ExecutionError: The store rejects it.
    """
    try:
        with explain_errors(store, uri):
            return filesystem_of(store).open_output_stream(store.path(uri))
    except OSError as error:
        raise unwritten(store, uri, error) from error


def unwritten(store: Store, uri: str, error: Exception) -> ExecutionError:
    """Return the error for a file that a store did not accept."""
    return ExecutionError(f"cannot write {uri}: {why_of(store, uri, error)}", subjects=(uri,))


def remove_file(store: Store, uri: str) -> None:
    """Remove a file if it exists.

    Raises:
        OSError: The store failed to remove it.
    """
    with suppress(FileNotFoundError), explain_errors(store, uri):
        filesystem_of(store).delete_file(store.path(uri))


def files_below(store: Store, uri: str) -> Iterator[tuple[str, float]]:
    """Yield the files below a URI in order: URI, and modification time in seconds since 1970.

    Raises:
        OSError: The store cannot list them.
    """
    for info in StoredFiles(store).infos_below(uri):
        yield store.uri(info.path), (info.mtime_ns or 0) / 1e9
