"""Every module can be imported on every PySpark."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import planner
import runtime
import sqlwin

# Modules that the named program imports, which need its package
OF_PROGRAMS = {"sqlwin.dbapi.harlequin": "harlequin"}


@pytest.mark.parametrize("package", [runtime, planner, sqlwin], ids=lambda p: p.__name__)
def test_every_module_can_be_imported(package: object) -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.endswith(".__main__")
    ]
    assert len(names) > 100
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            assert error.name == OF_PROGRAMS.get(name), f"{name}: {error}"
