"""A column of any type in any construct gives rows or an error in words of SQL."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import sqlwin
from tests.fuzz.outcome import fault_of, judge, new_session
from tests.fuzz.types import draw_query

# Words of libraries for a type that they cannot compute
_KERNEL = re.compile(
    r"\bkernel\b|NotImplemented|\bArrow(?! type\b)|in conversion to|return type in"
)


@pytest.mark.parametrize(
    "seeds",
    [
        range(30),
        pytest.param(range(30, 150), marks=pytest.mark.long),
        pytest.param(range(150, 5_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_type_is_computed_or_refused_in_words_without_spark(seeds: range) -> None:
    session = new_session()
    kinds: Counter[str] = Counter()
    for seed in seeds:
        query = draw_query(seed)
        outcome = judge(session, query)
        assert outcome.kind != "fault", f"seed {seed}: {outcome.text}\n{query}"
        if outcome.kind == "error":
            assert not _KERNEL.search(outcome.text), f"seed {seed}: {outcome.text}\n{query}"
        kinds[outcome.kind] += 1
    assert kinds["rows"] > len(seeds) // 10, kinds


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(20), marks=pytest.mark.long),
        pytest.param(range(20, 2_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_type_is_computed_or_refused_in_words_on_spark(
    session: sqlwin.Session, seeds: range
) -> None:
    n_rows = 0
    for seed in seeds:
        query = draw_query(seed)
        try:
            session.execute(query)[-1].to_arrow()
            n_rows += 1
        except sqlwin.SqlwinError as error:
            fault = fault_of(error, query) or _KERNEL.search(error.message)
            assert fault is None, f"seed {seed}: {fault}: {error}\n{query}"
    assert n_rows > len(seeds) // 2, n_rows
