"""Parameters of which some take long: `--long` runs those too, `--slow` those that vary them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def among(parameters: Iterable[Any], *, long: Collection[Any] = (), slow: Any = ()) -> list[Any]:
    """The parameters, those in `long` and in `slow` marked so; each of these has to be there."""
    return [pytest.param(each, marks=marks) for each, marks in _marked(parameters, long, slow)]


def pairs(
    first: Iterable[Any], second: Iterable[Any], *, long: Collection[Any] = (), slow: Any = ()
) -> list[Any]:
    """Each of the first parameters with each of the second, the pairs marked like `among`."""
    every = itertools.product(first, second)
    return [pytest.param(*pair, marks=marks) for pair, marks in _marked(every, long, slow)]


def _marked(
    parameters: Iterable[Any], long: Collection[Any], slow: Collection[Any]
) -> list[tuple[Any, tuple[pytest.MarkDecorator, ...]]]:
    every = list(parameters)
    for marked in (long, slow):
        assert all(each in every for each in marked), f"{marked} are not all among {every}"
    return [
        (
            each,
            (pytest.mark.slow,) if each in slow else (pytest.mark.long,) if each in long else (),
        )
        for each in every
    ]
