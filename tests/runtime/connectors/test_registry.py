"""Connectors by name, imported on first use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from runtime.connectors.connector import Connector
from runtime.connectors.registry import CONNECTORS, input_checks, is_unbounded, validate_table
from runtime.files import LocalFiles
from runtime.spec.table import TableSpec
from runtime.streaming.source_log import SourceLog
from tests.goldens import ROOT
from tests.runtime.connectors.tables import table


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_has_the_name_of_its_entry(name: str) -> None:
    assert CONNECTORS[name].name == name


def test_connectors_are_listed_without_importing_them() -> None:
    code = (
        "import sys\n"
        "from runtime.connectors.registry import CONNECTORS, connector_of\n"
        "from runtime.spec.table import TableSpec\n"
        "assert 'kafka' in CONNECTORS and 'nope' not in CONNECTORS and len(list(CONNECTORS)) == 14\n"
        "connector_of(TableSpec('t', 'Blackhole'))\n"
        "print([n for n in sys.modules if n.endswith(('.blackhole', '.connector', '.datagen'))])"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "['runtime.connectors.connector', 'runtime.connectors.blackhole']\n"


@pytest.mark.parametrize("value", ["true", "TRUE", "false"])
def test_a_source_of_sparks_is_unbounded_where_its_option_says_so(value: str) -> None:
    spec = table("spark", format="delta", source__unbounded=value)
    validate_table(spec)
    assert is_unbounded(spec) == (value.lower() == "true")


def test_connectors_without_files_have_no_checks_of_a_streams_input() -> None:
    specs = [table("datagen", "k BIGINT"), table("KAFKA", "k BIGINT", topic="t")]
    checks = input_checks(cast(SparkSession, None), specs, SourceLog(LocalFiles(), "/nowhere"))
    checks.check(0)
    assert checks.find_incomplete(0) is None


def test_the_checks_of_all_connectors_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    class Checks:
        def __init__(self, spark: object, specs: Sequence[TableSpec], log: object) -> None:
            self.names = tuple(spec.name for spec in specs)

        def check(self, batch: int) -> None:
            calls.append((self.names, batch))

        def find_incomplete(self, batch: int) -> tuple[str, ...] | None:
            return None if self.names == ("u",) else self.names

    connectors = {name: Connector(name, validate_table) for name in ("a", "b", "c")}
    for name in ("a", "b"):
        connectors[name] = replace(connectors[name], check_input=Checks)
    monkeypatch.setattr("runtime.connectors.registry.CONNECTORS", connectors)
    specs = [TableSpec(*names) for names in (("t", "a"), ("u", "b"), ("v", "A"), ("w", "c"))]
    checks = input_checks(cast(SparkSession, None), specs, SourceLog(LocalFiles(), "/nowhere"))
    checks.check(7)
    assert calls == [(("t", "v"), 7), (("u",), 7)]
    assert checks.find_incomplete(7) == ("t", "v")
