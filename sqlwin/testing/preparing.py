"""Prepare a case: create its tables in a session, run its script up to the tested query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from planner.sql.parts import with_primary_key
from planner.sql.render import quote_string
from runtime.compute.arrow.types import arrow_type, spark_type
from runtime.errors import SqlwinError
from runtime.names import quote_name
from runtime.shown_types import shown_type
from runtime.spark.on_demand import NotStartedError
from runtime.spec.table import TableColumn
from sqlwin.config.parsing import parse_duration
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.nodes import CreateTable, CreateView, Insert, Query, Set
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.cases import Case, CaseTable
from sqlwin.testing.cells import CellError, cell_value
from sqlwin.testing.documents import CaseFileError, Located
from sqlwin.testing.parts import check_parts, reads_tables, with_parts

# Settings of a script that the test decides
OF_TEST = ("execution.runtime-mode",)
# Column of changes, and its values with Flink's names
_KIND = "kind"
_KINDS = {"+I": "INSERT", "-U": "UPDATE_BEFORE", "+U": "UPDATE_AFTER", "-D": "DELETE"}


@dataclass(frozen=True)
class PreparedCase:
    """A case whose tables exist.

    Attributes:
        query: Tested query.
        rows: Rows of the tables by lower-case name, in the order of their arrival.
        waits: Processing time that passes before rows, see `Simulated.stream`.
        with_position: Function that adds the place in the script to an error.
        given: Columns of each table that the test file has, without computed ones.
    """

    query: Query
    rows: Mapping[str, pa.Table]
    waits: Mapping[tuple[str, int], int]
    with_position: object
    given: Mapping[str, Sequence[str]]

    def located(self, error: SqlwinError) -> SqlwinError:
        """Return an error about the query with its place in the script."""
        return self.with_position(error)  # type: ignore[operator, no-any-return]


def compute_in_process(session: Session) -> None:
    """Let queries over files run in this process, even if a Spark runs in it, too."""
    session.execute("SET 'sqlwin.in-process.max-bytes' = '1 gb'")


def prepare(session: Session, case: Case, directory: Path) -> PreparedCase:
    """Create the tables of a case and run its script up to the tested query.

    Args:
        session: New session.
        case: Case.
        directory: Directory for the files of the tables.

    Raises:
        CaseFileError: A row does not fit its table, or the script has no query or no such table.
        SqlwinError: The script is invalid.
    """
    compute_in_process(session)
    for key, value in case.settings.items():
        session.execute(f"SET {quote_string(key)} = {quote_string(value)}")
    control = SessionControl(session)
    tables = {table.name.lower(): table for table in case.tables}
    rows: dict[str, pa.Table] = {}
    waits: dict[tuple[str, int], int] = {}

    given: dict[str, Sequence[str]] = {}
    created: set[str] = set()
    # rows of tables that read others, from the rows of these
    joined: dict[str, pa.Table] = {}

    def fill(table: CaseTable, columns: Sequence[TableColumn], path: Path) -> None:
        own = [column for column in columns if column.computed is None]
        schema = pa.schema([(c.name, _arrow_type(case, table, c)) for c in own])
        name = table.name.lower()
        given[name] = schema.names
        if name in joined:
            rows[name] = joined[name].cast(schema)
        else:
            rows[name], of_table = _rows(case, table, schema)
            waits.update({(name, row): us for row, us in of_table.items()})
        pq.write_table(rows[name], path)

    def create(table: CaseTable, statement: CreateTable, path: Path) -> None:
        """Create a table of the script or of the test file with the rows of the test file."""
        created.add(table.name.lower())
        if table.has_changes:
            _check_kinds(case, table)
            changes = replace(table, name=f"{table.name}__changes", has_changes=False)
            of_changes = (TableColumn(_KIND, "string"), *statement.columns)
            plain = replace(statement, name=(changes.name,), columns=of_changes, primary_key=())
            create(changes, plain, path)
            control.run(_rows_that_remain(table.name, changes.name, statement.primary_key))
            return
        if not any(_is_computed(column) for column in statement.columns):
            control.run(_replaced(statement, path))
            fill(table, control.columns_of(table.name) or (), path)
            return
        own = tuple(replace(c, metadata=None) for c in statement.columns if not _is_computed(c))
        below = CaseTable(f"{table.name}__rows", {}, None, (), table.line)
        path_below = path.with_suffix(".rows.parquet")
        plain = replace(statement, name=(below.name,), columns=own, watermark=None)
        control.run(_replaced(plain, path_below))
        fill(table, control.columns_of(below.name) or (), path_below)
        whole = _with_computed(session, statement, below.name)
        rows[table.name.lower()] = whole
        pq.write_table(whole, path)
        columns = [
            c
            if c.computed is not None and not _is_computed(c)
            else replace(c, type=_type_of(case, table, whole.schema.field(c.name)), computed=None)
            for c in statement.columns
        ]
        control.run(_replaced(replace(statement, columns=tuple(columns)), path))

    def join(statement: CreateTable) -> None:
        """Create a table of the script that reads others, with the rows of these."""
        linked = control.linked_table(statement)
        spec = linked.spec
        parts = [part.name.lower() for part in spec.parts]
        if not set(parts) & rows.keys():
            control.run(statement)
            return
        check_parts(case, spec, rows, waits)
        joined[spec.name.lower()] = linked.rows_of_parts([rows[part] for part in parts])
        table = CaseTable(spec.name, {}, None, (), case.line)
        create(table, with_parts(statement, spec), directory / f"{len(joined)}.joined.parquet")

    for number, table in enumerate(case.tables):
        if table.columns:
            with _naming(case, table):
                create(table, _declared(table), directory / f"{number}.parquet")
    tested = None
    for place, statement in control.statements(case.sql, case.sql_file, case.params or None):
        try:
            match statement:
                case Query():
                    tested = statement, place
                case Insert():
                    tested = _query_of(statement), place
                case CreateTable(name=(name,)) if name.lower() in tables:
                    table = tables[name.lower()]
                    if name.lower() not in created:
                        if reads_tables(statement):
                            statement = with_parts(statement, control.linked_table(statement).spec)
                        path = directory / f"{list(tables).index(name.lower())}.parquet"
                        create(table, statement, path)
                case Set() if statement.key in OF_TEST:
                    pass
                case CreateTable() if reads_tables(statement):
                    join(statement)
                case Set() | CreateTable() | CreateView():
                    control.run(statement)
        except SqlwinError as error:
            raise place.with_position(error) from error
    if missing := [table for name, table in tables.items() if name not in created]:
        raise CaseFileError(
            f"{case.path}:{missing[0].line}: table `{missing[0].name}` has no `columns`, and the "
            "SQL does not create it"
        )
    if tested is None:
        raise CaseFileError(f"{case.path}:{case.line}: the SQL of '{case.name}' has no query")
    query, place = tested
    return PreparedCase(query, rows, waits, place.with_position, given)


def changed_query(session: Session, case: Case, query: Query) -> Query:
    """Run the SQL with which the stream of a case resumes, and return its query.

    Args:
        session: Session of the case.
        case: Case with `restart`.
        query: Query of the case, which resumes if the SQL has no other.

    Raises:
        CaseFileError: The SQL has another statement than a query, an INSERT or a view.
        SqlwinError: The SQL is invalid.
    """
    assert case.restart is not None
    control = SessionControl(session)
    for place, statement in control.statements(case.restart, None, case.params or None):
        try:
            match statement:
                case Query():
                    query = statement
                case Insert():
                    query = _query_of(statement)
                case CreateView():
                    control.run(statement)
                case _:
                    raise CaseFileError(
                        f"{case.path}:{case.line}: `restart` of '{case.name}' can only have a "
                        "query and views"
                    )
        except SqlwinError as error:
            raise place.with_position(error) from error
    return query


def _arrow_type(case: Case, table: CaseTable, column: TableColumn) -> pa.DataType:
    """Return the type of a column of a table.

    Raises:
        CaseFileError: Test files cannot have values of the type.
    """
    type_ = (column.type or "").lower().replace(" ", "")
    try:
        return arrow_type(type_)
    except KeyError as error:
        raise CaseFileError(
            f"{case.path}:{table.line}: column `{column.name}` of table `{table.name}` is "
            f"{shown_type(column.type)}, which test files do not support"
        ) from error


def _query_of(insert: Insert) -> Query:
    return Query(insert.text, insert.offset, insert.ast, tokens=insert.tokens)


def _declared(table: CaseTable) -> CreateTable:
    """Return the definition of a table that the test file declares."""
    items = [f"{quote_name(name)} {type_}" for name, type_ in table.columns.items()]
    if table.watermark is not None:
        column = table.watermark.split()[0].strip("`")
        items.append(f"WATERMARK FOR {quote_name(column)} AS {table.watermark}")
    statement = parse_statement(
        f"CREATE TABLE {quote_name(table.name)} ({', '.join(items)}) WITH ("
        "'connector' = 'filesystem', 'path' = '', 'format' = 'parquet')"
    )
    assert isinstance(statement, CreateTable)
    return statement


def _check_kinds(case: Case, table: CaseTable) -> None:
    """Check the kinds of the changes of a table.

    Raises:
        CaseFileError: There is another kind.
    """
    for item in table.rows:
        kind = item
        if isinstance(item.value, list) and item.value:
            kind = item.value[0]
        elif isinstance(item.value, dict) and _KIND in item.value:
            kind = item.value[_KIND]
        elif isinstance(item.value, dict) and list(item.value) == ["wait"]:
            continue
        if kind.value not in _KINDS:
            raise CaseFileError(
                f"{case.path}:{kind.line}: a change of table `{table.name}` must begin with its "
                f"kind: {', '.join(_KINDS)}"
            )


def _rows_that_remain(name: str, changes: str, primary_key: Sequence[str]) -> CreateView:
    """Return the definition of a view of the rows that changes describe.

    Args:
        name: Name of the view.
        changes: Name of the table with the changes.
        primary_key: Columns of the PRIMARY KEY of the rows, if any.
    """
    statement = parse_statement(
        f"CREATE OR REPLACE VIEW {quote_name(name)} AS SELECT * FROM FROM_CHANGELOG("
        f"input => TABLE {quote_name(changes)}, op => DESCRIPTOR({quote_name(_KIND)}), "
        f"op_mapping => MAP[{', '.join(f'{code!r}, {kind!r}' for code, kind in _KINDS.items())}])"
    )
    assert isinstance(statement, CreateView)
    return replace(statement, ast=with_primary_key(statement.ast, primary_key))


@contextmanager
def _naming(case: Case, table: CaseTable) -> Iterator[None]:
    """Add the table and its place in the test file to errors in the block."""
    try:
        yield
    except (CaseFileError, NotStartedError):
        # a case that needs Spark is prepared again, with Spark
        raise
    except SqlwinError as error:
        message = f"{case.path}:{table.line}: table `{table.name}`: {error.message}"
        raise CaseFileError(message, hint=error.hint) from error


def _replaced(statement: CreateTable, path: Path) -> CreateTable:
    """Return the statement that creates a table over a Parquet file."""
    options = (("connector", "filesystem"), ("path", str(path)), ("format", "parquet"))
    columns = tuple(replace(column, metadata=None) for column in statement.columns)
    # a case that needs Spark is prepared again
    own = replace(statement, columns=columns, partitioned_by=())
    return replace(own, options=options, or_replace=True)


def _is_computed(column: TableColumn) -> bool:
    """Return whether a column is computed from the other columns of its row."""
    return column.computed is not None and "proctime" not in column.computed.lower()


def _with_computed(session: Session, statement: CreateTable, below: str) -> pa.Table:
    """Return the rows of a table with its computed columns.

    Args:
        session: Session.
        statement: Declaration of the table.
        below: Table with the other columns.
    """
    items = [
        f"{column.computed} AS {quote_name(column.name)}"
        if _is_computed(column)
        else quote_name(column.name)
        for column in statement.columns
        if column.computed is None or _is_computed(column)
    ]
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    (result,) = session.execute(f"SELECT {', '.join(items)} FROM {quote_name(below)}")
    whole: pa.Table = result.to_arrow()
    return whole.cast(
        pa.schema([field.with_type(_stored_type(field.type)) for field in whole.schema])
    )


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of values in files, where instants have the time zone UTC."""
    has_zone = pa.types.is_timestamp(type_) and type_.tz is not None
    return pa.timestamp(type_.unit, "UTC") if has_zone else type_


def _type_of(case: Case, table: CaseTable, field: pa.Field) -> str:
    """Return the SQL type of a column.

    Raises:
        CaseFileError: Test files cannot have values of the type.
    """
    type_ = spark_type(field.type)
    if type_ is None:
        raise CaseFileError(
            f"{case.path}:{table.line}: column `{field.name}` of table `{table.name}` is "
            f"{field.type}, which test files do not support"
        )
    return type_


def _rows(case: Case, table: CaseTable, schema: pa.Schema) -> tuple[pa.Table, dict[int, int]]:
    """Return the rows of a table, and the times that pass before rows."""
    rows: list[dict[str, object]] = []
    waits: dict[int, int] = {}
    for item in table.rows:
        if _is_wait(item, schema):
            assert isinstance(item.value, dict)
            text = str(item.value["wait"].value)
            try:
                us = parse_duration("wait", text)
            except SqlwinError as error:
                raise CaseFileError(
                    f"{case.path}:{item.line}: '{text}' is not a duration such as 10 s, 1 min or "
                    "500 ms"
                ) from error
            waits[len(rows)] = waits.get(len(rows), 0) + us
        else:
            rows.append(row_of(case.path, item, schema, f"table `{table.name}`"))
    waits.pop(len(rows), None)
    return pa.Table.from_pylist(rows, schema), waits


def _is_wait(item: Located, schema: pa.Schema) -> bool:
    return (
        isinstance(item.value, dict)
        and list(item.value) == ["wait"]
        and ("wait" not in schema.names)
    )


def row_of(path: Path, item: Located, schema: pa.Schema, owner: str) -> dict[str, object]:
    """Return a row of a test file by column name.

    Args:
        path: Test file.
        item: Row.
        schema: Columns.
        owner: Owner of the columns, for messages.

    Raises:
        CaseFileError: It does not fit the columns.
    """
    names = {name.lower(): name for name in schema.names}
    if isinstance(item.value, list):
        if len(item.value) != len(schema):
            raise CaseFileError(
                f"{path}:{item.line}: the row has {len(item.value)} values, but {owner} has "
                f"{len(schema)} columns",
                hint=f"columns: {', '.join(schema.names)}",
            )
        cells: Sequence[tuple[str, Located]] = list(zip(schema.names, item.value, strict=True))
    elif isinstance(item.value, dict):
        for key, cell in item.value.items():
            if key.lower() not in names:
                raise CaseFileError(
                    f"{path}:{cell.line}: {owner} has no column `{key}`",
                    hint=f"columns: {', '.join(schema.names)}",
                )
        cells = [(names[key.lower()], cell) for key, cell in item.value.items()]
    else:
        raise CaseFileError(f"{path}:{item.line}: a row must be a list or a mapping")
    row: dict[str, object] = dict.fromkeys(schema.names)
    for name, cell in cells:
        try:
            row[name] = cell_value(cell.plain, schema.field(name).type)
        except CellError as error:
            raise CaseFileError(f"{path}:{cell.line}: column `{name}` of {owner}: {error}") from (
                error
            )
    return row
