"""Mutated statements give rows or a readable error with a place, never anything else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.outcome import judge, new_session
from tests.fuzz.shrink import shrink
from tests.fuzz.statements import Statements


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Statements]:
    directory = tmp_path_factory.mktemp("data")
    before = Path.cwd()
    os.chdir(directory)
    yield Statements(directory)
    os.chdir(before)


@pytest.mark.parametrize("third", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_an_example_gives_rows_or_a_readable_error(statements: Statements, third: int) -> None:
    origins = ("queries/shapes", "docs")
    examples = [e for e in statements.examples if e.origin.startswith(origins)]
    for example in examples[third::3]:
        outcome = judge(new_session(example.before), example.text)
        assert outcome.kind != "fault", f"{example.origin}: {outcome.text}\n{example.text}"


@pytest.mark.parametrize(
    "numbers",
    [
        range(100),
        pytest.param(range(100, 400), marks=pytest.mark.long),
        *(
            pytest.param(range(n, n + 3_000), marks=pytest.mark.slow)
            for n in range(1_000, 19_000, 3_000)
        ),
    ],
    ids=str,
)
def test_a_mutated_statement_gives_rows_or_a_readable_error(
    statements: Statements, numbers: range
) -> None:
    kinds: Counter[str] = Counter()
    for number in numbers:
        example, text, outcome = statements.run(number)
        kinds[outcome.kind] += 1
        if outcome.kind == "fault":
            words = outcome.text.split(":")[0]

            def fails(shorter: str, example=example, words=words) -> bool:
                again = judge(new_session(example.before), shorter)
                return again.kind == "fault" and again.text.startswith(words)

            smallest = shrink(text, fails)
            raise AssertionError(
                f"statement {number}, of {example.origin}: {outcome.text}\n{smallest[:2_000]!a}"
            ) from outcome.cause
    # the others check little
    assert kinds["rows"] >= len(numbers) // 25, kinds
    assert kinds["error"] > len(numbers) // 20, kinds
