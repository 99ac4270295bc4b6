"""Definitions of Spark's declarative pipelines, in the context that spark-pipelines gives them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

import sqlwin
from runtime.errors import SetupError
from sqlwin import windows as w
from tests.unstarted import unstarted_spark


class Definitions(GraphElementRegistry):
    """A pipeline that takes no datasets."""

    def register_output(self, output: Any) -> None: ...

    def register_flow(self, flow: Any) -> None: ...

    def register_auto_cdc_flow(self, flow: Any) -> None: ...

    def register_sql(self, sql_text: str, file_path: Any) -> None: ...


class Rows(SimpleNamespace):
    """A DataFrame of a definition, which may not be analyzed."""

    sparkSession = None

    @property
    def isStreaming(self) -> bool:
        raise AssertionError("Spark forbids this in a definition")


@pytest.mark.parametrize(
    "use",
    [
        lambda: sqlwin.connect(unstarted_spark()),
        lambda: w.tumble(Rows(), "ts", "5 minutes"),
        lambda: w.hop(Rows(), "ts", "1 minute", "5 minutes"),
        lambda: w.session(Rows(), "ts", "5 minutes"),
    ],
    ids=["connect", "tumble", "hop", "session"],
)
def test_a_definition_of_a_pipeline_cannot_use_sqlwin(use: Callable[[], object]) -> None:
    with (
        graph_element_registration_context(Definitions()),
        pytest.raises(SetupError, match="declarative pipeline cannot use sqlwin") as raised,
    ):
        use()
    assert raised.value.hint is not None
    assert "after spark-pipelines run" in raised.value.hint


def test_a_program_that_imports_pipelines_may_use_sqlwin() -> None:
    session = sqlwin.connect(unstarted_spark())
    assert session.execute("SELECT 1 AS n")[0].to_arrow().to_pylist() == [{"n": 1}]
    session.close()
