"""`sqlwin lsp` without its extra."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from sqlwin.cli.app import main


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sqlwin.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    result = CliRunner().invoke(main, ["lsp"])
    assert result.exit_code == 3
    assert "sqlwin lsp requires the package pygls" in result.output
    assert "pip install '.[lsp]' in a clone of sqlwin" in result.output
