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

_responses: ContextVar[dict[Hashable, Any] | None] = ContextVar("responses", default=None)


@contextmanager
def cache_requests() -> Iterator[None]:
    """Cache the responses of `get_or_request` within this block. Nested blocks share a cache."""
    if _responses.get() is not None:
        yield
        return
    token = _responses.set({})
    try:
        yield
    finally:
        _responses.reset(token)


def get_or_request(key: Hashable, request: Callable[[], T]) -> T:
    """Return the cached result for a key, or call `request` and cache it. Errors are not cached.

    Args:
        key: Identifies the request, including the store.
        request: Function that sends the request.
    """
    cache = _responses.get()
    if cache is None:
        return request()
    if key not in cache:
        cache[key] = request()
    result: T = cache[key]
    return result
