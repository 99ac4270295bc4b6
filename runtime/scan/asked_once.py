"""What a statement has asked of a store while it is planned, so that it asks once.

A table is looked at several times: whether it is there, for its columns, for the scan. On a disk
that costs nothing, in a store each look is some requests. What was found is kept for one block in
one thread, which is not longer than the planning of a statement: the next statement sees what is
there then. So two looks of one statement see the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_found: ContextVar[dict[Hashable, Any] | None] = ContextVar("found_in_stores", default=None)


@contextmanager
def asking_once() -> Iterator[None]:
    """A block in which what `asked` gave is given again; one within another is a part of it."""
    if _found.get() is not None:
        yield
        return
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def asked(key: Hashable, ask: Callable[[], T]) -> T:
    """What was found under a key in this block, or what is asked now; errors are not kept.

    Args:
        key: what is asked for, and of which store.
        ask: asks the store.
    """
    found = _found.get()
    if found is None:
        return ask()
    if key not in found:
        found[key] = ask()
    result: T = found[key]
    return result
