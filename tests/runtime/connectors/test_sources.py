# Timestamps without a zone are what is tested here.
# ruff: noqa: DTZ001
from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, ExecutionError, SetupError, SqlwinError
from runtime.options.checks import duration_us
from runtime.spark.errors import translate
from tests.runtime.connectors.tables import read_table, table


def rows(spark: SparkSession, spec) -> list[tuple]:
    return [tuple(row) for row in read_table(spark, spec).collect()]


def error_text(error: SqlwinError) -> str:
    return f"{error.message} | {error.hint}"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (table("filesytem"), "unknown connector 'filesytem' | did you mean 'filesystem'?"),
        (table("filesystem", format="csv"), "option 'path' is missing"),
        (table("filesystem", path="x"), "option 'format' is missing, and 'x' has no known suffix"),
        (table("filesystem", path="x", format="parket"), "unknown format 'parket' | did you mean 'parquet'?"),
        (table("filesystem", path="x", format="arrow"), "unknown format 'arrow' | convert the files to Parquet; available formats: parquet"),
        (table("filesystem", path="x.csv", csv__field_delimeter=";"), "'csv.field-delimeter' | did you mean 'csv.field-delimiter'?"),
        (table("filesystem", path="x.csv", json__ignore_parse_errors="true"), "unknown option 'json.ignore-parse-errors'"),
        (table("filesystem", path="x.csv", csv__ignore_parse_errors="yes"), "invalid value 'yes' for option 'csv.ignore-parse-errors' | it must be true or false"),
        (table("filesystem", path="x.csv", csv__quote_character="''"), "it must be a single character"),
        (table("filesystem", path="x.csv", heder="true"), "unknown option 'heder' | did you mean 'header'?"),
        (table("filesystem", "f STRING @ file.nam", path="x.csv"), "no metadata 'file.nam' for column `f` of table `t` | did you mean 'file.name'?"),
        (table("filesystem", "a INT; A INT", path="x.csv"), "declares column `A` twice"),
        (table("filesystem", "a INT", ("b",), path="x.csv"), "partitioned by `b`, but has no such column"),
        (table("datagen", "abc INT", number_of_rows="3", fields__acb__min="1"), "column `acb`, which does not exist | did you mean 'fields.abc.min'?"),
        (table("datagen", "a INT", number_of_rows="3", fields__a__mni="1"), "unknown option 'fields.a.mni' | did you mean 'fields.a.min'?"),
        (table("datagen", "a INT", number_of_rows="many"), "it must be a whole number, at least 0"),
        (table("datagen", number_of_rows="1"), "requires columns"),
        (table("spark", url="x"), "option 'format' is missing"),
        (table("print", print_identfier="x"), "did you mean 'print-identifier'?"),
        (table("blackhole", x="y"), "unknown option 'x'"),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_named_with_a_valid_one(spec, message):
    with pytest.raises(CatalogError) as caught:
        open_table(spec).check()
    assert message in error_text(caught.value)


def test_options_of_streaming_runs_and_of_spark_are_known():
    open_table(
        table(
            "filesystem",
            path="x.csv",
            header="true",
            csv__sep=";",
            source__monitor_interval="10 s",
            auto_compaction="true",
        )
    ).check()


def test_a_column_is_processing_time_only_as_the_plain_call():
    spec = table("datagen", "a INT; P = Proctime ( ); q = 'PROCTIME()'")
    assert spec.proctime_columns == {"p"}


def test_durations_are_read_as_flink_reads_them():
    assert [duration_us(t) for t in ("5 s", "10min", "1 d", "250", "3 fortnights")] == [
        5_000_000,
        600_000_000,
        86_400_000_000,
        250_000,
        None,
    ]


# Files -------------------------------------------------------------------------------------------


def test_csv_columns_stand_in_order_and_quotes_are_doubled(spark: SparkSession, tmp_path: Path):
    (tmp_path / "a.csv").write_text('1;"x ""y"""\n2;\n')
    spec = table(
        "filesystem", "n BIGINT; s STRING", path=f"{tmp_path}/a.csv", csv__field_delimiter=";"
    )
    assert rows(spark, spec) == [(1, 'x "y"'), (2, None)]


@pytest.mark.long
def test_csv_with_a_header_is_read_by_name_in_any_case(spark: SparkSession, tmp_path: Path):
    (tmp_path / "a.csv").write_text("A,b,C\n1,x,2.5\n")
    spec = table("filesystem", "c DOUBLE; a INT", path=f"{tmp_path}/a.csv", header="true")
    assert rows(spark, spec) == [(2.5, 1)]
    missing = table("filesystem", "d INT", path=f"{tmp_path}/a.csv", header="true")
    with pytest.raises(CatalogError) as caught:
        read_table(spark, missing)
    assert error_text(caught.value) == (
        f"column `d` of table `t` does not exist in {tmp_path}/a.csv | available columns: `A`, `b`, `C`"
    )


def test_a_csv_record_that_does_not_fit_is_an_error_or_null_on_demand(
    spark: SparkSession, tmp_path: Path
):
    (tmp_path / "a.csv").write_text("1,x\ny,z\n# 3,c\n-,-\n")
    options = {"path": f"{tmp_path}/a.csv", "csv__allow_comments": "true", "csv__null_literal": "-"}
    spec = table("filesystem", "n INT; s STRING", **options)
    with pytest.raises(Exception) as caught:  # any exception of Spark
        read_table(spark, spec).collect()
    error = translate(caught.value)
    assert isinstance(error, ExecutionError)
    assert error.message == f"{tmp_path}/a.csv, line 2, column `n`: 'y' is not a valid INT"
    lenient = table("filesystem", "n INT; s STRING", **options, csv__ignore_parse_errors="true")
    assert rows(spark, lenient) == [(1, "x"), (None, "z"), (None, None)]


def test_json_fields_match_in_any_case_and_may_be_missing(spark: SparkSession, tmp_path: Path):
    (tmp_path / "a.json").write_text(
        '{"Price": 1, "ts": "2024-01-01T10:00:00"}\n{"ts": "2024-01-01 11:00:00.5"}\n'
    )
    spec = table(
        "filesystem", "price BIGINT; ts TIMESTAMP_NTZ; extra STRING", path=f"{tmp_path}/a.json"
    )
    assert rows(spark, spec) == [
        (1, dt.datetime(2024, 1, 1, 10), None),
        (None, dt.datetime(2024, 1, 1, 11, 0, 0, 500_000), None),
    ]


@pytest.mark.long
def test_broken_json_lines_are_left_out_on_demand(spark: SparkSession, tmp_path: Path):
    (tmp_path / "a.json").write_text('{"a": 1, "b": 1}\n{"a": "x", "b": 2}\n{bro\n')
    options = {"path": f"{tmp_path}/a.json"}
    lenient = table("filesystem", "a INT; b INT", **options, json__ignore_parse_errors="true")
    assert rows(spark, lenient) == [(1, 1), (None, 2)]
    with pytest.raises(Exception) as caught:
        read_table(spark, table("filesystem", "a INT; b INT", **options)).collect()
    place = f"{tmp_path}/a.json, line 2, column `a`: 'x' is not a valid INT"
    assert translate(caught.value).message == place


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    path = tmp_path / "a+b c.parquet"
    pq.write_table(
        pa.table(
            {
                "Id": pa.array([1, 2], pa.int32()),
                "price": pa.array([Decimal("1.50"), None]),
                "ts": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us")),
                "at": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us", tz="UTC")),
            }
        ),
        path,
    )
    return str(path)


@pytest.mark.long
def test_parquet_columns_are_widened_but_never_changed(spark: SparkSession, parquet: str):
    wider = table("filesystem", "price DECIMAL(10,4); id BIGINT", path=parquet)
    assert read_table(spark, wider).schema.simpleString() == "struct<price:decimal(10,4),id:bigint>"
    assert rows(spark, wider) == [(Decimal("1.5000"), 1), (None, 2)]
    for column, message in [
        ("id SMALLINT", "column `id` of table `t` is declared SMALLINT, but is INT in"),
        ("ts TIMESTAMP", "column `ts` of table `t` is declared TIMESTAMP_LTZ(6), but is TIMESTAMP(6) in"),
        ("price DECIMAL(3,1)", "is declared DECIMAL(3, 1), but is DECIMAL(3, 2) in"),
        ("prices INT", "column `prices` of table `t` does not exist in"),
        ("id NOTHING", "column `id` of table `t` has the unknown type NOTHING"),
    ]:  # fmt: skip
        with pytest.raises(CatalogError) as caught:
            read_table(spark, table("filesystem", column, path=parquet))
        assert message in caught.value.message


def test_computed_and_metadata_columns_stand_where_they_are_declared(
    spark: SparkSession, parquet: str
):
    spec = table(
        "filesystem",
        "double_id  = id * 2; file STRING @ file.name; id INT; size BIGINT @ file.size",
        path=parquet,
    )
    result = read_table(spark, spec)
    assert result.columns == ["double_id", "file", "id", "size"]
    assert tuple(result.first()) == (2, "a+b c.parquet", 1, Path(parquet).stat().st_size)
    with pytest.raises(CatalogError) as caught:
        read_table(spark, table("filesystem", "id INT; x  = idd + 1", path=parquet))
    assert (
        error_text(caught.value)
        == "computed column `x` of table `t`: column `idd` does not exist | did you mean `id`?"
    )


def test_nanosecond_timestamps_are_floored_to_microseconds_on_any_clock(
    spark: SparkSession, tmp_path: Path
):
    # 02:30 on that day does not exist in Los Angeles.
    nanos = [1_710_037_800_123_456_789, -1, None, -(2**63)]
    path = tmp_path / "a.parquet"
    columns = {
        "ts": pa.array(nanos, pa.timestamp("ns")),
        "at": pa.array(nanos, pa.timestamp("ns", tz="UTC")),
        "n": pa.array([1, 2, 3, 4]),
    }
    pq.write_table(pa.table(columns), path)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        result = read_table(
            spark,
            table(
                "filesystem",
                "ts TIMESTAMP_NTZ; us BIGINT = unix_micros(at); n BIGINT; at TIMESTAMP; f STRING @ file.name",
                path=str(path),
            ),
        )
        text = result.selectExpr("CAST(ts AS STRING)", "us", "f").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [tuple(row) for row in text] == [
        ("2024-03-10 02:30:00.123456", 1_710_037_800_123_456, "a.parquet"),
        ("1969-12-31 23:59:59.999999", -1, "a.parquet"),
        (None, None, "a.parquet"),
        ("1677-09-21 00:12:43.145224", -9_223_372_036_854_776, "a.parquet"),
    ]


def test_partition_directories_have_the_declared_type(spark: SparkSession, tmp_path: Path):
    for day in ("01", "02"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"n": [int(day)]}), tmp_path / f"day={day}" / "a.parquet")
        (tmp_path / f"day={day}" / "_hidden").write_text("not Parquet")
    columns, options = "day STRING; n BIGINT", {"path": str(tmp_path), "format": "parquet"}
    assert sorted(rows(spark, table("filesystem", columns, ("day",), **options))) == [
        ("01", 1),
        ("02", 2),
    ]
    one = table(
        "filesystem", columns, ("day",), **options, source__path__regex_pattern=".*/day=02/.*"
    )
    assert rows(spark, one) == [("02", 2)]


def test_paths_start_at_the_current_directory_and_may_be_globs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("a1.csv", "a2.csv", "b[1].csv"):
        Path(name).write_text(f"{name}\n")
    read = {
        path: sorted(r[0] for r in rows(spark, table("filesystem", "s STRING", path=path)))
        for path in ("a1.csv", "a?.csv", "{a1,b*}.csv", "b[1].csv")
    }
    assert read == {
        "a1.csv": ["a1.csv"],
        "a?.csv": ["a1.csv", "a2.csv"],
        "{a1,b*}.csv": ["a1.csv", "b[1].csv"],
        "b[1].csv": ["b[1].csv"],
    }


def test_a_missing_path_is_named_with_the_nearest_existing_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flights.parquet").touch()
    with pytest.raises(ExecutionError) as caught:
        read_table(spark, table("filesystem", path="flight.parquet"))
    assert error_text(caught.value) == (
        f"{tmp_path}/flight.parquet does not exist | did you mean {tmp_path}/flights.parquet?"
    )
    with pytest.raises(ExecutionError, match=r"no file matches .*/\*\.csv"):
        read_table(spark, table("filesystem", path="*.csv"))


@pytest.mark.long
def test_a_corrupt_file_is_named(spark: SparkSession, parquet: str, tmp_path: Path):
    half = tmp_path / "half.parquet"
    content = Path(parquet).read_bytes()
    half.write_bytes(content[: len(content) // 2])
    for columns in ("", "id INT"):
        with pytest.raises(ExecutionError) as caught:
            read_table(spark, table("filesystem", columns, path=str(half)))
        assert caught.value.message == f"{half} is not a Parquet or ORC file, or it is corrupt"


def test_a_directory_without_files_is_an_empty_table_if_its_columns_are_declared(
    spark: SparkSession, tmp_path: Path
):
    options = {"path": str(tmp_path), "format": "parquet"}
    spec = table("filesystem", "a INT; b  = a + 1", **options)
    assert (read_table(spark, spec).columns, rows(spark, spec)) == (["a", "b"], [])
    with pytest.raises(CatalogError, match=r"cannot infer columns, because .* contains no file"):
        read_table(spark, table("filesystem", **options))


def test_avro_says_which_package_it_needs(spark: SparkSession, tmp_path: Path):
    (tmp_path / "a.avro").write_bytes(b"Obj\x01")
    with pytest.raises(SetupError) as caught:
        read_table(spark, table("filesystem", path=f"{tmp_path}/a.avro"))
    assert "spark.jars.packages=org.apache.spark:spark-avro_2.13:" in caught.value.hint


# Made-up rows ------------------------------------------------------------------------------------

EVERY_TYPE = (
    "a TINYINT; b SMALLINT; c INT; d BIGINT; e FLOAT; f DOUBLE; g DECIMAL(10,2); h DECIMAL(38,10); "
    "i STRING; j BINARY; k BOOLEAN; l DATE; m TIMESTAMP; n TIMESTAMP_NTZ; "
    "o ARRAY<INT>; p STRUCT<x: INT, y: ARRAY<STRING>>; q VARCHAR(10)"
)


@pytest.mark.long
def test_the_same_seed_gives_the_same_rows_however_they_are_partitioned(spark: SparkSession):
    def made(seed: str, partitions: str) -> list[tuple]:
        timeless = EVERY_TYPE.replace("l DATE; m TIMESTAMP; n TIMESTAMP_NTZ; ", "")
        return rows(spark, table("datagen", timeless, number_of_rows="50", seed=seed, scan__parallelism=partitions))  # fmt: skip

    first = made("1", "1")
    assert first == made("1", "3")
    assert first != made("2", "1")
    assert len(set(map(str, first))) == 50


@pytest.mark.long
def test_every_type_can_be_generated_as_declared(spark: SparkSession):
    result = read_table(spark, table("datagen", EVERY_TYPE, number_of_rows="20", seed="1", fields__i__length="40", fields__p__x__max="3", fields__p__x__min="3"))  # fmt: skip
    row = result.first()
    assert result.schema["o"].dataType.simpleString() == "array<int>"
    assert (len(row["i"]), len(row["j"]), len(row["o"]), row["p"]["x"]) == (40, 8, 3, 3)
    assert len(set(row["o"])) == 3, "elements of an array differ"
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert abs(row["n"] - now) < dt.timedelta(minutes=5)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({}, -1e6, 1e6),
        ({"fields__x__min": "5", "fields__y__min": "5"}, 5, 1e6 + 5),
        ({"fields__x__max": "-3e6", "fields__y__max": "-3e6"}, -4e6, -3e6),
        ({"fields__x__min": "1e300", "fields__y__min": "1e30"}, 1e30, 1e301),
    ],
)
def test_aggregates_of_doubles_without_bounds_are_finite(
    spark: SparkSession, options: dict[str, str], low: float, high: float
) -> None:
    spec = table("datagen", "x DOUBLE; y FLOAT", number_of_rows="500", seed="1", **options)
    figures = (
        read_table(spark, spec)
        .selectExpr("AVG(x)", "AVG(CAST(y AS DOUBLE))", "MIN(x)", "MAX(x)", "MIN(y)", "MAX(y)")
        .first()
    )
    assert all(low <= value <= high for value in figures)


def test_values_stay_between_min_and_max_and_reach_both(spark: SparkSession):
    spec = table(
        "datagen",
        "n TINYINT; big BIGINT; x DOUBLE; d DECIMAL(4,2); ts TIMESTAMP_NTZ; s STRING; o INT",
        number_of_rows="2000",
        seed="7",
        fields__n__min="-3",
        fields__n__max="3",
        fields__x__min="0",
        fields__x__max="1",
        fields__d__min="0.01",
        fields__d__max="0.03",
        fields__ts__min="2024-01-01 00:00:00",
        fields__ts__max="2024-01-01 00:00:00.000002",
        fields__s__length="3",
        fields__s__var_len="true",
        fields__o__null_rate="0.5",
    )
    generated = rows(spark, spec)
    column = dict(
        zip(("n", "big", "x", "d", "ts", "s", "o"), zip(*generated, strict=True), strict=True)
    )
    assert set(column["n"]) == set(range(-3, 4))
    assert min(column["big"]) < -(2**62) and max(column["big"]) > 2**62
    assert 0 <= min(column["x"]) < 0.01 and 0.99 < max(column["x"]) < 1
    assert 0.45 < sum(column["x"]) / 2000 < 0.55
    assert set(column["d"]) == {Decimal("0.01"), Decimal("0.02"), Decimal("0.03")}
    assert {ts.microsecond for ts in column["ts"]} == {0, 1, 2}
    assert {len(s) for s in column["s"]} == {1, 2, 3}
    assert 850 < sum(o is None for o in column["o"]) < 1150


def test_a_sequence_counts_from_start_to_end_and_ends_the_table(spark: SparkSession):
    spec = table(
        "datagen",
        "n BIGINT; s STRING; ts TIMESTAMP_NTZ",
        fields__n__kind="sequence",
        fields__n__start="-1",
        fields__n__end="3",
        fields__s__kind="sequence",
        fields__s__start="1",
        fields__s__end="100",
        fields__ts__kind="sequence",
        fields__ts__start="2024-01-01 00:00:00",
        fields__ts__end="2024-01-01 00:01:00",
    )
    assert rows(spark, spec) == [
        (n, str(n + 2), dt.datetime(2024, 1, 1) + dt.timedelta(seconds=15 * (n + 1)))
        for n in range(-1, 4)
    ]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a TINYINT", {"fields__a__max": "128"}, "for TINYINT it must be from -128 to 127"),
        ("a INT", {"fields__a__min": "5", "fields__a__max": "4"}, "for INT it must be at least the min, 5"),
        ("a INT", {"fields__a__kind": "sequence", "fields__a__start": "1"}, "option 'fields.a.end' is missing"),
        ("a BOOLEAN", {"fields__a__kind": "sequence", "fields__a__start": "1", "fields__a__end": "2"}, "BOOLEAN values can only be random"),
        ("a MAP<INT, INT>", {}, "cannot generate MAP<INT, INT>"),
        ("a STRUCT<x: INT>", {"fields__a__y__min": "1"}, "unknown option 'fields.a.y.min' | did you mean 'fields.a.x.min'?"),
        ("a TIMESTAMP_NTZ", {"fields__a__min": "2024-01-01"}, "option 'fields.a.max' is missing"),
    ],
)  # fmt: skip
def test_options_must_fit_the_type_of_their_column(spark: SparkSession, columns, options, message):
    with pytest.raises(CatalogError) as caught:
        read_table(spark, table("datagen", columns, number_of_rows="3", **options))
    assert message in error_text(caught.value)


# Other sources -----------------------------------------------------------------------------------


@pytest.mark.long
def test_any_source_of_spark_can_be_a_table(spark: SparkSession, parquet: str, tmp_path: Path):
    spec = table("spark", "id BIGINT", format="parquet", path=parquet)
    assert rows(spark, spec) == [(1,), (2,)]
    (tmp_path / "a.csv").write_text("A\n5\n")
    assert rows(
        spark, table("spark", "n INT", format="csv", path=f"{tmp_path}/a.csv", header="true")
    ) == [(5,)]
    with pytest.raises(SqlwinError, match="table `t`: data source `zork` does not exist"):
        read_table(spark, table("spark", format="zork"))


def test_tables_that_only_take_rows_cannot_be_read(spark: SparkSession):
    with pytest.raises(CatalogError, match="connector 'print' is a sink only"):
        read_table(spark, table("print", "a INT"))
