"""Results of statements, as a sum type.

A `Result` is one of six frozen dataclasses, one per kind of statement. Distinguish them with
`match` or `isinstance`. All have the methods of `StatementResult`, such as `to_arrow`, `batches`,
`show`.

The rows of a query have one protocol, `sqlwin.result.protocol.QueryRows`: a schema and record
batches. Three classes implement it: `InProcessRows`, `SparkRows` and `StreamedRows`.

This package does not know how statements run. `sqlwin.execution` creates results, and passes
execution records, error translators and started streams as objects with the protocols defined here.
"""

from __future__ import annotations

from sqlwin.result.base import StatementResult
from sqlwin.result.stream import OpenStream, StartedStream, StreamedRows
from sqlwin.result.variants import (
    ExplainResult,
    InsertResult,
    MessageResult,
    RowsResult,
    StreamResult,
    TableResult,
)

__all__ = [
    "ExplainResult",
    "InsertResult",
    "Inserted",
    "MessageResult",
    "OpenStream",
    "Result",
    "RowsResult",
    "StartedStream",
    "StatementResult",
    "StreamResult",
    "StreamedRows",
    "TableResult",
]

# Result of an INSERT
Inserted = InsertResult | StreamResult
Result = RowsResult | TableResult | ExplainResult | MessageResult | InsertResult | StreamResult
