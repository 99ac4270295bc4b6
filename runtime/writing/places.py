"""Create, list and remove files of a table, on a disk or in an object store.

In a store a file appears as a whole when it is closed. If its writer is killed, invisible parts may
remain until the store's rules for incomplete uploads remove them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from runtime.errors import ErrorKind, ExecutionError
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, explain_errors, filesystem_of


def create_file(store: Store | None, path: str) -> pa.NativeFile:
    """Open a new file for sequential writing; on a disk, create the directories above it.

    Args:
        store: Object store. None for this machine.
        path: Path on this machine, or URI in the store.

    Raises:
        OSError: The file cannot be created.
    """
    if store is None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return pa.OSFile(path, "wb")
    with explain_errors(store, path):
        return filesystem_of(store).open_output_stream(store.path(path))


def remove_file(store: Store | None, path: str) -> None:
    """Remove a file if it exists. For the arguments see `create_file`.

    Raises:
        OSError: The file cannot be removed.
    """
    with suppress(FileNotFoundError):
        if store is None:
            os.remove(path)
            return
        with explain_errors(store, path):
            filesystem_of(store).delete_file(store.path(path))


def files_below(store: Store | None, path: str) -> Iterator[tuple[str, float]]:
    """Yield the files below a directory: path, and modification time in seconds since 1970.

    Raises:
        OSError: The store cannot list them.
    """
    if store is not None:
        for info in StoredFiles(store).infos_below(path):
            yield store.uri(info.path), (info.mtime_ns or 0) / 1e9
        return
    for above, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                yield f"{above}/{name}", os.stat(f"{above}/{name}").st_mtime


def remove_files(store: Store | None, directory: str, mark: str) -> None:
    """Remove uncommitted files of a job. Files that cannot be removed do no harm.

    Args:
        store: Object store. None for this machine.
        directory: Local directory, or URI in the store.
        mark: Unique part of the file names.
    """
    with suppress(OSError):
        for path, _ in files_below(store, directory):
            above, _, name = path.rpartition("/")
            if mark not in name:
                continue
            with suppress(OSError):
                remove_file(store, path)
                if store is None and above != directory and "=" in above.rpartition("/")[2]:
                    # fails if the directory is not empty
                    os.rmdir(above)


def unwritable(path: str, error: OSError) -> ExecutionError:
    """Return the error for a resolved path that cannot be written to."""
    message = f"cannot write to {path}: {error.strerror or error}"
    return ExecutionError(message, kind=ErrorKind.OUTPUT)
