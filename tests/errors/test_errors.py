"""Error messages as golden files: each NAME.sql must fail with the report in NAME.err."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from tests import goldens

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*.sql"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_error_is_the_golden_one(case: Path, flights: sqlwin.Session, update_goldens: bool) -> None:
    with pytest.raises(sqlwin.SqlwinError) as caught:
        for result in flights.execute_iter(case.read_text(), case.name):
            assert result.rows is not None
    report = str(caught.value).replace(str(goldens.ROOT), "<root>")
    assert "Exception" not in report
    assert "Traceback" not in report
    assert "org.apache" not in report
    assert len(report.splitlines()) <= 8
    goldens.check(case.with_suffix(".err"), report + "\n", update_goldens)


def test_every_golden_error_has_a_source() -> None:
    assert {p.stem for p in HERE.glob("*.err")} == {p.stem for p in CASES}
