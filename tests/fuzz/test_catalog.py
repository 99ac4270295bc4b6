"""Random statements change tables, views, files and settings as their model says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.catalog_machine import CatalogMachine


def run_machine(n_examples: int, n_steps: int) -> None:
    """Run sessions with at most `n_steps` steps each. Raises the error of the shortest failure."""
    run_state_machine_as_test(
        CatalogMachine,
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    ("n_examples", "n_steps"),
    [
        (25, 25),
        pytest.param(200, 40, marks=pytest.mark.long),
        pytest.param(3_000, 50, marks=pytest.mark.slow),
    ],
)
def test_statements_change_the_session_as_their_model(n_examples: int, n_steps: int) -> None:
    run_machine(n_examples, n_steps)
