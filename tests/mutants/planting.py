"""Plant a fault into a module when it is loaded, and run the battery in this process."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType

from tests.mutants.faults import FAULTS, Fault


class _Loader(SourceFileLoader):
    """Loads a module with a fault."""

    fault: Fault

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_source(fullname) or ""
        n_places = text.count(self.fault.old)
        assert n_places == 1, f"{fullname} has {n_places} places for '{self.fault.name}'"
        return compile(text.replace(self.fault.old, self.fault.new), self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the module of a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(self, fullname, path, target=None) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.fault = self._fault
        spec.loader = loader
        return spec


def run(number: int | None) -> str | None:
    """Plant a fault and return the first problem of the battery, or None.

    Args:
        number: Number of the fault. None: no fault.
    """
    if number is not None:
        fault = FAULTS[number]
        assert fault.module not in sys.modules, "the module has been loaded without the fault"
        sys.meta_path.insert(0, _Finder(fault))
    from tests.mutants.battery import problems

    try:
        return next(problems("" if number is None else FAULTS[number].first), None)
    except Exception as error:  # any failure reveals the fault
        if number is None:
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


if __name__ == "__main__":
    problem = run(int(sys.argv[1]) if sys.argv[1:] else None)
    print(problem or "nothing found")
    sys.exit(0 if problem is None else 1)
