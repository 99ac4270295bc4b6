"""Marks for slow parameters: `--long` also runs the long ones, `--slow` the slow ones."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def among(parameters: Iterable[Any], *, long: Collection[Any] = (), slow: Any = ()) -> list[Any]:
    """Return the parameters, with those in `long` and `slow` marked. Each of these must exist."""
    return [pytest.param(item, marks=marks) for item, marks in _mark(parameters, long, slow)]


def pairs(
    first: Iterable[Any], second: Iterable[Any], *, long: Collection[Any] = (), slow: Any = ()
) -> list[Any]:
    """Return all pairs of parameters, marked as in `among`."""
    every = itertools.product(first, second)
    return [pytest.param(*pair, marks=marks) for pair, marks in _mark(every, long, slow)]


def _mark(
    parameters: Iterable[Any], long: Collection[Any], slow: Collection[Any]
) -> list[tuple[Any, tuple[pytest.MarkDecorator, ...]]]:
    every = list(parameters)
    for marked in (long, slow):
        assert all(item in every for item in marked), f"{marked} are not all among {every}"
    return [
        (
            item,
            (pytest.mark.slow,) if item in slow else (pytest.mark.long,) if item in long else (),
        )
        for item in every
    ]
