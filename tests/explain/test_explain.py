"""Plans as golden files: each NAME.sql is explained into NAME.plan.

The first line of a case may be `-- strategies: AUTO, ONE_PHASE`: it is then explained under each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from planner.explain.document import Document, to_json
from sqlwin.control import SessionControl
from sqlwin.execution.explain_formats import render
from tests import goldens
from tests.explain.documents import check_document

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*.sql"))


@pytest.mark.variants(15, long=16)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_plan_is_the_golden_one(case: Path, flights: sqlwin.Session, update_goldens: bool) -> None:
    sql = case.read_text()
    first = sql.splitlines()[0]
    strategies = ["AUTO"]
    if first.startswith("-- strategies:"):
        strategies = first.removeprefix("-- strategies:").replace(" ", "").split(",")
    texts = []
    for strategy in strategies:
        flights.execute(f"SET 'table.optimizer.agg-phase-strategy' = '{strategy}'")
        document = Document(SessionControl(flights).query_documents(sql))
        check_document(to_json(document))
        explained = render(document, "text")
        texts.append(f"-- table.optimizer.agg-phase-strategy = {strategy}\n{explained}")
    flights.execute("RESET 'table.optimizer.agg-phase-strategy'")
    head = f"-- made from {case.name} by `make goldens`\n"
    goldens.check(case.with_suffix(".plan"), head + "\n".join(texts), update_goldens)


def test_every_golden_plan_has_a_source() -> None:
    assert {p.stem for p in HERE.glob("*.plan")} == {p.stem for p in CASES}
