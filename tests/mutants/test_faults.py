"""The planted faults fit the code, and the simulator finds them."""

from __future__ import annotations

import pytest

from tests.goldens import ROOT
from tests.mutants.__main__ import LEAST, find
from tests.mutants.faults import FAULTS, Fault

# Found within seconds, one of each kind
SOME = [
    "windows are emitted twice",
    "metadata is not written",
    "rows exactly a gap apart are two sessions",
    "rows of a window over windows arrive together",
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_of_a_fault_occurs_once_in_its_module(fault: Fault) -> None:
    path = ROOT / f"{fault.module.replace('.', '/')}.py"
    assert path.read_text().count(fault.old) == 1
    assert fault.old != fault.new


@pytest.mark.long
@pytest.mark.parametrize("name", SOME)
def test_the_simulator_finds_a_fault(name: str) -> None:
    (number,) = (n for n, fault in enumerate(FAULTS) if fault.name == name)
    is_found, problem = find(number)
    assert is_found, problem


@pytest.mark.slow
def test_the_simulator_finds_planted_faults_only() -> None:
    assert find(None) == (False, "nothing found")
    missed = [fault.name for number, fault in enumerate(FAULTS) if not find(number)[0]]
    assert len(FAULTS) - len(missed) >= LEAST, missed
