"""Tables of a script that read two other tables, of the connector `hybrid`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from runtime.spec.table import TableSpec
from sqlwin.statements.nodes import CreateTable
from sqlwin.testing.cases import Case
from sqlwin.testing.documents import CaseFileError


def reads_tables(statement: CreateTable) -> bool:
    """Return whether a table reads other tables."""
    options = {name.lower(): value for name, value in statement.options}
    return options.get("connector", "").lower() == "hybrid"


def with_parts(statement: CreateTable, spec: TableSpec) -> CreateTable:
    """Return a statement with the definitions that its table copies from others."""
    return replace(
        statement,
        columns=spec.columns,
        watermark=spec.watermark,
        primary_key=spec.primary_key,
    )


def check_parts(
    case: Case, spec: TableSpec, given: Collection[str], waits: Collection[tuple[str, int]]
) -> None:
    """Check the rows of the tables that a table reads.

    Args:
        case: Case.
        spec: Table that reads them.
        given: Lower-case names of tables with rows.
        waits: Tables and rows before which processing time passes.

    Raises:
        CaseFileError: One has no rows in the test file, or time passes before a row.
    """
    parts = [part.name.lower() for part in spec.parts]
    for table in case.tables:
        where = f"{case.path}:{table.line}: table `{table.name}`"
        if table.name.lower() not in parts:
            continue
        if missing := [part for part in parts if part not in given]:
            raise CaseFileError(
                f"{where} is a part of `{spec.name}`, and so is `{missing[0]}`, which has no rows",
                hint=f"give rows of both, or of `{spec.name}`",
            )
        if any(part == table.name.lower() for part, _ in waits):
            raise CaseFileError(
                f"{where} is a part of `{spec.name}`, whose rows cannot wait",
                hint=f"give rows of `{spec.name}`",
            )
