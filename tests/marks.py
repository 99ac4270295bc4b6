"""Parameters of which some take long: `--long` runs those too."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_among(parameters: Iterable[Any], long: Collection[Any]) -> list[Any]:
    """The parameters, those in `long` marked; each of `long` has to be there."""
    every = list(parameters)
    assert all(each in every for each in long), f"{long} are not all among {every}"
    return [pytest.param(each, marks=pytest.mark.long) if each in long else each for each in every]


def long_pairs(first: Iterable[Any], second: Iterable[Any], long: Collection[Any]) -> list[Any]:
    """Each of the first parameters with each of the second, the pairs in `long` marked."""
    pairs = list(itertools.product(first, second))
    assert all(pair in pairs for pair in long), f"{long} are not all among {pairs}"
    return [pytest.param(*pair, marks=pytest.mark.long) if pair in long else pair for pair in pairs]
