"""Register Python user-defined functions in Spark SQL."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType

from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import one_chunk
from runtime.compute.user_aggregates import accumulate_rows, finish_states, merge_states, no_groups
from runtime.errors import AnalysisError, ExecutionError
from runtime.spark.versions.capabilities import PYTHON_FUNCTIONS, require
from runtime.spark.versions.casts import type_from_ddl
from runtime.spec.user_aggregates import (
    UserAggregate,
    UserDefinedAggregateFunction,
    name_with_filter,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def register_scalar(
    spark: SparkSession, name: str, function: Callable[..., pa.Array], returns: str
) -> None:
    """Register a function of Arrow arrays under a name in Spark SQL.

    Args:
        spark: Spark session.
        name: SQL name.
        function: Called per batch with an array for each argument; returns an array of equal
            length.
        returns: Spark type of the result.

    Raises:
        AnalysisError: The name, the type or the function is invalid.
    """
    _check_name(name)
    type_ = _type(f"function {name}", "returns", returns)
    if not callable(function):
        raise AnalysisError(f"function {name} must be callable, not {function!r}")

    def call_vectorised(*columns: pa.Array) -> pa.Array:
        result = function(*columns)
        if not isinstance(result, pa.Array | pa.ChunkedArray):
            result = pa.array(result)
        if columns and len(result) != len(columns[0]):
            raise ExecutionError(
                f"function {name} returned {len(result)} values for {len(columns[0])} rows"
            )
        return one_chunk(result)

    spark.udf.register(name, as_arrow_udf(call_vectorised, type_))


def register_aggregate(
    spark: SparkSession, name: str, aggregate: UserDefinedAggregateFunction
) -> UserAggregate:
    """Register an aggregate under a name in Spark SQL, where it runs group by group.

    Spark has no FILTER clause for Python functions, so `name_with_filter` is a variant that takes a
    condition as its first argument.

    Returns:
        Description for the planner, which runs the aggregate on slices.

    Raises:
        AnalysisError: The name or the aggregate is invalid.
    """
    _check_name(name)
    if not isinstance(aggregate, UserDefinedAggregateFunction):
        what = aggregate.__name__ if inspect.isclass(aggregate) else type(aggregate).__name__
        raise AnalysisError(
            f"aggregate {name} must be a sqlwin.Aggregate, not {what}"
            + (" (a class)" if inspect.isclass(aggregate) else ""),
            hint=f"use an instance: register_aggregate('{name}', {what}())",
        )
    for attribute in ("state", "returns"):
        if not getattr(aggregate, attribute, None):
            raise AnalysisError(
                f"aggregate {name}: {type(aggregate).__name__} has no `{attribute}`",
                hint="for example state = {'total': 'double'} and returns = 'double'",
            )
    for field, type_ in aggregate.state.items():
        _arrow_type(f"aggregate {name}", f"state['{field}']", type_)
    _arrow_type(f"aggregate {name}", "returns", aggregate.returns)
    result_type = _type(f"aggregate {name}", "returns", aggregate.returns)

    def call_for_group(*columns: pa.Array) -> Any:
        plain = [one_chunk(column) for column in columns]
        groups = np.zeros(len(plain[0]) if plain else 0, np.int64)
        return finish_states(aggregate, accumulate_rows(aggregate, groups, 1, plain))[0].as_py()

    def call_for_rows(condition: pa.Array, *columns: pa.Array) -> Any:
        is_chosen = one_chunk(condition).fill_null(False)
        if is_chosen.true_count:
            return call_for_group(*(one_chunk(column).filter(is_chosen) for column in columns))
        nothing = [pa.array([], arrow_type(type_)) for type_ in aggregate.state.values()]
        return finish_states(aggregate, merge_states(aggregate, no_groups(), 1, nothing))[0].as_py()

    for known_as, function in ((name, call_for_group), (name_with_filter(name), call_for_rows)):
        spark.udf.register(known_as, as_arrow_udf(function, result_type, is_aggregate=True))
    return UserAggregate(name, aggregate, tuple(aggregate.state), aggregate.returns.lower())


def as_arrow_udf(
    function: Callable[..., Any], returns: DataType, *, is_aggregate: bool = False
) -> Any:
    """Return a function of columns that Spark computes with a function of Arrow arrays.

    Args:
        function: Returns an array, or one value if it is an aggregate.
        returns: Type of the result.
        is_aggregate: Whether it gets the rows of a group.

    Raises:
        SetupError: PySpark passes no Arrow arrays to functions.
    """
    require(PYTHON_FUNCTIONS)
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

    kind = ArrowUDFType.GROUPED_AGG if is_aggregate else ArrowUDFType.SCALAR
    with warnings.catch_warnings():
        # PySpark prefers to infer the kind from type hints, which cannot express a variable number
        # of columns; nor do its stubs have an overload for that.
        warnings.simplefilter("ignore", UserWarning)
        return cast(Any, arrow_udf)(function, returnType=returns, functionType=kind)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise AnalysisError(
            f"invalid function name {name!r}", hint="use letters, digits and underscores"
        )


def _type(what: str, attribute: str, text: str) -> DataType:
    try:
        return type_from_ddl(text)
    except PySparkException as error:
        raise AnalysisError(
            f"{what}: {attribute} has the unknown type '{text}'",
            hint="for example bigint, double, string, timestamp_ntz, decimal(10,2)",
        ) from error


def _arrow_type(what: str, attribute: str, text: str) -> None:
    _type(what, attribute, text)
    try:
        arrow_type(text)
    except KeyError as error:
        raise AnalysisError(
            f"{what}: {attribute} has the type '{text}', which is not supported in partial results",
            hint="use a number, string, binary, boolean, date, timestamp, or an array of those",
        ) from error
