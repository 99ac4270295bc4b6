"""Cache of object store requests while one statement is planned.

Planning inspects a table several times: for its existence, its columns, and the scan. On a local
disk this is free; an object store needs several requests each time. Results are cached per thread
for one block, which lasts at most as long as the planning of a statement. So all steps of planning
see the same files, and the next statement sees the current ones.
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
    """Cache the results of `asked` within this block. Nested blocks share the outer cache."""
    if _found.get() is not None:
        yield
        return
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def asked(key: Hashable, ask: Callable[[], T]) -> T:
    """Return the cached result for a key, or call `ask` and cache it. Errors are not cached.

    Args:
        key: Request, including the store.
        ask: Function that sends the request.
    """
    cache = _found.get()
    if cache is None:
        return ask()
    if key not in cache:
        cache[key] = ask()
    result: T = cache[key]
    return result
