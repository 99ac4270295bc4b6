"""Run the examples in the planner's docstrings. Every rule has one.

Examples of rules call `before_after(rule, sql, ...)`, which plans queries over two tables of the same
columns, `trips` (Parquet files) and `rides` (a stream), without Spark.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

import planner
from planner.binder.binder import bind
from planner.catalog import Schema, StreamTable, VersionedTable
from planner.explain.build import rule_summary, tree
from planner.explain.operators import logical_operators, physical_operators
from planner.nodes.logical import Node
from planner.nodes.physical import to_physical
from planner.optimizer import Options, Stage, Trace, optimize_together
from planner.rules import LOGICAL_STAGES, PHYSICAL_STAGES, RULE_NAMES, SCAN_STAGES, SHARING_RULE
from planner.sql.build import to_sql
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.materialized import LocalForm, SliceFiles, SliceKey, SlicePartial, SliceTable
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column, Watermark
from runtime.windows.tumble import Tumble
from sqlwin.parser.parser import parse_query
from tests.planner.catalog import Catalog as Tables

TYPES = {"ts": "timestamp_ntz", "city": "string", "fare": "bigint"}
STREAM = StreamTable("rides", Watermark("ts", "ts"))
COLUMNS = tuple(Column(name, type_) for name, type_ in TYPES.items())
HOURLY = SliceTable(
    "hourly",
    "hourly",
    7,
    LocalForm(
        "trips",
        "ts",
        "timestamp_ntz",
        "",
        Tumble(3_600_000_000),
        (SliceKey("city", "city", "string"),),
        (SlicePartial("SUM(fare)", Merge(("sum_fare",), MergeOp.SUM), ("bigint",)),),
        (),
    ),
)


class Catalog(Tables):
    """The tables `trips` and `rides`; names and types of queries are inferred by sqlglot."""

    def __init__(self, has_slices: bool = False) -> None:
        super().__init__(STREAM)
        self.has_slices = has_slices

    def scan_source(
        self, name: tuple[str, ...], columns: Schema, filters: object = ()
    ) -> ScanSource:
        return ScanSource("trips", (), columns)

    def versions(self, name: tuple[str, ...]) -> VersionedTable | None:
        return VersionedTable(("city",), "ts") if name == ("rides",) else None

    def slice_tables(self, base: str) -> Sequence[SliceTable]:
        return [HOURLY] if self.has_slices and base == "trips" else []

    def slice_files(self, table: SliceTable, *_: object) -> SliceFiles:
        return SliceFiles((), 1_000)

    def analyze(self, query: exp.Query, relations: Mapping[str, Schema]) -> Schema:
        tables = {**relations, "trips": COLUMNS, "rides": COLUMNS}
        schema = {
            name: {c.name: c.type.replace("timestamp_ntz", "timestamp") for c in columns}
            for name, columns in tables.items()
        }
        mapping = MappingSchema(schema, dialect="spark", normalize=False)
        text = exp.maybe_parse(to_sql(query), dialect="spark")
        typed = annotate_types(qualify(text, schema=mapping, dialect="spark"), schema=mapping)
        return tuple(Column(item.alias_or_name, _type(item)) for item in typed.selects)


def _type(item: exp.Expr) -> str:
    result = item.type.sql(dialect="spark").lower()
    return "timestamp_ntz" if result == "timestamp" else result


def before_after(rule: str, *queries: str) -> None:
    """Print plans before and after a rule, as EXPLAIN draws them, from the first difference.

    The rules before it have been applied to both.
    """
    catalog: Any = Catalog(rule in ("answer_from_slices", "narrow_slices"))
    options = Options(catalog=catalog)
    plans = [bind(parse_query(sql), sql, catalog).plan for sql in queries]  # type: ignore[arg-type]
    for name, step in _steps(rule, options):
        after = step(plans)
        if name == rule:
            break
        plans = after
    describe = physical_operators if rule in _PHYSICAL_RULES else logical_operators
    for title, result, others in (("before", plans, after), ("after", after, plans)):
        print(f"{title}:")
        drawn: set[int] = set()
        for plan, other in zip(result, others, strict=True):
            while _differ_below(plan, other):
                (plan,), (other,) = plan.inputs, other.inputs
            print("\n".join(tree(plan, describe, drawn)))


Plans = Sequence[Node]


def _steps(rule: str, options: Options) -> Iterator[tuple[str, Callable[[Plans], Plans]]]:
    """Yield the steps applied to plans, in order, with their names."""

    def staged(stage: Stage) -> tuple[str, Callable[[Plans], Plans]]:
        rules = [entry for entry in stage.rules if entry.__name__ == rule] or stage.rules
        only = [Stage(stage.name, rules)]

        def run(plans: Plans) -> Plans:
            return optimize_together(plans, only, options, [Trace() for _ in plans])

        return rules[0].__name__, run

    yield from map(staged, LOGICAL_STAGES)
    yield "to_physical", lambda plans: [to_physical(plan) for plan in plans]
    yield from map(staged, PHYSICAL_STAGES)
    yield (
        SHARING_RULE.__name__,
        lambda plans: SHARING_RULE(plans, [Trace() for _ in plans], options),
    )
    yield from map(staged, SCAN_STAGES)


_PHYSICAL_RULES = {
    SHARING_RULE.__name__,
    *(rule.__name__ for stage in (*PHYSICAL_STAGES, *SCAN_STAGES) for rule in stage.rules),
}


def _differ_below(plan: Node, other: Node) -> bool:
    if len(plan.inputs) != 1 or len(other.inputs) != 1:
        return False
    has_more = all(side.inputs[0].inputs for side in (plan, other))
    return has_more and plan != other and plan.with_inputs(*other.inputs) == other


def modules() -> list[str]:
    """Return all modules of the planner, and one below it with examples."""
    result = pkgutil.walk_packages(planner.__path__, "planner.")
    return [*(m.name for m in result), "runtime.windows.intervals"]


def examples(module: str) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"before_after": before_after}
    result = finder.find(importlib.import_module(module), extraglobs=names)
    return [test for test in result if test.examples]


EXAMPLES = {test.name: test for module in modules() for test in examples(module)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_the_documented_output(name: str) -> None:
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, _ = runner.run(EXAMPLES[name], out=output.append)
    assert not failed, "".join(output)


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_rule_has_a_sentence_that_explain_shows_and_an_example(rule: str) -> None:
    text = rule_summary(rule)
    assert text.endswith(".") and 20 < len(text) <= 100, text
    assert any(name.endswith(f".{rule}.{rule}") for name in EXAMPLES)
