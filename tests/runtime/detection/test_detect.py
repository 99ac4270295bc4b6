"""Detection of file formats and columns from a sample of the files that new users have."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.detection.detect import DetectionResult, detect
from runtime.errors import CatalogError, ExecutionError
from runtime.files import LocalFiles
from runtime.scan.paths import data_files
from runtime.spec.table import TableSpec

EUROPEAN = """Zeit;Ort;Preis;Menge
31.12.2025 23:59:59;Köln;1.234,50;3
01.01.2026 00:00:10;Bonn;n/a;12
"""


def detect_file(path: Path, **options: str) -> DetectionResult:
    named = tuple((name.replace("__", ".").replace("_", "-"), v) for name, v in options.items())
    spec = TableSpec("t", "filesystem", options=(("path", str(path)), *named))
    return detect(spec, str(path), list(data_files(str(path))), LocalFiles())


def write_file(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def types(actual: DetectionResult) -> dict[str, str | None]:
    return {column.name: column.type for column in actual.spec.columns}


def options(actual: DetectionResult) -> dict[str, str]:
    return {name: value for name, value in actual.spec.options if name != "path"}


def test_european_csv(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", EUROPEAN))
    assert types(detection) == {
        "Zeit": "TIMESTAMP_NTZ",
        "Ort": "STRING",
        "Preis": "DOUBLE",
        "Menge": "BIGINT",
    }
    assert options(detection) == {
        "csv.field-delimiter": ";",
        "header": "true",
        "csv.null-literal": "n/a",
        "csv.decimal-separator": ",",
        "csv.thousands-separator": ".",
        "fields.Zeit.format": "d.M.yyyy H:mm:ss",
    }
    assert detection.notes == ()


def test_plain_csv_needs_no_more_than_its_header(tmp_path: Path) -> None:
    text = "ts,price,name\n2025-01-01 10:00:00,1.5,a\n2025-01-01 11:00:00,2,b\n"
    detection = detect_file(write_file(tmp_path / "f.csv", text))
    assert types(detection) == {"ts": "TIMESTAMP_NTZ", "price": "DOUBLE", "name": "STRING"}
    assert options(detection) == {"header": "true"}


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b\n1,5;2\n", ";"),
        ("a\tb\n1\tx, y\n", "\\t"),
        ("a|b\n1|x; y\n", "|"),
        ('a,b\n1,"x; y"\n2,"p; q; r"\n', None),
        ("# made by a machine\na;b\n1;2\n", ";"),
    ],
)
def test_delimiters(tmp_path: Path, text: str, delimiter: str | None) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", text))
    assert options(detection).get("csv.field-delimiter") == delimiter
    assert list(types(detection)) == ["a", "b"]


def test_without_a_header_columns_are_numbered(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", "1,2025-01-01,x\n2,2025-01-02,y\n"))
    assert types(detection) == {"column0": "BIGINT", "column1": "DATE", "column2": "STRING"}
    assert "header" not in options(detection)


def test_a_header_may_have_some_names_that_are_no_plain_words(tmp_path: Path) -> None:
    detection = detect_file(
        write_file(tmp_path / "a.csv", "day,% of total,is ok?,city,seen\n1,2,x,3,y\n")
    )
    assert list(types(detection)) == ["day", "% of total", "is ok?", "city", "seen"]
    # a row without a number is not a header, either
    detection = detect_file(write_file(tmp_path / "b.csv", "Bonn,Ann,??\nRome,Bob,3\nOslo,Eve,4\n"))
    assert list(types(detection)) == ["column0", "column1", "column2"]


def test_texts_above_texts_are_a_header_if_they_do_not_repeat(tmp_path: Path) -> None:
    header = detect_file(write_file(tmp_path / "a.csv", "name,city\nAnn,Bonn\nBob,Rome\n"))
    assert list(types(header)) == ["name", "city"]
    data = detect_file(write_file(tmp_path / "b.csv", "Ann,Bonn\nBob,Bonn\n"))
    assert list(types(data)) == ["column0", "column1"]


def test_null_words_are_detected_in_typed_columns(tmp_path: Path) -> None:
    text = "a,b,c\n1,NULL,none\n-,2.5,x\n3,n/a,y\n"
    detection = detect_file(write_file(tmp_path / "f.csv", text))
    assert types(detection) == {"a": "BIGINT", "b": "DOUBLE", "c": "STRING"}
    assert options(detection)["csv.null-literals"] == "-|NULL|n/a"


def test_codes_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", "zip,n\n01234,1\n50667,2\n"))
    assert types(detection) == {"zip": "STRING", "n": "BIGINT"}


def test_a_column_of_one_odd_word_says_how_to_read_it(tmp_path: Path) -> None:
    text = "v\n" + "".join(f"{i}\n" for i in range(50)) + "broken\n"
    detection = detect_file(write_file(tmp_path / "f.csv", text), format="csv")
    assert types(detection) == {"v": "STRING"}
    assert "'csv.null-literals' = 'broken'" in detection.notes[0]


def test_ambiguous_dates_stay_text_with_a_note(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", "when,v\n01/02/2025,1\n03/04/2025,2\n"))
    assert types(detection)["when"] == "STRING"
    assert "d/M/yyyy or M/d/yyyy" in detection.notes[0]


def test_an_option_settles_ambiguous_dates(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.csv", "d,v\n01/02/2025,1\n03/04/2025,2\n")
    detection = detect_file(path, fields__d__format="d/M/yyyy")
    assert types(detection)["d"] == "DATE"
    assert detection.notes == ()


def test_thousands_or_fractions_that_no_value_tells_apart_stay_text(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.csv", "a;b\nx;0\ny;1,234\nz;5,678\n")
    detection = detect_file(path)
    assert types(detection)["b"] == "STRING"
    assert (
        "`b` is STRING, because the separator in '1,234', '5,678' may be for thousands"
        in detection.notes[0]
    )
    assert "set 'csv.decimal-separator'" in detection.notes[0]
    declared = detect_file(path, csv__decimal_separator=",")
    assert types(declared)["b"] == "DOUBLE"


def test_another_column_tells_thousands_from_fractions(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", "a;b\n1,5;1.234\n2,25;12.000\n"))
    assert types(detection) == {"a": "DOUBLE", "b": "BIGINT"}
    assert options(detection)["csv.thousands-separator"] == "."


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("ts", "1735689600", "epoch-seconds"),
        ("created_at", "1735689600123", "epoch-millis"),
        ("eventTime", "1735689600123456", "epoch-micros"),
        ("order_id", "1735689600123", None),
    ],
)
def test_numbers_are_times_where_name_and_range_say_so(
    tmp_path: Path, name: str, value: str, unit: str | None
) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", f"{name},v\n{value},1\n"))
    assert types(detection)[name] == ("BIGINT" if unit is None else "TIMESTAMP")
    assert options(detection).get(f"fields.{name}.format") == unit


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        {"ts": "2025-01-01T00:00:00Z", "v": 1, "user": {"id": 7}, "tags": ["a"], "late": None},
        {"ts": "2025-01-01T00:00:01Z", "v": 1.5, "extra": True},
    ]
    path = write_file(tmp_path / "f.ndjson", "".join(f"{json.dumps(row)}\n" for row in rows))
    detection = detect_file(path)
    assert types(detection) == {
        "ts": "TIMESTAMP",
        "v": "DOUBLE",
        "user": "STRUCT<`id`: BIGINT>",
        "tags": "ARRAY<STRING>",
        "late": "STRING",
        "extra": "BOOLEAN",
    }
    assert options(detection) == {}


def test_an_array_of_json_objects(tmp_path: Path) -> None:
    detection = detect_file(
        write_file(tmp_path / "f.json", '[{"t": 1735689600,\n "v": "n/a"}, {"v": 2}]')
    )
    assert types(detection) == {"t": "BIGINT", "v": "BIGINT"}
    assert options(detection) == {"multiLine": "true", "json.null-literals": "n/a"}


def test_a_broken_line_of_json_is_reported_with_its_position(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.ndjson", '{"a": 1}\n{"a": \n{"a": 2}\n')
    with pytest.raises(ExecutionError) as caught:
        detect_file(path)
    assert caught.value.message == (
        f"{path}, line 2: '{{\"a\":' is not valid JSON (column 7: expecting value)"
    )


def _damage_footer(data: bytes) -> bytes:
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start] + b"\xff" * 20 + data[start + 20 :]


@pytest.mark.parametrize(
    ("ending", "damage", "reason"),
    [
        ("csv.gz", lambda data: b"  " + data, "it is not a gzip file"),
        (
            "csv.gz",
            lambda data: data[:10] + b"\xff" * 4 + data[14:],
            "its compressed data is corrupt",
        ),
        ("parquet", lambda _: b"", "it is not a Parquet file, or it is truncated"),
        ("parquet", lambda data: data[:-9], "it is not a Parquet file, or it is truncated"),
        ("parquet", _damage_footer, "it is corrupt"),
    ],
)
def test_a_damaged_file_is_reported_with_its_reason(
    tmp_path: Path, ending: str, damage: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / f"f.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"k": ["2024-01-01"], "v": [1]}), path)
    else:
        path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 9))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ExecutionError) as caught:
        detect_file(path)
    assert caught.value.message == f"cannot read {path}: {reason}"


def test_compressed_files_and_encodings(tmp_path: Path) -> None:
    packed = write_file(tmp_path / "f.csv.gz", gzip.compress(EUROPEAN.encode()))
    assert types(detect_file(packed))["Preis"] == "DOUBLE"
    windows = write_file(tmp_path / "w.csv", EUROPEAN.encode("cp1252"))
    assert options(detect_file(windows))["encoding"] == "windows-1252"
    marked = write_file(tmp_path / "m.csv", b"\xef\xbb\xbfa,b\n1,2\n")
    assert types(detect_file(marked)) == {"a": "BIGINT", "b": "BIGINT"}


@pytest.mark.parametrize(
    ("name", "text", "file_format"),
    [
        ("x.log", "hello, you\nthis is a log\nof words, all kinds, of them\n", "text"),
        ("data", "a,b\n1,2\n3,4\n", "csv"),
        ("data", '{"a": 1}\n', "json"),
        ("x.tsv", "a\tb\n1\t2\n", "csv"),
        ("x.txt", "a;b\n1;2\n", "csv"),
    ],
)
def test_formats_of_files_whose_names_do_not_say(
    tmp_path: Path, name: str, text: str, file_format: str
) -> None:
    assert options(detect_file(write_file(tmp_path / name, text)))["format"] == file_format


def test_utf16_is_known_by_its_mark(tmp_path: Path) -> None:
    detection = detect_file(write_file(tmp_path / "f.csv", EUROPEAN.encode("utf-16")))
    assert types(detection)["Preis"] == "DOUBLE"
    assert (options(detection)["encoding"], options(detection)["multiLine"]) == ("UTF-16", "true")


def test_a_delimiter_of_several_characters_requires_columns(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.csv", "a||b\n1||2\n")
    with pytest.raises(CatalogError, match="multi-character delimiter"):
        detect_file(path, csv__field_delimiter="||")


def test_parquet_is_detected_by_its_first_bytes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "data")
    detection = detect_file(tmp_path / "data")
    assert options(detection) == {"format": "parquet"}
    assert detection.spec.columns == ()


def test_hive_directories_need_no_format_and_give_columns(tmp_path: Path) -> None:
    for day in ("2025-01-01", "2025-01-02"):
        for shop in ("7", "08"):
            write_file(tmp_path / f"day={day}" / f"shop={shop}" / "part-0.csv", "a,b\n1,2\n")
    detection = detect_file(tmp_path)
    assert options(detection) == {"format": "csv", "header": "true"}
    assert types(detection) == {"a": "BIGINT", "b": "BIGINT", "day": "DATE", "shop": "INT"}
    assert detection.spec.partitioned_by == ("day", "shop")


def test_parquet_strings_with_times_are_detected_as_times(tmp_path: Path) -> None:
    table = {"ts": ["2025-01-01 00:00:00", None], "name": ["x", "2025-01-01"], "n": [1, 2]}
    pq.write_table(pa.table(table), tmp_path / "f.parquet")
    detection = detect_file(tmp_path / "f.parquet")
    assert types(detection) == {"ts": "TIMESTAMP_NTZ", "name": "STRING", "n": "BIGINT"}
    assert options(detection) == {"fields.ts.format": "ISO-8601"}


def test_files_of_several_formats_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "a.csv", "a\n1\n")
    write_file(tmp_path / "b.json", '{"a": 1}\n')
    with pytest.raises(CatalogError, match=r"different formats: .*a\.csv is csv.*b\.json is json"):
        detect_file(tmp_path)


def test_different_headers_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "a.csv", "ts,v\n2025-01-01,1\n")
    write_file(tmp_path / "b.csv", "ts,w\n2025-01-01,1\n")
    with pytest.raises(CatalogError, match=r"a\.csv has ts, v; .*b\.csv has ts, w"):
        detect_file(tmp_path)


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="is empty"):
        detect_file(write_file(tmp_path / "f.csv", ""))


def test_no_more_than_a_sample_is_read(tmp_path: Path) -> None:
    line = "2025-01-01 10:00:00,1\n"
    path = write_file(tmp_path / "f.csv", "ts,v\n" + line * 100_000 + "2025-01-01 10:00:00,abc\n")
    assert types(detect_file(path)) == {"ts": "TIMESTAMP_NTZ", "v": "BIGINT"}


def test_excels_first_line_names_the_delimiter(tmp_path: Path) -> None:
    detection = detect_file(
        write_file(tmp_path / "f.csv", "sep=;\r\nZeit;Wert\r\n2026-01-01 10:00:00;1\r\n")
    )
    assert types(detection) == {"Zeit": "TIMESTAMP_NTZ", "Wert": "BIGINT"}
    assert options(detection) == {
        "csv.skip-lines": "1",
        "csv.field-delimiter": ";",
        "header": "true",
    }
    assert detection.notes == ()


@pytest.mark.parametrize(
    ("top", "n_lines"),
    [
        ("Report of the station\n", 1),
        ("Report\nmade, by hand\n\n", 3),
        ("Report,,\n,,\n", 2),
        ("Station,Bonn\nSerial,0815\n\n", 3),
        ("Station,Bonn,NRW\nSerial,0815,a\n\n", 3),
        ("", None),
        ("\n\n", None),
    ],
)
def test_a_preamble_above_the_header_is_left_out(
    tmp_path: Path, top: str, n_lines: int | None
) -> None:
    table = "ts,v,name\n2026-01-01 10:00:00,1,a\n2026-01-01 11:00:00,2,b\n2026-01-01 12:00:00,3,c\n"
    detection = detect_file(write_file(tmp_path / "f.csv", top + table))
    assert types(detection) == {"ts": "TIMESTAMP_NTZ", "v": "BIGINT", "name": "STRING"}
    skipped = {} if n_lines is None else {"csv.skip-lines": str(n_lines)}
    assert options(detection) == {**skipped, "header": "true"}
    assert [n_lines is not None] * bool(detection.notes) == [
        "skipped" in note for note in detection.notes
    ]
    if n_lines is not None:
        declared = detect_file(tmp_path / "f.csv", csv__skip_lines=str(n_lines))
        assert (types(declared), declared.notes) == (types(detection), ())


@pytest.mark.parametrize(
    ("units", "n_lines"),
    [
        (",°C,m/s\n", 1),
        ("s,degC,\n", 1),
        ("timestamp,double,float\n", 1),
        ("TS,Deg C,Volts\n,Avg,Smp\n", 2),
        ("[UTC],[°C],[-]\n", 1),
    ],
)
def test_a_row_of_units_or_types_below_the_header_is_left_out(
    tmp_path: Path, units: str, n_lines: int
) -> None:
    rows = "".join(f"2026-01-01 1{i}:00:00,{i}.5,{i}.25\n" for i in range(9))
    path = write_file(tmp_path / "f.csv", f"time,temp,wind\n{units}{rows}")
    detection = detect_file(path)
    assert types(detection) == {"time": "TIMESTAMP_NTZ", "temp": "DOUBLE", "wind": "DOUBLE"}
    assert options(detection) == {"csv.skip-lines-below-header": str(n_lines), "header": "true"}
    assert "below the header" in detection.notes[0]
    assert detect_file(path, csv__skip_lines_below_header=str(n_lines)).notes == ()


def test_a_first_record_with_a_broken_value_is_no_row_of_units(tmp_path: Path) -> None:
    rows = "".join(f"Bonn,{i}\n" for i in range(20))
    detection = detect_file(write_file(tmp_path / "f.csv", f"town,v\nKöln,broken\n{rows}"))
    assert options(detection) == {"header": "true"}
    assert "because of 'broken'" in detection.notes[0]
    assert "set 'csv.skip-lines-below-header' = '1' to skip the line below" in detection.notes[0]
    one = detect_file(write_file(tmp_path / "g.csv", "v\nbroken\n" + "1\n" * 20), format="csv")
    assert list(types(one)) == ["v"]


def test_notes_name_all_values_and_go_away_with_the_option_they_ask_for(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i}.5,n/a\n" for i in range(40))
    path = write_file(tmp_path / "f.csv", f"a,b,c\nlost,1,2\n3,gone,4\n{rows}5,broken,6\n")
    detection = detect_file(path)
    assert types(detection) == {"a": "STRING", "b": "STRING", "c": "BIGINT"}
    assert len(detection.notes) == 2
    assert "because of 'gone', 'broken'" in detection.notes[1]
    words = "n/a|lost|gone|broken"
    assert all(f"'csv.null-literals' = '{words}'" in note for note in detection.notes)
    declared = detect_file(path, csv__null_literals=words)
    assert types(declared) == {"a": "BIGINT", "b": "DOUBLE", "c": "BIGINT"}
    assert declared.notes == ()
    # an option that settles a part of the note leaves the other part
    some = detect_file(path, csv__null_literals="n/a|lost|gone")
    assert types(some) == {"a": "BIGINT", "b": "STRING", "c": "BIGINT"}
    assert "because of 'broken' in line 44;" in some.notes[0]
    assert f"= '{words}'" in some.notes[0]


def test_no_note_advises_to_read_a_header_as_null(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-01 10:00:{i:02},{i}\n" for i in range(20))
    headed = detect_file(write_file(tmp_path / "f.csv", f"ts,2024\n{rows}"))
    assert "set 'header' = 'true' to use the first line" in headed.notes[0]
    assert "null-literals" not in headed.notes[0]
    twice = detect_file(write_file(tmp_path / "g.csv", f"ts,v\n{rows}ts,v\n{rows}"))
    assert len(twice.notes) == 2
    assert all("'csv.skip-repeated-headers' = 'true'" in note for note in twice.notes)
    assert not any("null-literals" in note for note in twice.notes)
    declared = detect_file(tmp_path / "g.csv", csv__skip_repeated_headers="true")
    assert types(declared) == {"ts": "TIMESTAMP_NTZ", "v": "BIGINT"}
    assert declared.notes == ()


def test_symbols_around_numbers_are_left_out_on_request(tmp_path: Path) -> None:
    text = "a;b;c\n1.234,50 €;12 %;x\n-0,50 €;3,5%;y\n€ 2,00;-1 %;z\n"
    path = write_file(tmp_path / "f.csv", text)
    detection = detect_file(path)
    assert types(detection) == {"a": "STRING", "b": "STRING", "c": "STRING"}
    assert "`a` is STRING, because its numbers have '€' around them" in detection.notes[0]
    assert all("'csv.number-symbols' = '€|%'" in note for note in detection.notes)
    declared = detect_file(path, csv__number_symbols="€|%")
    assert types(declared) == {"a": "DOUBLE", "b": "DOUBLE", "c": "STRING"}
    assert declared.notes == ()


def test_letters_around_numbers_are_no_symbols(tmp_path: Path) -> None:
    text = "id;house;version;mass\nA17;17a;HTTP/1.1;5 kg\nA18;3b;HTTP/2.0;7kg\n"
    detection = detect_file(write_file(tmp_path / "f.csv", text))
    assert len(detection.notes) == 1
    assert "`mass` is STRING, because its numbers have 'kg' around them" in detection.notes[0]


def test_a_thousands_separator_determines_the_decimal_mark(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.csv", "a;b\nx;0\ny;1,234\nz;5,678\n")
    declared = detect_file(path, csv__thousands_separator=",")
    assert types(declared)["b"] == "BIGINT"
    assert declared.notes == ()


def test_a_comment_of_several_characters(tmp_path: Path) -> None:
    path = write_file(tmp_path / "f.csv", "// made\nts,v\n// more\n2026-01-01,1\n")
    detection = detect_file(path, csv__comment="//")
    assert types(detection) == {"ts": "DATE", "v": "BIGINT"}


def test_a_blank_line_between_records_makes_no_preamble_of_them(tmp_path: Path) -> None:
    text = "name,city\nAnn,Bonn\n\nBob,Rome\nEve,Oslo\nTom,Kyiv\n"
    detection = detect_file(write_file(tmp_path / "f.csv", text))
    assert list(types(detection)) == ["name", "city"]
    assert options(detection) == {"header": "true"}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_in_a_field_of_one_json_object(tmp_path: Path, indent: int | None) -> None:
    records = [{"ts": "2026-01-01T10:00:00Z", "v": i} for i in range(3)]
    whole = {"page": 1, "data": records, "tags": ["x"]}
    path = write_file(tmp_path / "f.json", json.dumps(whole, indent=indent))
    detection = detect_file(path)
    assert types(detection) == {"ts": "TIMESTAMP", "v": "BIGINT"}
    assert options(detection) == {"json.records": "data", "multiLine": "true"}
    assert "'json.records' = 'data'" in detection.notes[0]
    declared = detect_file(path, json__records="data")
    assert (types(declared), declared.notes) == (types(detection), ())
    whole_row = detect_file(path, json__records="")
    assert list(types(whole_row)) == ["page", "data", "tags"]


def test_a_long_array_in_a_field_is_known_by_its_beginning(tmp_path: Path) -> None:
    records = [{"v": i, "note": "x" * 100} for i in range(5000)]
    path = write_file(tmp_path / "f.json", json.dumps({"data": records, "more": 1}))
    detection = detect_file(path)
    assert types(detection) == {"v": "BIGINT", "note": "STRING"}


def test_objects_with_arrays_a_line_each_stay_objects(tmp_path: Path) -> None:
    line = json.dumps({"id": 1, "items": [{"a": 1}]}) + "\n"
    detection = detect_file(write_file(tmp_path / "f.json", line * 2))
    assert list(types(detection)) == ["id", "items"]
    two = json.dumps({"a": [{"x": 1}], "b": [{"y": 1}]})
    assert list(types(detect_file(write_file(tmp_path / "g.json", two)))) == ["a", "b"]
