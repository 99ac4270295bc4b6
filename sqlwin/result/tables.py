"""Arrow tables as pandas and Polars DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.errors import ExecutionError, MissingPackageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def pandas_frame(table: Callable[[], pa.Table]) -> pd.DataFrame:
    """Convert the table that a function returns, and release each Arrow column once it is copied.

    Raises:
        MissingPackageError: Pandas is not installed. The function was not called then.
    """
    if find_spec("pandas") is None:
        raise _missing("pandas", "to_pandas()")
    return _to_pandas(table())


def polars_frame(columns: list[str], table: Callable[[], pa.Table]) -> pl.DataFrame:
    """Convert the table with `columns` that a function returns.

    Raises:
        MissingPackageError: Polars is not installed. The function was not called then.
        ExecutionError: Two columns have the same name.
    """
    try:
        import polars
    except ImportError as error:
        raise _missing("polars", "to_polars()") from error
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ExecutionError(
            f"two columns are named `{twice}`, which Polars does not support",
            hint="rename one of them: SELECT ... AS name",
        )
    frame = polars.from_arrow(table())
    assert isinstance(frame, polars.DataFrame)
    return frame


def _missing(package: str, feature: str) -> MissingPackageError:
    return MissingPackageError(
        f"{feature} requires the package {package}", hint=f"pip install {package}"
    )


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    # imports PySpark
    from sqlwin.display.python_values import leaves_calendar, python_values

    with_nulls = [
        i
        for i in range(table.num_columns)
        if table.column(i).null_count and pa.types.is_integer(table.column(i).type)
    ]
    converted = {i: table.column(i).to_pandas(types_mapper=_nullable_type) for i in with_nulls}
    for i in with_nulls:
        table = table.set_column(i, table.column_names[i], pa.nulls(table.num_rows))
    for i, column in enumerate(table.columns):
        if any(leaves_calendar(chunk) for chunk in column.chunks):
            converted[i] = [value for chunk in column.chunks for value in python_values(chunk)]
            table = table.set_column(i, table.column_names[i], pa.nulls(table.num_rows))
    frame: pd.DataFrame = table.to_pandas(
        split_blocks=True, self_destruct=True, maps_as_pydicts="strict"
    )
    for i, values in converted.items():
        frame.isetitem(i, values)
    return frame


def _nullable_type(type_: pa.DataType) -> object:
    import pandas

    return pandas.api.types.pandas_dtype(f"Int{type_.bit_width}")  # Spark has no unsigned integers
