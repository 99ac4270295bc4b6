"""A table of slices is removed: on this machine at once, in an object store file by file.

    m/_sqlwin/dropped           is there from the begin of a removal to its end

The log goes first, so that nobody opens the table any more; whoever makes a table where a removal
was killed ends it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress

from runtime.connectors.lake.places import TablePlace
from runtime.connectors.lake.store_files import create_file, files_below, remove_file
from runtime.errors import ExecutionError
from runtime.scan.stores import Store

_DROPPED = "_sqlwin/dropped"


def remove_slices(place: TablePlace) -> None:
    """Remove a table of slices with all that is in its directory; nothing, if it is not there.

    Raises:
        ExecutionError: the store does not remove a file; once more goes on from there.
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
    """Whether somebody has begun to remove what is there, and did not end it.

    Raises:
        OSError: the store does not say.
    """
    return place.store is not None and place.files.exists(f"{place.path}/{_DROPPED}")


def _remove_stored(store: Store, path: str) -> None:
    mark = f"{path}/{_DROPPED}"
    try:
        found = [uri for uri, _ in files_below(store, path)]
        if not found:
            return
        create_file(store, mark).close()
        in_log = [uri for uri in found if uri.startswith(f"{path}/_delta_log/")]
        rest = set(found).difference(in_log, (mark,))
        # the newest version first: whoever opens the table meanwhile sees one that was there
        for uri in [*reversed(in_log), *sorted(rest), mark]:
            remove_file(store, uri)
    except OSError as error:
        raise ExecutionError(
            f"{path} is not removed as a whole: {error.filename or path}: "
            f"{error.strerror or error}",
            subjects=(f"'{path}'",),
            hint="run the statement again",
        ) from error
