"""`sqlwin refresh` by name, by directory, and by a script of materialized tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlwin.cli.app import main
from tests.end_to_end.materialized.base import QUERY, TABLE, Base, stored_slices


def _refresh(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["refresh", "--no-progress", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.long
def test_a_refresh_takes_a_script_a_directory_or_a_name(commands: None, tmp_path: Path) -> None:
    base = Base(tmp_path / "in")
    base.write("day", 300)
    script = tmp_path / "fares.sql"
    path = tmp_path / "all" / "fares"
    script.write_text(
        f"{TABLE.format(base.root)};\nCREATE MATERIALIZED TABLE IF NOT EXISTS fares "
        f"WITH ('path' = '{path}') AS {QUERY};\nSELECT * FROM nowhere;\n"
    )
    assert "`fares` is up to date, version 1" in _refresh(str(script))
    base.write("more", 100)
    assert "1 new file; 100 rows read" in _refresh(str(path))
    base.write("again", 100)
    where = ("--set", f"sqlwin.materialized.dir={tmp_path / 'all'}")
    assert "1 new file; 100 rows read" in _refresh("fares", *where)
    assert stored_slices(path) == base.slices()
    result = CliRunner().invoke(main, ["refresh", "nothing", *where])
    assert result.exit_code == 1
    assert "materialized table `nothing` does not exist" in result.output
