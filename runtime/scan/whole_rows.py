"""Read whole rows of Parquet files with Spark's types, for stores that Spark has no reader for.

Files are cut into byte ranges, and each task finds the row groups of its ranges. So the files need
not be opened in advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runtime.errors import ExecutionError
from runtime.refusal import Refused
from runtime.scan.metadata import footer_of, is_on_old_calendar, read_footer
from runtime.scan.ranges import FileRange
from runtime.scan.read import read_ahead
from runtime.scan.splits import row_groups_in
from runtime.scan.stores import Store, explain_errors, open_stored, why_of
from runtime.spec.scan import ScanFile

# Maximum digits of a decimal in Spark
MAX_DIGITS = 38
_BATCH_ROWS = 1 << 16
_INSTANT = pa.timestamp("us", tz="UTC")
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
# Column types in a file that may be widened to the table's type
_WIDENED = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(), pa.float64()),
    pa.float32(): (pa.float64(),),
}


def row_schema(file: ScanFile, store: Store) -> pa.Schema:
    """Return the columns of a file with the Arrow types of their Spark types.

    A column for which Spark has no type keeps its own, which `spark_arrow_type` refuses.

    Raises:
        ExecutionError: The file cannot be read.
    """
    try:
        return _schema(read_footer(file, store), file.path)
    except Refused as refused:
        raise ExecutionError(refused.refusal.reason) from refused


def read_part(
    part: FileRange, schema: pa.Schema, values: Mapping[str, pa.Scalar], store: Store
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a part of a file, with the names and types of `schema`.

    A column missing from the file is NULL.

    Args:
        part: Part to read.
        schema: Columns, in types of `row_schema`.
        values: Values that are constant within the file.
        store: Object store of the file.

    Raises:
        ExecutionError: The file cannot be read, or a column has another type.
    """
    path = part.file.path
    try:
        with explain_errors(store, path):
            opened = open_stored(store, path)
            footer = footer_of(opened, path)
    except Refused as refused:
        raise ExecutionError(refused.refusal.reason) from refused
    except OSError as error:
        raise ExecutionError(f"cannot read {path}: {error.strerror or error}") from error
    file_schema = _schema(footer, path)
    names = {field.name: _find_column(file_schema, field.name) for field in schema}
    for field in schema:
        name = names[field.name]
        if name is not None and field.name not in values:
            _check_type(path, name, file_schema.field(name).type, field.type)
    read = [n for target, n in names.items() if n is not None and target not in values]
    instants = frozenset(name for name in read if file_schema.field(name).type == _INSTANT)

    def batches() -> Iterator[pa.RecordBatch]:
        file = pq.ParquetFile(
            opened, metadata=footer, pre_buffer=True, coerce_int96_timestamp_unit="us"
        )
        with file:
            for number in row_groups_in(part, footer):
                yield from file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=read)

    try:
        for batch in read_ahead(batches()):
            arrays = []
            for field in schema:
                name = names[field.name]
                if field.name in values:
                    array = pa.repeat(values[field.name], batch.num_rows)
                elif name is None:
                    array = pa.nulls(batch.num_rows, field.type)
                else:
                    array = _as_type(batch.column(name), field.type, name in instants)
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(f"cannot read {path}: {why_of(store, path, error)}") from error


def _schema(footer: pq.FileMetaData, path: str) -> pa.Schema:
    if is_on_old_calendar(footer):
        raise ExecutionError(
            f"{path} may have times on the Julian calendar (before 1582), which only "
            "Spark's reader supports"
        )
    leaves = (footer.schema.column(i) for i in range(footer.num_columns))
    old = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    nested = next((leaf for leaf in old if "." in leaf), None)
    if nested is not None:
        raise ExecutionError(f"{path} has INT96 times in {nested}, inside another column")
    return pa.schema(
        pa.field(field.name, _INSTANT if field.name in old else _type_in_sql(field.type))
        for field in footer.schema.to_arrow_schema()
    )


def _type_in_sql(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the Spark type, or `type_` if Spark has none."""
    try:
        return spark_arrow_type(type_)
    except TypeError:
        return type_


def spark_arrow_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the Spark type of a column.

    Raises:
        TypeError: Spark has no such type.
    """
    t = pa.types
    if t.is_dictionary(type_):
        return spark_arrow_type(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return spark_arrow_type(type_.storage_type)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_) or t.is_fixed_size_binary(type_):
        return pa.binary()
    if t.is_timestamp(type_):
        return pa.timestamp("us", tz=None if type_.tz is None else "UTC")
    if t.is_duration(type_):
        return pa.duration("us")
    if t.is_date(type_):
        return pa.date32()
    if t.is_float16(type_):
        return pa.float32()
    if t.is_decimal(type_):
        if type_.precision > MAX_DIGITS:
            raise TypeError(f"SQL has no type for {type_}")
        return pa.decimal128(type_.precision, type_.scale)
    if t.is_time(type_) or t.is_list_view(type_) or t.is_large_list_view(type_):
        raise TypeError(f"SQL has no type for {type_}")
    if t.is_map(type_):
        return pa.map_(spark_arrow_type(type_.key_type), spark_arrow_type(type_.item_type))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(spark_arrow_type(type_.value_type))
    if t.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        return pa.struct([pa.field(field.name, spark_arrow_type(field.type)) for field in fields])
    return _UNSIGNED.get(type_, type_)


def _find_column(schema: pa.Schema, name: str) -> str | None:
    """Return the column with this name, or else the only one that differs from it in case."""
    if name in schema.names:
        return name
    candidates = [other for other in schema.names if other.lower() == name.lower()]
    return candidates[0] if len(candidates) == 1 else None


def _check_type(path: str, name: str, file_type: pa.DataType, table_type: pa.DataType) -> None:
    is_wider = pa.types.is_decimal(file_type) and pa.types.is_decimal(table_type)
    is_wider = is_wider and (
        file_type.scale <= table_type.scale
        and file_type.precision - file_type.scale <= table_type.precision - table_type.scale
    )
    if file_type != table_type and table_type not in _WIDENED.get(file_type, ()) and not is_wider:
        raise ExecutionError(f"column {name} of {path} is {file_type}, not {table_type}")


def _as_type(array: pa.Array, type_: pa.DataType, is_instant: bool) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == type_:
        return array
    if pa.types.is_timestamp(array.type):
        if array.type.unit == "ns":
            array = pc.floor_temporal(array, unit="microsecond")
        micros = array.cast(pa.timestamp("us", tz=array.type.tz))
        # INT96 has no zone but is an instant
        return micros.view(pa.int64()).view(type_) if is_instant else micros.cast(type_)
    if pa.types.is_duration(array.type) and array.type.unit == "ns":
        numbers = array.view(pa.timestamp("ns"))
        return pc.floor_temporal(numbers, unit="microsecond").cast(pa.timestamp("us")).view(type_)
    return array.cast(type_)
