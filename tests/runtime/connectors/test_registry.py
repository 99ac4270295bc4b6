"""Connectors by name, imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime.connectors.registry import CONNECTORS, is_unbounded, validate_table
from tests.goldens import ROOT
from tests.runtime.connectors.tables import table


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_has_the_name_that_it_is_found_by(name: str) -> None:
    assert CONNECTORS[name].name == name


def test_what_there_is_is_known_without_importing_any() -> None:
    code = (
        "import sys\n"
        "from runtime.connectors.registry import CONNECTORS, connector_of\n"
        "from runtime.spec.table import TableSpec\n"
        "assert 'kafka' in CONNECTORS and 'nope' not in CONNECTORS and len(list(CONNECTORS)) == 11\n"
        "connector_of(TableSpec('t', 'Blackhole'))\n"
        "print([n for n in sys.modules if n.endswith(('.blackhole', '.connector', '.datagen'))])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "['runtime.connectors.connector', 'runtime.connectors.blackhole']\n"


@pytest.mark.parametrize("value", ["true", "TRUE", "false"])
def test_a_source_of_sparks_is_unbounded_where_its_option_says_so(value: str) -> None:
    spec = table("spark", format="delta", source__unbounded=value)
    validate_table(spec)
    assert is_unbounded(spec) == (value.lower() == "true")
