"""The options of 'print' and 'blackhole', the connectors that only take rows."""

from __future__ import annotations

from runtime.connectors.columns import check_columns, unsupported_metadata
from runtime.connectors.options import Option, boolean, check_options, idle_options, whole_number
from runtime.spec.table import TableSpec

_PRINT = {
    "print-identifier": Option(),
    "standard-error": Option(boolean),
    "sink.parallelism": Option(whole_number(1), has_effect=False),
}
IDLE_OPTIONS = idle_options(_PRINT)


def validate_print(spec: TableSpec) -> None:
    """Check a print table: `print-identifier`, `standard-error`.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    _check(spec, _PRINT)


def validate_blackhole(spec: TableSpec) -> None:
    """Check a blackhole table, which has no options.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    _check(spec, {})


def _check(spec: TableSpec, known: dict[str, Option]) -> None:
    check_options(spec, known)
    check_columns(spec)
    if error := unsupported_metadata(spec):
        raise error
