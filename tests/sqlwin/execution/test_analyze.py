"""Operator counts in the document and the text of EXPLAIN ANALYZE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from planner.explain.analysis import analysis_text
from planner.explain.document import Analysis, OperatorEntry, QueryDocument, Tree, Trees
from runtime.frames.meter import Measured
from sqlwin.execution.analyze import as_written, run_figures

PLAN = {
    "p0": "Sort",
    "p1": "Calc",
    "p2": "GlobalWindowAggregate",
    "p3": "SharedSlices",
    "p4": "Exchange",
    "p5": "LocalWindowAggregate",
    "p6": "TableSourceScan",
}


def tree() -> Tree:
    """Return a chain of operators."""
    names = list(PLAN.items())
    operators = [
        OperatorEntry(operator_id, name, inputs=tuple(below for below, _ in names[i + 1 : i + 2]))
        for i, (operator_id, name) in enumerate(names)
    ]
    return Tree("p0", tuple(operators))


def figures(measured: dict[str, Measured], ui: str | None = None) -> Analysis:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(uiWebUrl=ui))
    return run_figures(spark, tree(), measured, 1.0)


def analysis(ui: str | None = None) -> Analysis:
    measured = {
        "p0": Measured(rows_out=7),
        "p1": Measured(rows_out=7),
        "p2": Measured(9, 7, seconds=0.5, peak_memory_bytes=100 << 20),
        "p4": Measured(12, 12, seconds=0.25, peak_memory_bytes=90 << 20),
        "p5": Measured(rows_out=12),
    }
    return figures(measured, ui)


def text_of(analysis: Analysis) -> str:
    trees = Trees(tree(), tree(), tree())
    return analysis_text(QueryDocument("SELECT 1", "", trees=trees, analysis=analysis))


def test_input_counts_give_the_output_of_the_operator_below() -> None:
    result = analysis().operators
    assert result["p3"].rows_out == 9
    assert result["p3"].rows_in == 12


def test_rows_that_are_left_out_are_not_aggregated() -> None:
    left_out = {"rows_filtered_out": 60, "rows_without_time": 10}
    scanned = {**left_out, "rows_scanned": 100}

    def local(rows_in: int, counters: dict[str, int]) -> Analysis:
        return figures({"p5": Measured(rows_in, 15, counters=counters)})

    result = local(100, scanned)
    assert result.operators["p5"].reduction == 2.0
    assert (
        "LocalWindowAggregate: 30 rows aggregated into 15 partials, 2.0 rows per partial"
        in text_of(result)
    )
    # rows of a stream are counted after its filters
    assert local(40, left_out).operators["p5"].reduction == 2.0


def test_observations_of_partial_fetches_are_ignored() -> None:
    top = "p0"
    measured = {top: Measured(rows_out=0, is_observed=True), "p5": Measured(7, 7)}
    assert as_written(measured, tree(), 3) == {top: Measured(rows_out=3), "p5": Measured(7, 7)}
    for written in (0, None):
        assert as_written(measured, tree(), written) == measured


def test_the_text_has_time_and_memory_of_the_operators_that_measure_them() -> None:
    lines = [" ".join(line.split()) for line in text_of(analysis()).splitlines()]
    assert any(line.endswith(" 500 ms 100.0 MiB") for line in lines)
    assert "stage" not in text_of(analysis())


def test_python_operators_have_their_stages_and_skew() -> None:
    result = figures({
        "p2": Measured(9, 7, tasks=((3, 0, 0.5), (3, 1, 0.25))),
        "p4": Measured(9, 9, tasks=((2, 0, 1.0), (2, 1, 2.0), (2, 2, 6.0))),
        # in the stage of the exchange, with the same tasks
        "p5": Measured(9, 9, tasks=((2, 0, 1.0), (2, 1, 0.0), (2, 2, 2.0))),
    })  # fmt: skip
    exchange, merged = result.stages
    assert (exchange.id, exchange.operators, exchange.tasks) == (2, ("p5", "p4"), 3)
    assert (exchange.seconds, exchange.median_seconds, exchange.slowest_seconds) == (12, 2, 8)
    assert exchange.skew == 4.0
    assert (merged.operators, merged.skew) == (("p2",), pytest.approx(4 / 3))
    assert text_of(result).rstrip().endswith("1.3x  GlobalWindowAggregate")


def test_stages_of_micro_batches_with_the_same_operators_are_one() -> None:
    tasks = ((5, 0, 1.0), (5, 1, 3.0), (9, 0, 10.0), (9, 1, 10.0), (12, 0, 4.0))
    (stage,) = figures({"p5": Measured(9, 9, tasks=tasks)}).stages
    assert (stage.id, stage.tasks, stage.seconds, stage.slowest_seconds) == (5, 5, 28.0, 10.0)
    # of the values within a micro-batch, 1.5 and 1; a single task has no ratio
    assert stage.skew == 1.25


def test_spark_s_ui_is_named_where_it_is_on() -> None:
    assert "Spark UI:" not in text_of(analysis())
    text = text_of(analysis("http://localhost:4040"))
    assert text.endswith("\nSpark UI: http://localhost:4040/SQL/\n")


def test_counts_pass_through_operators_that_keep_rows() -> None:
    result = analysis()
    assert (result.rows_out, result.stages) == (7, ())
    assert result.operators["p2"].rows_in == 9
