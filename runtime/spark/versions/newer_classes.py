"""Classes of PySpark that not every version has.

Where a version lacks one, an empty class takes its place, so that modules which derive from it can
be imported. No object of such a class reaches Spark: `capabilities.require` refuses its use first.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
    from pyspark.sql.types import CalendarIntervalType, VariantType
_SOURCES = "pyspark.sql.datasource"
_LIMITS = "pyspark.sql.streaming.datasource"
_STATE = "pyspark.sql.streaming.stateful_processor"
_TYPES = "pyspark.sql.types"
_MODULES = {
    "CalendarIntervalType": _TYPES,
    "DataSource": _SOURCES,
    "DataSourceArrowWriter": _SOURCES,
    "DataSourceReader": _SOURCES,
    "DataSourceStreamArrowWriter": _SOURCES,
    "DataSourceStreamReader": _SOURCES,
    "InputPartition": _SOURCES,
    "ReadAllAvailable": _LIMITS,
    "ReadLimit": _LIMITS,
    "ReadMaxRows": _LIMITS,
    "StatefulProcessor": _STATE,
    "StatefulProcessorHandle": _STATE,
    "SupportsTriggerAvailableNow": _LIMITS,
    "VariantType": _TYPES,
    "WriterCommitMessage": _SOURCES,
}

__all__ = [
    "CalendarIntervalType",
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "StatefulProcessor",
    "StatefulProcessorHandle",
    "SupportsTriggerAvailableNow",
    "VariantType",
    "WriterCommitMessage",
]


def __getattr__(name: str) -> Any:
    """Return a class, importing only its own module: workers start faster without the others."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULES[name]) if find_spec(_MODULES[name]) else None
    found = getattr(module, name, None) or type(name, (), {"__module__": __name__})
    globals()[name] = found
    return found
