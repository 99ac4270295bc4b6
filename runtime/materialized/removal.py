"""Remove a slice table: at once on a local disk, file by file in an object store.

    m/_sqlwin/dropped           exists from the start of a removal to its end

The log is removed first so that the table can no longer be opened. Creating a table where a removal
was interrupted completes that removal first.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress

from runtime.errors import ExecutionError
from runtime.lake.places import TablePlace
from runtime.scan.stores import Store
from runtime.writing.places import create_file, files_below, remove_file

_DROPPED = "_sqlwin/dropped"


def remove_slices(place: TablePlace) -> None:
    """Remove the directory of a slice table. Does nothing if it does not exist.

    Raises:
        ExecutionError: The store failed to remove a file. Another call continues the removal.
    """
    if place.store is not None:
        _remove_stored(place.store, place.path)
        return
    above, name = os.path.split(place.path)
    aside = os.path.join(above, f".{name}.dropped-{uuid.uuid4().hex[:12]}")
    with suppress(FileNotFoundError):
        os.rename(place.path, aside)
        shutil.rmtree(aside, ignore_errors=True)


def is_half_removed(place: TablePlace) -> bool:
    """Return whether a removal at this place was started and not completed.

    Raises:
        OSError: The store does not answer.
    """
    return place.store is not None and place.files.exists(f"{place.path}/{_DROPPED}")


def _remove_stored(store: Store, path: str) -> None:
    mark = f"{path}/{_DROPPED}"
    try:
        uris = [uri for uri, _ in files_below(store, path)]
        if not uris:
            return
        create_file(store, mark).close()
        in_log = [uri for uri in uris if uri.startswith(f"{path}/_delta_log/")]
        rest = set(uris).difference(in_log, (mark,))
        # newest version first: a concurrent reader still sees a consistent older version
        for uri in [*reversed(in_log), *sorted(rest), mark]:
            remove_file(store, uri)
    except OSError as error:
        raise ExecutionError(
            f"{path} was only partly deleted: {error.filename or path}: {error.strerror or error}",
            subjects=(f"'{path}'",),
            hint="run the statement again",
        ) from error
