"""Notes of CREATE TABLE."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import AnalysisError, CatalogError
from runtime.redaction import DEFAULT
from runtime.spec.table import Column, TableColumn, TableSpec, Watermark
from sqlwin.catalog import listings
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.definitions import Definitions
from sqlwin.session import Session
from sqlwin.statements.nodes import CreateTable
from sqlwin.statements.parse import parse_statement
from tests.unstarted import NeedsSparkError, unstarted_spark

SPARK = cast(
    Any,
    SimpleNamespace(
        catalog=SimpleNamespace(tableExists=lambda name: False, dropTempView=lambda name: None)
    ),
)


def report_of(*scripts: str) -> tuple[str, tuple[str, ...]]:
    """Return message and notes of the last of some CREATE TABLE statements."""
    definitions = Definitions(SessionCatalog(SPARK, cast(Any, None)))
    result = ("", ())
    for script in scripts:
        statement = parse_statement(script)
        assert isinstance(statement, CreateTable)
        result = definitions.create_table(statement)
    return result


def files(*options: str, rest: str = "") -> str:
    option_list = ", ".join(("'connector' = 'filesystem'", "'path' = 'x.csv'", *options))
    return f"CREATE TABLE {rest} t (a INT) WITH ({option_list})"


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ((), ()),
        (("'source.monitor-interval' = '1 s'",), ()),
        (
            ("'sink.rolling-policy.file-size' = '1mb'",),
            ("table `t`: 'sink.rolling-policy.file-size' is a Flink option and has no effect",),
        ),
        (
            (
                "'sink.partition-commit.trigger' = 'process-time'",
                "'sink.rolling-policy.file-size' = '1mb'",
            ),
            (
                "table `t`: 'sink.partition-commit.trigger', 'sink.rolling-policy.file-size' are Flink options and "
                "have no effect",
            ),
        ),
    ],
)
def test_one_note_names_all_options_that_change_nothing(
    options: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    assert report_of(files(*options)) == ("OK", notes)


def test_an_existing_table_gives_no_note() -> None:
    table = files("'sink.rolling-policy.file-size' = '1mb'", rest="IF NOT EXISTS")
    assert report_of(table, table) == ("`t` already exists, nothing to do", ())


def create_table(columns: str, path: Path, *options: str) -> TableSpec:
    """Return the table that CREATE TABLE creates over a file."""
    catalog = SessionCatalog(unstarted_spark(), cast(Any, None))
    option_list = ", ".join((f"'path' = '{path}'", *options))
    statement = parse_statement(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', {option_list})"
    )
    assert isinstance(statement, CreateTable)
    Definitions(catalog).create_table(statement)
    table = catalog.entry(("t",))
    assert isinstance(table, TableSpec)
    return table


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    path = tmp_path / "readings.csv"
    path.write_text("ts;v\n2025-01-01 10:00:00;1,5\n2025-01-01 10:01:00;2,5\n")
    return path


def test_files_bring_the_columns_that_a_watermark_and_computed_ones_stand_on(
    readings: Path,
) -> None:
    table = create_table("d AS v * 2, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", readings)
    assert [(c.name, c.type, c.computed) for c in table.columns] == [
        ("ts", "TIMESTAMP_NTZ", None),
        ("v", "DOUBLE", None),
        ("d", None, "v * 2"),
    ]
    assert table.watermark == Watermark("ts", "ts - INTERVAL '5' SECOND")
    assert table.option_map["csv.field-delimiter"] == ";"
    [made_again] = show_create_table(table)
    assert (
        create_table(made_again, readings, *(f"'{k}' = '{v}'" for k, v in table.options[1:]))
        == table
    )


def show_create_table(table: TableSpec) -> list[str]:
    """Return the columns in SHOW CREATE TABLE."""
    catalog = SessionCatalog(unstarted_spark(), cast(Any, None))
    catalog.add(("t",), table, replace=False, if_not_exists=False)
    statement = listings.show_create_table(catalog, ("t",), DEFAULT, SPARK)
    text = str(statement.column(0)[0])
    return [text.partition("(\n")[2].partition("\n)")[0]]


def test_a_table_of_metadata_columns_has_no_others(readings: Path) -> None:
    metadata = "at TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time'"
    format_ = "'format' = 'csv'"
    alone = create_table(f"{metadata}, WATERMARK FOR at AS at", readings, format_)
    assert [column.name for column in alone.columns] == ["at"]
    both = create_table(f"{metadata}, WATERMARK FOR ts AS ts", readings)
    assert [column.name for column in both.columns] == ["ts", "v", "at"]


@pytest.mark.parametrize(
    ("columns", "message", "hint"),
    [
        (
            "WATERMARK FOR tz AS tz",
            "WATERMARK FOR refers to `tz`, which is not a column of the table",
            "available columns: ts, v",
        ),
        (
            "WATERMARK FOR v AS v",
            "a watermark must be a TIMESTAMP, but `v` is DOUBLE",
            "declare it TIMESTAMP(3) or TIMESTAMP_LTZ(3), or use a computed column: "
            "ts AS TO_TIMESTAMP(v)",
        ),
        (
            "V AS ts, WATERMARK FOR ts AS ts",
            "column `V` of `t` already exists in its files",
            "rename it, or declare all columns",
        ),
        (
            "PRIMARY KEY (k) NOT ENFORCED",
            "PRIMARY KEY refers to `k`, which is not a column of the table",
            "available columns: ts, v",
        ),
    ],
)
def test_create_table_refuses_columns_that_the_files_lack(
    readings: Path, columns: str, message: str, hint: str
) -> None:
    with pytest.raises(AnalysisError) as raised:
        create_table(columns, readings)
    assert (raised.value.message, raised.value.hint) == (message, hint)


def test_a_table_of_no_files_brings_no_columns() -> None:
    with pytest.raises(AnalysisError, match="WATERMARK FOR refers to `ts`, which is not a column"):
        report_of("CREATE TABLE t (WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')")


def test_show_create_table_quotes_names_of_any_letters() -> None:
    text = """
        CREATE TABLE `a``b` (
          `x``y` TIMESTAMP(3), `k``1` INT,
          WATERMARK FOR `x``y` AS `x``y`, PRIMARY KEY (`k``1`) NOT ENFORCED
        ) PARTITIONED BY (`k``1`)
        WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'csv')"""
    catalog = SessionCatalog(SPARK, cast(Any, None))
    definitions = Definitions(catalog)
    statement = parse_statement(text)
    assert isinstance(statement, CreateTable)
    definitions.create_table(statement)
    spec = catalog.entry(statement.name)
    table = listings.show_create_table(catalog, statement.name, DEFAULT, SPARK)
    (shown,) = table.column(0).to_pylist()
    catalog.drop(statement.name, "TABLE", if_exists=False)
    again = parse_statement(shown)
    assert isinstance(again, CreateTable)
    definitions.create_table(again)
    assert catalog.entry(statement.name) == spec


WRITTEN = """\
CREATE TABLE `t` (
  `id` BIGINT NOT NULL,
  `ms` BIGINT COMMENT 'since 1970',
  `at` AS TO_TIMESTAMP_LTZ(ms, 3),
  `ts` TIMESTAMP(3),
  `seen` TIMESTAMP_LTZ(0),
  `name` VARCHAR(10),
  `code` CHAR(2),
  `raw` BYTES,
  `key` VARBINARY(16),
  `price` DECIMAL(10, 2),
  `times` MAP<STRING, ARRAY<TIMESTAMP_LTZ(3)>>,
  `place` ROW<`order` INT, `at` TIMESTAMP(6) NOT NULL 'when', `b c` VARCHAR(3)>,
  `wall` TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  `offset` BIGINT METADATA FROM 'offset',
  WATERMARK FOR `ts` AS ts - INTERVAL '5' SECOND,
  PRIMARY KEY (`id`) NOT ENFORCED
)
WITH (
  'connector' = 'kafka',
  'topic' = 't',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
)"""


def shown_again(text: str) -> str:
    """Run CREATE TABLE and return SHOW CREATE TABLE."""
    catalog = SessionCatalog(SPARK, cast(Any, None))
    statement = parse_statement(text)
    assert isinstance(statement, CreateTable)
    Definitions(catalog).create_table(statement)
    table = listings.show_create_table(catalog, statement.name, DEFAULT, SPARK)
    return str(table.column(0)[0])


def test_show_create_table_prints_what_was_written() -> None:
    assert shown_again(WRITTEN) == WRITTEN


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("timestamp", "TIMESTAMP(6)"),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP(2) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(2)"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("BINARY", "BYTES"),
        ("VARCHAR", "STRING"),
        ("STRUCT<a: INT, b: TIMESTAMP_NTZ>", "ROW<`a` INT, `b` TIMESTAMP(6)>"),
        ("ROW(a INT, b ROW<c TIMESTAMP(3)>)", "ROW<`a` INT, `b` ROW<`c` TIMESTAMP(3)>>"),
        ("ARRAY<INTERVAL DAY TO SECOND>", "ARRAY<INTERVAL DAY TO SECOND>"),
    ],
)
def test_a_type_is_shown_in_the_words_of_flink(written: str, shown: str) -> None:
    options = "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'parquet')"
    text = shown_again(f"CREATE TABLE t (a {written}) {options}")
    assert text.splitlines()[1] == f"  `a` {shown}"
    assert shown_again(text) == text


FLAT_TYPES = st.one_of(
    st.sampled_from("STRING BOOLEAN BYTES TINYINT INT BIGINT FLOAT DOUBLE DATE VARIANT".split()),
    st.builds("{}({})".format, st.sampled_from(["TIMESTAMP", "TIMESTAMP_LTZ"]), st.integers(0, 6)),
    st.builds(
        "{}({})".format, st.sampled_from(["CHAR", "VARCHAR", "VARBINARY"]), st.integers(1, 9)
    ),
    st.builds("DECIMAL({}, {})".format, st.integers(5, 38), st.integers(0, 5)),
)
FIELD_NAMES = st.sampled_from(["`a`", "`order`", "`b c`", "`timestamp`", "`x, y<z`", "`q``r`"])
TYPES = st.recursive(
    FLAT_TYPES,
    lambda inner: st.one_of(
        st.builds("ARRAY<{}>".format, inner),
        st.builds("MAP<{}, {}>".format, FLAT_TYPES, inner),
        st.dictionaries(FIELD_NAMES, inner, min_size=1, max_size=3).map(
            lambda fields: f"ROW<{', '.join(f'{name} {type_}' for name, type_ in fields.items())}>"
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(TYPES)
def test_any_type_is_shown_as_it_was_written(type_: str) -> None:
    options = "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'parquet')"
    text = shown_again(f"CREATE TABLE t (a {type_}) {options}")
    assert text.splitlines()[1] == f"  `a` {type_}"
    columns = [parse_statement(script).columns for script in (text, f"CREATE TABLE t (a {type_}) {options}")]  # type: ignore[attr-defined]  # fmt: skip
    assert columns[0] == columns[1]


def test_describe_marks_the_key_and_the_watermark_in_any_case() -> None:
    columns = (TableColumn("Ts", "TIMESTAMP_NTZ"), TableColumn("K", "INT"))
    spec = TableSpec("t", "x", columns, primary_key=("k",), watermark=Watermark("ts", "ts"))
    schema = (Column("Ts", "timestamp_ntz"), Column("K", "int"))
    catalog = SimpleNamespace(entry=lambda name: spec)
    described = listings.describe_table(cast(Any, catalog), ("t",), schema).to_pylist()
    assert [row["key"] for row in described] == ["", "PRI(k)"]
    assert [row["watermark"] for row in described] == ["ts", ""]


BASE = (
    "CREATE TABLE base (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'datagen', 'number-of-rows' = '10')"
)


def test_like_overrides_options_in_any_case() -> None:
    definitions = Definitions(catalog := SessionCatalog(SPARK, cast(Any, None)))
    for text in (BASE, "CREATE TABLE t WITH ('Number-Of-Rows' = '5') LIKE base"):
        definitions.create_table(cast(CreateTable, parse_statement(text)))
    entry = catalog.entry(("t",))
    assert isinstance(entry, TableSpec) and entry.options == (("number-of-rows", "5"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE TABLE t (WATERMARK FOR id2 AS id2) LIKE base (OVERWRITING WATERMARKS)",
            "WATERMARK FOR refers to `id2`",
        ),
        (
            "CREATE TABLE t (PRIMARY KEY (k) NOT ENFORCED) LIKE base (INCLUDING ALL)",
            "PRIMARY KEY refers to `k`",
        ),
        (
            "CREATE TABLE t PARTITIONED BY (k) LIKE base (INCLUDING ALL)",
            "PARTITIONED BY refers to `k`",
        ),
    ],
)
def test_clauses_may_name_columns_that_like_copies(text: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        report_of(BASE, text)


@pytest.mark.parametrize(
    "create", ["CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS"]
)
def test_like_without_options_copies_a_table_of_the_session(create: str) -> None:
    session = Session(unstarted_spark(), settings={})
    options = "WITH ('connector' = 'filesystem', 'path' = '/from/base', 'format' = 'parquet')"
    session.execute(f"CREATE TABLE base (id INT) {options}; {create} copy LIKE base")
    (shown,) = session.execute("SHOW CREATE TABLE copy")
    assert "/from/base" in str(shown.to_arrow().to_pylist())


def test_like_of_a_table_of_spark_is_a_statement_of_spark() -> None:
    with pytest.raises(NeedsSparkError):
        Session(unstarted_spark(), settings={}).execute("CREATE TABLE copy LIKE base")


@pytest.mark.parametrize("options", ["", "WITH ('path' = 'x') "])
def test_like_does_not_copy_a_view(options: str) -> None:
    session = Session(unstarted_spark(), settings={})
    session.execute("CREATE VIEW v AS SELECT 1 AS x")
    with pytest.raises(CatalogError, match="`v` is a view") as caught:
        session.execute(f"CREATE TABLE copy {options}LIKE v")
    assert caught.value.position is not None
