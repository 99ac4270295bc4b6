"""Conversion of Python data to Spark DataFrames: pandas, Polars, Arrow, lists of dicts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from runtime.errors import AnalysisError
from runtime.frames.arrow_tables import create_frame
from runtime.spark.errors import translate_spark_errors
from runtime.spec.figures import count_text
from sqlwin.dataframes import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ACCEPTED = (
    "a Spark, pandas or Polars DataFrame, an Arrow table or record batch reader, or a list of dicts"
)
_ARROW_ERRORS = (pa.ArrowException, OverflowError, TypeError, ValueError)


def can_be_rows(data: object) -> bool:
    """Return whether `dataframe_of` accepts the type of `data`.

    Conversion can still fail because of its values.
    """
    if isinstance(data, list):
        return bool(data) and all(isinstance(row, Mapping) for row in data)
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    if _is_of("pyspark.sql", "DataFrame", data):
        return True
    return _is_of("pandas", "DataFrame", data) or _is_polars(data) or _exports_arrow(data)


def dataframe_of(spark: SparkSession, data: object, name: str) -> DataFrame:
    """Return the rows as a Spark DataFrame.

    A Spark DataFrame is returned unchanged. Other rows are copied, and a record batch reader is
    read to its end. Times are truncated to microseconds.

    Args:
        spark: Spark session to create the DataFrame in.
        data: Value for which `can_be_rows` is true.
        name: Name of the rows in error messages.

    Raises:
        TypeError: `data` holds no rows.
        AnalysisError: A column has values or a type without an equivalent in SQL.
    """
    from pyspark.sql import DataFrame

    if isinstance(data, DataFrame):
        return plain(data)
    if not can_be_rows(data):
        raise TypeError(f"`{name}` must be {ACCEPTED}, not {_description(data)}")
    table = _cast_to_sql_types(_arrow_table(data, name), name)
    with translate_spark_errors():
        return create_frame(spark, table)


def interactive_variables() -> Mapping[str, object]:
    """Return the variables of the notebook or the Python prompt, or none in a program."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        return cast(Mapping[str, object], shell.user_ns)
    return vars(sys.modules["__main__"]) if hasattr(sys, "ps1") else {}


def _description(data: object) -> str:
    if isinstance(data, list):
        return "an empty list, which has no columns" if not data else "a list of other values"
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


def _is_of(package: str, class_: str, data: object) -> bool:
    """Return whether `data` is an instance of a class, without importing its package."""
    dataframe_class = getattr(sys.modules.get(package), class_, None)
    return dataframe_class is not None and isinstance(data, dataframe_class)


def _is_polars(data: object) -> bool:
    return _is_of("polars", "DataFrame", data) or _is_of("polars", "LazyFrame", data)


def _exports_arrow(data: object) -> bool:
    """Return whether a value exports a stream of Arrow rows, as DuckDB's relations do."""
    if isinstance(data, type) or not hasattr(data, "__arrow_c_stream__"):
        return False
    # An Arrow array exports a stream too: of values, as a column without a name.
    return not isinstance(data, pa.ChunkedArray) and not _is_of("polars", "Series", data)


def _arrow_table(data: Any, name: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if isinstance(data, list):
        return _table_of_dicts(data, name)
    if _is_of("pandas", "DataFrame", data):
        return _table_of_pandas(data, name)
    if _is_polars(data):
        data = data.collect() if _is_of("polars", "LazyFrame", data) else data
        # Newer compatibility levels have dictionaries of string views, which Arrow cannot cast
        return data.to_arrow(compat_level=sys.modules["polars"].CompatLevel.oldest())
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except _ARROW_ERRORS as error:
        raise TypeError(f"`{name}` must be {ACCEPTED}, not {_description(data)}") from error


def _table_of_dicts(rows: list[Mapping[Any, Any]], name: str) -> pa.Table:
    """Return a table with a column for each key, in the order of first appearance."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"`{name}` has the key {key!r}, but column names are strings")
    columns = [_column(name, key, [row.get(key) for row in rows]) for key in keys]
    return pa.Table.from_arrays(columns, keys)


def _table_of_pandas(frame: Any, name: str) -> pa.Table:
    """Return the columns and the named levels of the index."""
    levels = [level for level in frame.index.names if level is not None]
    unnamed = [i for i, level in enumerate(frame.index.names) if level is None]
    if levels:
        frame = (frame.droplevel(unnamed) if unnamed else frame).reset_index()
    names = [str(column) for column in frame.columns]
    columns = [_column(name, names[i], frame.iloc[:, i]) for i in range(len(names))]
    return pa.Table.from_arrays(columns, names)


def _column(name: str, column: str, values: Any) -> pa.Array:
    try:
        if isinstance(values, list):
            return pa.array(values)
        return pa.Array.from_pandas(values)
    except _ARROW_ERRORS as error:
        raise _bad_column(name, column, error) from error


def _bad_column(name: str, column: str, error: BaseException) -> AnalysisError:
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else "SQL has no such type"
    if isinstance(error, OverflowError):
        reason = "a number exceeds BIGINT"
    return AnalysisError(
        f"cannot convert column `{column}` of `{name}` to SQL: {reason}",
        subjects=(column,),
        hint="use a single type for all values",
    )


# Types ------------------------------------------------------------------------------------------


def _cast_to_sql_types(table: pa.Table, name: str) -> pa.Table:
    """Convert the columns to types that Spark has.

    Raises:
        AnalysisError: The table has no columns, two columns have the same name, or a type has no
            counterpart in SQL.
    """
    if not table.num_columns:
        raise AnalysisError(
            f"`{name}` has {count_text(0, 'columns')}, but a table needs at least one"
        )
    lower_names = [column.lower() for column in table.column_names]
    twice = next((c for c in table.column_names if lower_names.count(c.lower()) > 1), None)
    if twice is not None:
        raise AnalysisError(
            f"`{name}` has two columns named `{twice}`; SQL ignores case",
            subjects=(twice,),
            hint="rename one of them",
        )
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        try:
            sql_type = _sql_type(field.type)
            columns.append(column if sql_type == field.type else _cast(column, sql_type))
            from_arrow_schema(
                pa.schema([pa.field(field.name, sql_type)]), prefer_timestamp_ntz=True
            )
        except Exception as error:
            if _is_about_values(error):
                raise _bad_column(name, field.name, error) from error
            raise AnalysisError(
                f"cannot convert column `{field.name}` of `{name}` to SQL: SQL has no type for "
                f"Arrow type {field.type}",
                subjects=(field.name,),
                hint="cast the column, or leave it out",
            ) from error
    return pa.Table.from_arrays(columns, table.column_names)


def _is_about_values(error: Exception) -> bool:
    """Return whether a conversion failed because of a value, and not because of the type."""
    # This subclass means that Arrow lacks the conversion, so it is about the type
    if isinstance(error, pa.ArrowNotImplementedError):
        return False
    return isinstance(error, pa.ArrowException | OverflowError)


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return _cast(cast(Any, pa).chunked_array([c.storage for c in column.chunks]), target)
    if pa.types.is_run_end_encoded(type_):
        return _cast(pc.run_end_decode(column), target)
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
    # Nothing below a microsecond is left after flooring, so the cast may truncate
    is_finer = pa.types.is_temporal(type_) and getattr(type_, "unit", "") == "ns"
    return column.cast(target, safe=not (is_finer or pa.types.is_nested(type_)))


def _sql_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type to convert a type to so that Spark accepts it.

    Example:
        >>> _sql_type(pa.dictionary(pa.int8(), pa.uint32())), _sql_type(pa.timestamp("ns"))
        (DataType(int64), TimestampType(timestamp[us]))
    """
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name not in _STORED_PLAINLY:
            raise TypeError(type_.extension_name)
        return _sql_type(type_.storage_type)
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return _sql_type(type_.value_type)
    if type_ in _PLAIN_TYPES:
        return _PLAIN_TYPES[type_]
    if types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if types.is_duration(type_):
        return pa.duration("us")
    if types.is_time(type_):
        return pa.time64("us")
    if types.is_decimal(type_):
        # Spark has no negative scales
        scale = max(type_.scale, 0)
        digits = type_.precision - type_.scale + scale
        if digits > _MAX_DIGITS:
            raise TypeError(str(type_))
        return pa.decimal128(digits, scale)
    if types.is_struct(type_):
        return pa.struct([f.with_type(_sql_type(f.type)) for f in type_])
    if types.is_map(type_):
        return pa.map_(_sql_type(type_.key_type), _sql_type(type_.item_type))
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(_sql_type(type_.value_type))
    return type_


# Digits of a decimal in Spark
_MAX_DIGITS = 38
# Arrow's extension types that are equivalent to their storage type
_STORED_PLAINLY = frozenset({"arrow.json", "arrow.uuid"})
_PLAIN_TYPES = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
