"""Random statements change tables, views, files and settings as their model says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.conftest import drop_views
from tests.fuzz.catalog_machine import CatalogMachine
from tests.fuzz.spark_machine import SparkMachine


def run_machine(
    n_examples: int,
    n_steps: int,
    machine: type[CatalogMachine] = CatalogMachine,
    *,
    derandomize: bool = True,
) -> None:
    """Run sessions with at most `n_steps` steps each. Raises the error of the shortest failure."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    ("n_examples", "n_steps"),
    [
        (12, 25),
        pytest.param(40, 40, marks=pytest.mark.long),
        pytest.param(3_000, 50, marks=pytest.mark.slow),
    ],
)
def test_statements_change_the_session_as_their_model(n_examples: int, n_steps: int) -> None:
    run_machine(n_examples, n_steps)


@pytest.mark.parametrize(
    ("n_examples", "n_steps"),
    [
        pytest.param(6, 20, marks=pytest.mark.long),
        pytest.param(200, 40, marks=pytest.mark.slow),
    ],
)
def test_statements_with_materialized_tables_change_spark_as_their_model(
    n_examples: int, n_steps: int, spark: SparkSession
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    SparkMachine.spark = spark
    try:
        run_machine(n_examples, n_steps, SparkMachine)
    finally:
        drop_views(spark)
        spark.conf.set("spark.sql.session.timeZone", str(zone))
