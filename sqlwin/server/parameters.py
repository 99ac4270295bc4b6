"""Values of a client's parameters, and errors in PostgreSQL's codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pg_mimic import PgError

from runtime.errors import AnalysisError
from sqlwin.server.catalog.type_names import format_type
from sqlwin.server.translation import parameter_value

INVALID_VALUE, INVALID_BINARY, PROTOCOL_VIOLATION = "22P02", "22P03", "08P01"


def parameter_values(params: Sequence[Any], oids: Sequence[int | None]) -> list[object]:
    """Return the values of a statement's parameters.

    Args:
        params: Texts, lists of texts for arrays, or None for NULL.
        oids: Types that the client declared.

    Raises:
        PgError: A value is invalid for its type, or the number of values is wrong.
    """
    if len(params) != len(oids):
        raise PgError(
            PROTOCOL_VIOLATION,
            f"the statement has {len(oids)} parameters, but {len(params)} values were sent",
        )
    values = []
    for number, (param, oid) in enumerate(zip(params, oids, strict=True), 1):
        try:
            values.append(parameter_value(param, oid))
        except AnalysisError as error:
            type_ = format_type(oid, None)
            message = f"the value {param!r} of the parameter ${number} is invalid for {type_}"
            raise PgError(INVALID_VALUE, message) from error
    return values
