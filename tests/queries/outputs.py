"""The files of queries/ and the text of their results."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import sqlwin
from sqlwin.display.formats import write_csv
from tests.goldens import ROOT

HERE = Path(__file__).parent
# Nexmark's queries have no order, and are compared with DuckDB's results instead of golden files.
# dbt's are no scripts: test_dbt.py runs them
EVERY_QUERY = sorted(
    path for path in (ROOT / "queries").rglob("*.sql") if not {"nexmark", "dbt"} & set(path.parts)
)


def golden_of(query: Path) -> Path:
    """Return the golden file of a query's file."""
    name = str(query.relative_to(ROOT / "queries").with_suffix(".out"))
    return HERE / name.replace("/", "-")


def write_results(session: sqlwin.Session, script: str, name: str, out: io.StringIO) -> None:
    """Run a script and write its results as CSV, along with its own output.

    Args:
        session: Session.
        script: Statements.
        name: Name of the script in errors.
        out: Where to write. If a statement fails, the results before it are there.
    """
    with contextlib.redirect_stdout(out):
        for result in session.execute_iter(script, name):
            if result.kind == "explain":
                out.write(result.text)
            elif result.columns:
                write_csv(result.columns, result.batches(), out.write)
            if result.kind in ("query", "explain", "table"):
                out.write("\n")
