"""Read versions of Delta tables with the package `deltalake`: files and their statistics."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from runtime.connectors.lake.table import LakeTable, broken_table, lake_packages
from runtime.errors import ExecutionError
from runtime.lake.delta_log import add_actions, logged_partitions, plain_values
from runtime.lake.places import TablePlace, UnreadableError, place_of_path
from runtime.options.checks import option_values, wrong_value
from runtime.scan.lake import LakeColumn, LakeFile, Snapshot
from runtime.scan.pruning import ValueRange
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAPPING = "delta.columnMapping."
# Reader features that are supported or irrelevant here. Writers list variantType in tables without
# such a column; a column of that type is refused.
_KNOWN_FEATURES = frozenset(
    "columnMapping deletionVectors timestampNtz v2Checkpoint vacuumProtocolCheck variantType "
    "variantType-preview".split()
)
# Statistics truncate times to milliseconds
_CUT_OFF_US = 999
_RANGED = ("tinyint", "smallint", "int", "bigint", "double", "string", "date")
_TIMES = ("timestamp", "timestamp_ntz")


def load_delta(
    spark: SparkSession,
    spec: TableSpec,
    ranges_of: Collection[str] = (),
    *,
    with_deleted: bool = False,
) -> LakeTable:
    """Load a table in the version chosen by its options, or the newest; see `delta_table`.

    Raises:
        ExecutionError: The table or the version does not exist.
        SetupError: The package is missing.
        UnreadableError: Rows would be wrong, for example because of deletion vectors.
    """
    place = place_of_path(spark, option_values(spec)["path"])
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    table = open_delta(spec, place, zone)
    return delta_table(spec, table, place, zone, ranges_of, with_deleted=with_deleted)


def version_and_text(spark: SparkSession, spec: TableSpec) -> tuple[int, str]:
    """Return the version chosen by the options of a table, and the `userMetadata` of its commit.

    The text is empty if the commit has none, or is no longer in the log. Raises as `load_delta`.
    """
    place = place_of_path(spark, option_values(spec)["path"])
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    version = open_delta(spec, place, zone).version()
    # DeltaTable.history() of an older version numbers the newest commits as if they were its own
    log = f"{place.path}/_delta_log/{version:020}.json"
    if not place.files.exists(log):
        return version, ""
    actions = map(json.loads, place.files.read_text(log).splitlines())
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    return version, next((info.get("userMetadata") or "" for info in infos), "")


def delta_path(spark: SparkSession, spec: TableSpec) -> str:
    """Return the local directory of a table.

    Raises:
        UnreadableError: The table is not on this machine.
    """
    path = option_values(spec)["path"]
    place = place_of_path(spark, path)
    if place.store is not None:
        raise UnreadableError(f"{path} is not on a local file system")
    return place.path


def open_delta(spec: TableSpec, place: TablePlace, zone: str = "UTC") -> DeltaTable:
    """Open the table at a place, in the version chosen by its options.

    Args:
        spec: Table specification.
        place: Directory of the table.
        zone: Time zone of an option 'timestamp' without one.

    Raises:
        ExecutionError: The table or the version does not exist.
        SetupError: The package is missing.
        UnreadableError: The table uses an unsupported feature.
    """
    with lake_packages(spec):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    values, path, options = option_values(spec), place.path, place.delta_options
    try:
        table = DeltaTable(path, storage_options=options)
    except TableNotFoundError as error:
        raise ExecutionError(
            f"table `{spec.name}`: no Delta table exists at {path}",
            subjects=(spec.name,),
            hint=None if place.store else "INSERT INTO creates it with the declared columns",
        ) from error
    except (DeltaError, OSError) as error:
        if any(word in str(error) for word in ("Unsupported", "catalog-managed")):
            raise UnreadableError(" ".join(str(error).split())) from error
        raise broken_table(spec, place.explain_error(error)) from error
    newest = table.version()
    version = newest
    try:
        if "version" in values:
            version = int(values["version"])
        elif "timestamp" in values:
            version = _version_at(spec, table, values["timestamp"], zone)
        if version > newest:
            raise ExecutionError(
                f"table `{spec.name}`: version {version} of {path} does not exist",
                subjects=(f"'{version}'", spec.name),
                hint=f"the newest version is {newest}",
            )
        if version != newest:
            table = DeltaTable(path, version=version, storage_options=options)
    except DeltaError as error:
        raise ExecutionError(
            f"table `{spec.name}`: version {version} of {path} was removed",
            subjects=(f"'{version}'", spec.name),
            hint=f"its log was cleaned up; use a newer version, up to {newest}",
        ) from error
    features = table.protocol().reader_features or []
    unknown = sorted(set(features) - _KNOWN_FEATURES)
    if unknown:
        s = "s" if len(unknown) > 1 else ""
        raise UnreadableError(f"it requires the unsupported feature{s} {', '.join(unknown)}")
    return table


def chosen_time(spec: TableSpec, text: str, zone: str) -> datetime:
    """Return the instant of the option 'timestamp', in the given time zone if it has none.

    Raises:
        CatalogError: The value is not a time.
    """
    try:
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone))
    except (ValueError, KeyError) as error:
        raise wrong_value(spec, "timestamp", text, str(error)) from error


def _version_at(spec: TableSpec, table: DeltaTable, text: str, zone: str) -> int:
    """Return the last version at a time."""
    at_ms = chosen_time(spec, text, zone).timestamp() * 1000
    commits: list[dict[str, Any]] = table.history()
    times = {int(c["version"]): c["timestamp"] for c in commits if c.get("timestamp") is not None}
    before = [version for version, time_ms in times.items() if time_ms <= at_ms]
    if before:
        return max(before)
    first = min(times, default=0)
    since = datetime.fromtimestamp(times.get(first, 0) / 1000, UTC).isoformat(" ", "milliseconds")
    raise ExecutionError(
        f"table `{spec.name}`: no version exists as of '{text}'",
        subjects=(f"'{text}'", spec.name),
        hint=f"the oldest available version is {first}, of {since}",
    )


def delta_table(
    spec: TableSpec,
    table: DeltaTable,
    place: TablePlace,
    zone: str,
    ranges_of: Collection[str] = (),
    *,
    with_deleted: bool = False,
) -> LakeTable:
    """Return the files and columns of an opened table.

    Args:
        spec: Table specification.
        table: The opened table.
        place: Directory of the table.
        zone: Time zone of the session.
        ranges_of: Columns whose minimum and maximum per file are required.
        with_deleted: Whether the caller leaves out the rows of `LakeTable.deleted`.

    Raises:
        ExecutionError: The log cannot be read.
        UnreadableError: Rows would be wrong, for example because of deletion vectors.
    """
    from deltalake.exceptions import DeltaError

    schema = delta_schema(table)
    mode = mapping_mode(table)
    columns = tuple(lake_column(field, mode) for field in schema.fields)
    partitions = tuple(table.metadata().partition_columns)
    for name in partitions:
        if schema[name].dataType.simpleString() == "timestamp" and zone not in ("UTC", "Etc/UTC"):
            raise UnreadableError(
                f"its partition column {name} is TIMESTAMP_LTZ, whose values have no "
                f"time zone, and the session's time zone is {zone}"
            )
    try:
        deleted = _deleted_rows(table, place)
        if deleted and not (with_deleted and place.store is None):
            raise UnreadableError("it contains deletion vectors")
        actions = add_actions(table)
    except DeltaError as error:
        raise UnreadableError(" ".join(str(error).split())) from error
    names = {name.lower() for name in ranges_of}
    ranged = [c for c in columns if c.name.lower() in names and c.name not in partitions]
    files = _files(place, actions, partitions, ranged)
    version = f"version {table.version()}"
    snapshot = Snapshot(option_values(spec)["path"], version, columns, partitions, files)
    stored = _stored_struct(schema) if mode != "none" else schema
    return LakeTable(snapshot, schema, stored, place.store, deleted)


def _deleted_rows(table: DeltaTable, place: TablePlace) -> dict[str, pa.Array]:
    """Return the positions of the rows that deletion vectors delete, by file."""
    if "deletionVectors" not in (table.protocol().reader_features or []):
        return {}
    vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all()
    is_kept = vectors["selection_vector"]
    return {
        place.file(path): pc.indices_nonzero(pc.invert(is_kept[number].values)).cast(pa.int64())
        for number, path in enumerate(vectors["filepath"].to_pylist())
    }


def delta_schema(table: DeltaTable) -> StructType:
    """Return the columns of a table as a Spark schema.

    Raises:
        UnreadableError: The type of a column is unknown.
    """
    import json

    try:
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
    except Exception as error:
        raise UnreadableError(f"its columns cannot be read: {error}") from error
    for field in schema.fields:
        if "delta.typeChanges" in (field.metadata or {}):
            raise UnreadableError(f"the type of its column {field.name} was changed")
        if "variant" in field.dataType.simpleString():
            raise UnreadableError(
                f"its column {field.name} has the unsupported type {field.dataType.simpleString()}"
            )
    return schema


def mapping_mode(table: DeltaTable) -> str:
    """Return the rule by which columns are found in files: `none`, `name` or `id`."""
    return table.metadata().configuration.get(MAPPING + "mode") or "none"


def lake_column(field: StructField, mode: str) -> LakeColumn:
    """Return the rule by which a column is found in files."""
    type_ = field.dataType.simpleString()
    if mode == "none":
        return LakeColumn(field.name, type_, (field.name,))
    stored = field.metadata[MAPPING + "physicalName"]
    number = int(field.metadata[MAPPING + "id"]) if mode == "id" else None
    return LakeColumn(field.name, type_, (stored,), number)


def _stored_struct(type_: StructType) -> StructType:
    """Return columns and nested fields under their names in files."""

    def of(inner: DataType) -> DataType:
        match inner:
            case StructType():
                return _stored_struct(inner)
            case ArrayType():
                return ArrayType(of(inner.elementType), inner.containsNull)
            case MapType():
                return MapType(of(inner.keyType), of(inner.valueType), inner.valueContainsNull)
        return inner

    return StructType(
        [
            StructField((f.metadata or {}).get(MAPPING + "physicalName", f.name), of(f.dataType))
            for f in type_.fields
        ]
    )


def _files(
    place: TablePlace, actions: pa.Table, partitions: tuple[str, ...], ranged: list[LakeColumn]
) -> tuple[LakeFile, ...]:
    """Return the files in the current actions of a log, sorted by path."""
    paths = [place.file(item) for item in actions["path"].to_pylist()]
    n_rows, n_bytes = actions["num_records"].to_pylist(), actions["size_bytes"].to_pylist()
    values = logged_partitions(actions, partitions)
    ranges = {column.name: _ranges(actions, column, n_rows) for column in ranged}
    files = [
        LakeFile(
            file,
            values[i],
            n_rows[i],
            {n: item[i] for n, item in ranges.items() if item[i]},
            n_bytes=n_bytes[i] or 0,
        )
        for i, file in enumerate(paths)
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _ranges(actions: pa.Table, column: LakeColumn, n_rows: list[int | None]) -> list[Any]:
    """Return the statistics of a column for each file: a ValueRange, or None if missing."""
    (stored,) = column.stored
    statistics: dict[str, list[Any]] = {}
    for which in ("min", "max", "null_count"):
        if which in actions.column_names:
            struct = actions[which].combine_chunks()
            if struct.type.get_field_index(stored) >= 0:
                statistics[which] = plain_values(pc.struct_field(struct, stored))
    none: list[Any] = [None] * len(n_rows)
    is_known = column.type in (*_RANGED, *_TIMES)
    lows = statistics.get("min", none) if is_known else none
    highs = statistics.get("max", none) if is_known else none
    cut_off = _CUT_OFF_US if column.type in _TIMES else 0
    ranges: list[Any] = []
    for low, high, nulls, n in zip(
        lows, highs, statistics.get("null_count", none), n_rows, strict=True
    ):
        if n is None:
            ranges.append(None)
            continue
        if isinstance(low, str):
            low = low.encode()
        if isinstance(high, str):
            high = high.encode()
        elif high is not None:
            high += cut_off
        ranges.append(ValueRange(low, high, nulls, n, has_nan=column.type == "double"))
    return ranges
