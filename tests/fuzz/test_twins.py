"""A query has the same rows and columns in whichever of its ways it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import SqlwinError
from sqlwin.statements.nodes import Query
from sqlwin.statements.parse import parse_statement
from tests.fuzz.corpus import Example, examples, write_data
from tests.fuzz.outcome import new_session
from tests.fuzz.twin_roads import TwinRoads, twin_fault
from tests.fuzz.twins import AS_CTES
from tests.unstarted import NeedsSparkError


@pytest.mark.parametrize(
    "seeds",
    [
        range(800_000, 800_005),
        pytest.param(range(800_005, 800_017), marks=pytest.mark.long),
        pytest.param(range(800_017, 802_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_twins_of_a_random_query_have_its_rows(seeds: range, tmp_path: Path) -> None:
    roads = TwinRoads(tmp_path)
    for seed in seeds:
        fault = roads.check(seed)
        assert fault is None, fault
    assert roads.counts[AS_CTES] > len(seeds) // 10, roads.counts
    assert roads.counts["* for columns, as a stream"] > len(seeds) // 3, roads.counts


@pytest.mark.parametrize(
    "one_of",
    [
        pytest.param(7, marks=pytest.mark.long),
        pytest.param(1, marks=pytest.mark.slow),
    ],
)
def test_twins_of_an_example_have_its_rows(
    one_of: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    chosen = [example for example in examples(tmp_path) if _is_compared(example)]
    n_compared = 0
    for example in chosen[::one_of]:
        session = new_session(example.before)
        try:
            fault = twin_fault(session, example.text)
        except (NeedsSparkError, SqlwinError):
            continue
        finally:
            session.close()
        assert fault is None, f"{example.origin}: {example.text}\n{fault}"
        n_compared += 1
    assert n_compared > 250 / one_of


def _is_compared(example: Example) -> bool:
    """Return whether an example is a query that determines its rows.

    Double quotes have a meaning in a statement that its twins, with other quotes, do not have.
    """
    try:
        is_query = isinstance(parse_statement(example.text), Query)
    except SqlwinError:
        return False
    words = ("LIMIT", "FETCH", "CURRENT_", "NOW(", "RAND", "UUID", '"')
    return is_query and not any(word in example.text.upper() for word in words)
