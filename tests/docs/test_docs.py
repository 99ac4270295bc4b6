"""Pages of the documentation: the output below each block of SQL is what the SQL gives."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

import sqlwin
from sqlwin.display.table import write_table
from tests import goldens

pytestmark = pytest.mark.spark

PAGES = ["sql.md"]

# A block of SQL, and the block with its output where one follows
BLOCK = re.compile(r"```sql\n(?P<sql>.*?)```\n(?:```\n(?P<output>.*?)```\n)?", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_outputs_on_a_page_are_real(
    page: str, fresh_session: sqlwin.Session, update_goldens: bool
) -> None:
    path = goldens.ROOT / "docs" / page
    n_outputs = 0

    def with_output(block: re.Match[str]) -> str:
        nonlocal n_outputs
        shown = table_of(fresh_session, block["sql"])
        if block["output"] is None:
            return block[0]
        n_outputs += 1
        return f"```sql\n{block['sql']}```\n```\n{shown}```\n"

    goldens.check(path, BLOCK.sub(with_output, path.read_text()), update_goldens)
    assert n_outputs > 5


def table_of(session: sqlwin.Session, sql: str) -> str:
    """The rows of the last statement, as the command line shows them; no blanks at line ends."""
    *_, last = session.execute(sql)
    if not last.columns:
        return ""
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=False, color_system=None)
    write_table(last.columns, last.batches(), console, max_rows=None)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines() if line.strip())
