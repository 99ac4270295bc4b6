"""pytest plugin: collects `*.sqlwin.yaml`, and has the fixtures `sqlwin_session` and `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sqlwin.session import Session
    from sqlwin.testing.cases import Case
    from sqlwin.testing.running import CaseResult

_SUFFIX = ".sqlwin.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("sqlwin")
    group.addoption(
        "--sqlwin-histories",
        type=int,
        default=10,
        metavar="N",
        help="number of random histories of each case in *.sqlwin.yaml",
    )
    group.addoption(
        "--sqlwin-seed", type=int, default=0, metavar="S", help="seed of the first history"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the cases of a test file."""
    if not file_path.name.endswith(_SUFFIX):
        return None
    return SqlwinFile.from_parent(parent, path=file_path)


class SqlwinFile(pytest.File):
    """A test file."""

    def collect(self) -> Iterable[pytest.Item]:
        """Yield its cases."""
        from sqlwin.testing.cases import read_cases
        from sqlwin.testing.documents import CaseFileError

        try:
            cases = read_cases(self.path)
        except CaseFileError as error:
            hint = "" if error.hint is None else f" ({error.hint})"
            raise self.CollectError(f"{error.message}{hint}") from error
        for case in cases:
            yield SqlwinCase.from_parent(self, name=case.name, case=case)


class CaseFailedError(Exception):
    """A case failed."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__()
        self.result = result


class SqlwinCase(pytest.Item):
    """A case of a test file."""

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.case = case

    def runtest(self) -> None:
        """Run the case in every way."""
        from sqlwin import connect
        from sqlwin.testing.running import TestOptions, run_case

        config = self.config
        options = TestOptions(
            config.getoption("--sqlwin-histories"), config.getoption("--sqlwin-seed")
        )
        result = run_case(connect, self.case, options)
        for note in result.notes:
            self.add_report_section("call", "sqlwin", note)
        if not result.has_passed:
            raise CaseFailedError(result)

    def repr_failure(  # type: ignore[override]  # pytest also accepts a text
        self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None
    ) -> object:
        """Return the text of a failure."""
        error = excinfo.value
        if not isinstance(error, CaseFailedError):
            return super().repr_failure(excinfo)
        result = error.result
        place = f"{result.case.path}:{result.case.line}"
        return "\n".join([place, *result.failures, *filter(None, [result.error])])

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the case."""
        return self.path, self.case.line - 1, self.name


@pytest.fixture
def sqlwin_session() -> Iterator[Session]:
    """A session of its own for a test. Spark starts only if a statement needs it."""
    from sqlwin import connect

    with connect() as session:
        yield session


@pytest.fixture
def simulate(sqlwin_session: Session) -> Callable[..., list[dict[str, Any]]]:
    """Function that runs a query in batch and in random histories, see docs/testing.md."""
    from sqlwin.testing.simulation import simulate_query

    def run(sql: str, tables: Any, **options: Any) -> list[dict[str, Any]]:
        return simulate_query(sqlwin_session, sql, tables, **options)

    return run
