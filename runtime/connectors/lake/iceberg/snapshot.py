"""Read Iceberg tables with the package `pyiceberg`, from a catalog or by metadata location."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from runtime.connectors.lake.delta.snapshot import chosen_time
from runtime.connectors.lake.iceberg.properties import iceberg_properties
from runtime.connectors.lake.table import LakeTable, broken_table, lake_packages
from runtime.errors import ExecutionError, MissingPackageError
from runtime.lake.places import THIS_MACHINE, TablePlace, UnreadableError, place_of_path
from runtime.options.checks import option_values
from runtime.redaction import DEFAULT
from runtime.scan.lake import LakeColumn, LakeFile, Snapshot
from runtime.scan.stores import GONE
from runtime.spark.session import is_remote
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?\.metadata\.json")
_PLAIN: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "date": T.DateType(),
    "timestamp": T.TimestampNTZType(),
    "timestamptz": T.TimestampType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
}
# Types that statistics order as Spark does; floats are missing because of NaN
_PUSHED = ("int", "bigint", "string", "date", "timestamp", "timestamp_ntz")


def load_iceberg(
    spark: SparkSession, spec: TableSpec, filters: Sequence[Expression] = ()
) -> LakeTable:
    """Load a table in the snapshot chosen by its options, or the newest.

    Files without rows that satisfy all filters are left out.

    Raises:
        ExecutionError: The table or the snapshot does not exist.
        SetupError: The package is missing.
        UnreadableError: Rows would be wrong, for example because of delete files.
    """
    place = place_of(spark, spec)
    table = from_place(spec, place)
    if place is None:
        place = place_of_path(spark, table.location())
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    return iceberg_table(spec, table, zone, filters, place)


def place_of(spark: SparkSession, spec: TableSpec) -> TablePlace | None:
    """Return the place of a table, or None if it is in a catalog.

    Raises:
        UnreadableError: The table is on another machine.
    """
    values = option_values(spec)
    if is_remote(spark):
        raise UnreadableError("its files are on the host of the Spark Connect server")
    return place_of_path(spark, values["path"]) if "path" in values else None


def from_place(spec: TableSpec, place: TablePlace | None) -> Table:
    """Return the table at a place, or from the catalog of its options."""
    return from_catalog(spec) if place is None else from_path(spec, place)


def from_path(spec: TableSpec, place: TablePlace) -> Table:
    """Return the table of a directory or a metadata file. It is read-only."""
    with lake_packages(spec):
        from pyiceberg.table import StaticTable
    path = place.path
    file = path if path.endswith(".json") else _newest_metadata(spec, place)
    try:
        return StaticTable.from_metadata(file, iceberg_properties(place))
    except FileNotFoundError as error:
        raise no_table(spec, path) from error
    except Exception as error:
        raise broken_table(spec, place.explain_error(error)) from error


def from_catalog(spec: TableSpec) -> Table:
    """Return a table from its catalog; see `load_iceberg`."""
    catalog = open_catalog(spec)
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    name = table_name(spec)
    try:
        table: Table = catalog.load_table(name)
        return table
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise no_table(spec, f"at `{'.'.join(name)}` in {_catalog_of(spec)}") from error
    except Exception as error:
        raise broken_table(spec, error) from error


def open_catalog(spec: TableSpec) -> Any:
    """Return the catalog of a table.

    Raises:
        ExecutionError: The catalog cannot be reached.
        SetupError: A package is missing.
    """
    with lake_packages(spec):
        from pyiceberg.catalog import load_catalog
    values = option_values(spec)
    properties = {
        name[len("catalog.") :]: value
        for name, value in spec.options
        if name.lower().startswith("catalog.")
    }
    for option, name in (("catalog-type", "type"), ("uri", "uri"), ("warehouse", "warehouse")):
        if option in values:
            properties[name] = values[option]
    try:
        with lake_packages(spec):
            return load_catalog(_catalog_name(spec), **properties)
    except MissingPackageError:
        raise
    except Exception as error:
        raise broken_table(spec, error) from error


def table_name(spec: TableSpec) -> tuple[str, ...]:
    """Return the name of a table in its catalog."""
    values = option_values(spec)
    name = tuple(values.get("catalog-table", spec.name).split("."))
    database = values.get("catalog-database", "default")
    return name if len(name) > 1 else (database, *name)


def name_of(spec: TableSpec) -> str:
    """Return the table name for error messages: its path or its name in the catalog."""
    return option_values(spec).get("path") or ".".join(table_name(spec))


def no_table(spec: TableSpec, where: str) -> ExecutionError:
    """Return the error for a table that does not exist."""
    return ExecutionError(
        f"table `{spec.name}`: no Iceberg table exists {where}", subjects=(spec.name,)
    )


def _catalog_of(spec: TableSpec) -> str:
    """Return a catalog's name and address for messages."""
    values = option_values(spec)
    addresses = [
        DEFAULT.value(name, values[name]) for name in ("uri", "warehouse") if name in values
    ]
    return f"catalog '{_catalog_name(spec)}'" + (f" ({', '.join(addresses)})" if addresses else "")


def _catalog_name(spec: TableSpec) -> str:
    return option_values(spec).get("catalog-name", "default")


def _newest_metadata(spec: TableSpec, place: TablePlace) -> str:
    """Return the newest metadata file of a table, judging by its directory.

    Raises:
        ExecutionError: No metadata file exists.
        UnreadableError: Several files may be the newest.
    """
    path = place.path.rstrip("/")
    directory, files = f"{path}/metadata", place.files
    try:
        names = files.names_in(directory)
        if not names:
            files.exists(directory)  # a listing does not reveal that the bucket is missing
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        if is_gone and (place.store is None or error.strerror == GONE):
            raise no_table(spec, f"at {path}") from error
        raise broken_table(spec, error) from error
    numbers = {name: int(m[1]) for name in names if (m := _METADATA.fullmatch(name))}
    if "version-hint.text" in names:
        hint = files.read_text(f"{directory}/version-hint.text").strip()
        hinted = [
            n for n in (f"v{hint}.metadata.json", f"{hint}.metadata.json", hint) if n in names
        ]
        if hinted:
            return f"{directory}/{hinted[0]}"
    newest = [name for name, number in numbers.items() if number == max(numbers.values())]
    if not newest:
        raise no_table(spec, f"at {path}")
    if len(newest) > 1:
        raise UnreadableError(
            f"{path} has {len(newest)} newest metadata files: set 'path' to one of them, "
            "or use a catalog"
        )
    return f"{directory}/{newest[0]}"


def iceberg_table(
    spec: TableSpec,
    table: Table,
    zone: str,
    filters: Sequence[Expression] = (),
    place: TablePlace = THIS_MACHINE,
) -> LakeTable:
    """Return the files and columns of a table opened at a place; see `load_iceberg`."""
    snapshot = _snapshot(spec, table, zone)
    schema = _schema_of(spec, table, snapshot)
    columns = spark_schema(schema, table.schemas().values())
    in_files = lake_columns(table, schema, columns)
    files: tuple[LakeFile, ...] = ()
    version = "without a snapshot"
    if snapshot is not None:
        version = f"snapshot {snapshot.snapshot_id}"
        files = _files(spec, table, snapshot, schema, filters, place)
    return LakeTable(
        Snapshot(name_of(spec), version, in_files, (), files), columns, columns, place.store
    )


def lake_columns(table: Table, schema: Schema, columns: T.StructType) -> tuple[LakeColumn, ...]:
    """Return the rules by which the columns of a table are found in its files."""
    mapping = table.name_mapping()
    mapped_names = {
        field.field_id: tuple(field.names)
        for field in (mapping.root if mapping is not None else ())
        if field.field_id is not None
    }
    return tuple(
        LakeColumn(f.name, c.dataType.simpleString(), mapped_names.get(f.field_id, ()), f.field_id)
        for f, c in zip(schema.fields, columns.fields, strict=True)
    )


def _snapshot(spec: TableSpec, table: Table, zone: str) -> IcebergSnapshot | None:
    """Return the snapshot to read, or None for a table without one."""
    values = option_values(spec)
    if "version" in values:
        snapshot = table.snapshot_by_id(int(values["version"]))
        if snapshot is None:
            ids = [str(other.snapshot_id) for other in table.snapshots()]
            raise ExecutionError(
                f"table `{spec.name}`: snapshot {values['version']} does not exist",
                subjects=(f"'{values['version']}'", spec.name),
                hint=f"available snapshots: {', '.join(ids[-5:])}"
                if ids
                else "the table has no snapshots",
            )
        return snapshot
    if "timestamp" in values:
        text = values["timestamp"]
        at_ms = int(chosen_time(spec, text, zone).timestamp() * 1000)
        snapshot = table.snapshot_as_of_timestamp(at_ms)
        if snapshot is None:
            raise ExecutionError(
                f"table `{spec.name}`: no snapshot exists as of '{text}'",
                subjects=(f"'{text}'", spec.name),
            )
        return snapshot
    return table.current_snapshot()


def _schema_of(spec: TableSpec, table: Table, snapshot: IcebergSnapshot | None) -> Schema:
    """Return the columns of a chosen snapshot, or else the table's current columns."""
    values = option_values(spec)
    if snapshot is None or snapshot.schema_id is None or not {"version", "timestamp"} & set(values):
        return table.schema()
    return table.schemas().get(snapshot.schema_id, table.schema())


def _files(
    spec: TableSpec,
    table: Table,
    snapshot: IcebergSnapshot,
    schema: Schema,
    filters: Sequence[Expression],
    place: TablePlace,
) -> tuple[LakeFile, ...]:
    """Return the files of a snapshot in which the filters can be true, sorted by path."""
    from pyiceberg.expressions import AlwaysTrue, And

    condition: BooleanExpression = AlwaysTrue()
    names = {field.name.lower(): field.name for field in schema.fields}
    for expression in filters:
        pushed = iceberg_filter(expression, names)
        condition = condition if pushed is None else And(condition, pushed)
    try:
        scan = table.scan(
            row_filter=condition, snapshot_id=snapshot.snapshot_id, case_sensitive=True
        )
        tasks = list(scan.plan_files())
    except (UnreadableError, ExecutionError):
        raise
    except Exception as error:
        raise broken_table(spec, error) from error
    files = []
    for task in tasks:
        if task.delete_files:
            raise UnreadableError("it contains delete files")
        files.append(lake_file(table, task.file, schema, place))
    return tuple(sorted(files, key=lambda file: file.path))


def lake_file(
    table: Table, file: DataFile, schema: Schema, place: TablePlace = THIS_MACHINE
) -> LakeFile:
    """Return a file as recorded in a manifest.

    Raises:
        UnreadableError: It is not a Parquet file at this place.
    """
    from pyiceberg.transforms import IdentityTransform

    if file.file_format.name != "PARQUET":
        raise UnreadableError(f"its file {file.file_path} is not Parquet")
    names = {field.field_id: field.name for field in schema.fields}
    identities = frozenset(
        names[field.source_id]
        for field in table.specs()[file.spec_id].fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in names
    )
    path = place.file(file.file_path, is_escaped=False)
    return LakeFile(
        path, n_rows=file.record_count, needed=identities, n_bytes=file.file_size_in_bytes
    )


def spark_schema(schema: Schema, others: Collection[Schema] = ()) -> T.StructType:
    """Return the columns of a table as a Spark schema.

    Args:
        schema: Columns of the table.
        others: Schemas of the files to read. Nested fields are matched by name, so these must be
            the same in all schemas.

    Raises:
        UnreadableError: A column has a type that Spark lacks, or a default for older files.
    """
    fields = []
    for field in schema.fields:
        for older in others:
            was = next((f for f in older.fields if f.field_id == field.field_id), field)
            if not field.field_type.is_primitive and repr(was.field_type) != repr(field.field_type):
                raise UnreadableError(f"fields of its column {field.name} were changed")
        if getattr(field, "initial_default", None) is not None:
            raise UnreadableError(f"its column {field.name} has an initial default value")
        type_ = _spark_type(field.name, field.field_type)
        fields.append(T.StructField(field.name, type_, not field.required))
    return T.StructType(fields)


def _spark_type(name: str, type_: Any) -> T.DataType:
    from pyiceberg import types as I

    if isinstance(type_, I.StructType):
        return T.StructType(
            [
                T.StructField(f.name, _spark_type(f"{name}.{f.name}", f.field_type))
                for f in type_.fields
            ]
        )
    if isinstance(type_, I.ListType):
        return T.ArrayType(_spark_type(name, type_.element_type))
    if isinstance(type_, I.MapType):
        return T.MapType(_spark_type(name, type_.key_type), _spark_type(name, type_.value_type))
    if isinstance(type_, I.DecimalType):
        return T.DecimalType(type_.precision, type_.scale)
    plain = _PLAIN.get(str(type_))
    if plain is None:
        raise UnreadableError(f"its column {name} has the unsupported type {type_}")
    return plain


def iceberg_filter(expression: Expression, names: dict[str, str]) -> BooleanExpression | None:
    """Return a pyiceberg filter that is true for at least the same rows, or None.

    Args:
        expression: Condition to convert.
        names: Columns of the table by lower-case name.
    """
    from pyiceberg import expressions

    E: Any = expressions
    if not isinstance(expression, Call):
        return None
    args = expression.args
    match expression.function:
        case "and":
            converted = [part for a in args if (part := iceberg_filter(a, names)) is not None]
            return E.And(*converted) if len(converted) > 1 else converted[0] if converted else None
        case "or":
            parts = [iceberg_filter(a, names) for a in args]
            alternatives = [part for part in parts if part is not None]
            return E.Or(*alternatives) if len(alternatives) == len(parts) > 1 else None
        case "is_null":
            (column,) = args
            if isinstance(column, ColumnRef) and column.name.lower() in names:
                is_null: BooleanExpression = E.IsNull(names[column.name.lower()])
                return is_null
        case "=" | "<" | "<=" | ">" | ">=":
            left, right = args
            if not isinstance(left, Constant):
                return _comparison(expression.function, left, right, names)
            flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return _comparison(flipped.get(expression.function, "="), right, left, names)
        case "in":
            column, *members = args
            each_of = [_comparison("=", column, member, names) for member in members]
            filters = [part for part in each_of if part is not None]
            if len(filters) == len(each_of):
                return E.Or(*filters) if len(filters) > 1 else filters[0]
    return None


def _comparison(
    function: str, column: Expression, constant: Expression, names: dict[str, str]
) -> BooleanExpression | None:
    from pyiceberg import expressions as E
    from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral, literal

    if not (isinstance(column, ColumnRef) and isinstance(constant, Constant)):
        return None
    name = names.get(column.name.lower())
    if name is None or column.type not in _PUSHED or constant.value is None:
        return None
    makes: dict[str, Any] = {
        "=": E.EqualTo,
        "<": E.LessThan,
        "<=": E.LessThanOrEqual,
        ">": E.GreaterThan,
        ">=": E.GreaterThanOrEqual,
    }
    types: dict[str, Any] = {
        "date": DateLiteral,
        "timestamp": TimestampLiteral,
        "timestamp_ntz": TimestampLiteral,
    }
    value = types.get(constant.type, literal)(constant.value)
    comparison: BooleanExpression = makes[function](name, value)
    return comparison
