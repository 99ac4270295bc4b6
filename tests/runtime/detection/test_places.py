"""Values and records that do not fit are located in their file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from runtime.detection.places import BETWEEN, RECORD, VALUE, FileReading, explain_message

FIELDS = (("ts", "TIMESTAMP"), ("v", "BIGINT"))


def explain_place(
    kind: str, reading: FileReading, path: Path | str, text: str
) -> tuple[str, str | None]:
    uri = path if isinstance(path, str) else f"file://{path}"
    result = explain_message(f"{reading.message(kind)}{uri}{BETWEEN}{text}")
    assert result is not None
    return result


def test_a_value_is_located_in_the_column_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a b.csv"
    path.write_text('v;note;ts\n1;"x\ny";2025-01-01\n2;abc;2025-01-02\nabc;z;2025-01-03\n')
    reading = FileReading("t", "csv", "V", "BIGINT", fields=FIELDS, delimiter=";", has_header=True)
    message, hint = explain_place(VALUE, reading, f"file://{tmp_path}/a%20b.csv", "abc")
    assert message == f"{path}, line 5, column `V`: 'abc' is not a valid BIGINT"
    assert hint is not None
    assert hint.startswith(
        "set 'csv.null-literals' = 'abc' to read it as NULL; declare the column STRING"
    )


def test_a_value_of_a_compressed_file_without_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"# made up\n2025-01-01,1\n31.12.2025,2\n"))
    reading = FileReading(
        "'a.csv.gz'",
        "csv",
        "ts",
        "TIMESTAMP",
        "yyyy-M-d",
        index=0,
        fields=FIELDS,
        comment="#",
        nulls="-",
        by_name=True,
    )
    message, hint = explain_place(VALUE, reading, path, "31.12.2025")
    assert message.endswith(
        "line 3, column `ts`: '31.12.2025' is not a valid TIMESTAMP in the format yyyy-M-d"
    )
    assert hint is not None
    assert "'fields.ts.format' = '...'" in hint
    assert "'csv.null-literals' = '-|31.12.2025'" in hint
    assert "SHOW CREATE TABLE 'a.csv.gz'" in hint


def test_a_record_with_other_fields_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,v\n2025-01-01,1\n2025-01-02\n")
    reading = FileReading("t", "csv", fields=FIELDS, has_header=True)
    message, _ = explain_place(RECORD, reading, path, "2025-01-02")
    assert message == f"{path}, line 3: '2025-01-02' has 1 fields instead of 2"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"v": "x"}', "line 2, column `v`: 'x' is not a valid BIGINT"),
        ('{"v": 1.5}', "line 2, column `v`: '1.5' is not a valid BIGINT"),
        ('{"ts": 7}', "line 2, column `ts`: '7' is not a valid TIMESTAMP"),
        ('{"v": 1', "line 2: '{\"v\": 1' is not valid JSON"),
    ],
)
def test_a_broken_object_says_which_field_does_not_fit(
    tmp_path: Path, record: str, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"v": 1}}\n{record}\n')
    result, hint = explain_place(RECORD, FileReading("t", "json", fields=FIELDS), path, record)
    assert result == f"{path}, {message}"
    assert hint


def test_text_after_an_object_does_not_hide_the_line_of_its_value(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"v": 1}\n {"ts": {"": 1}, "v": 2}{"ts": {"": 1}, "v": 2}')
    reading = FileReading("t", "json", "ts", "TIMESTAMP", fields=FIELDS)
    message, _ = explain_place(VALUE, reading, path, '{"": 1}')
    assert message == f"{path}, line 2, column `ts`: '{{\"\": 1}}' is not a valid TIMESTAMP"


def test_a_record_with_a_separator_of_unicode_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,v\n2025-01-01,1,\u2028\n")
    reading = FileReading("t", "csv", fields=FIELDS, has_header=True)
    message, _ = explain_place(RECORD, reading, path, "2025-01-01,1,\u2028")
    assert message.startswith(f"{path}, line 2: '2025-01-01,1,")
    assert message.endswith("' has 3 fields instead of 2")


@pytest.mark.parametrize(
    ("content", "line"), [(b"\xef", 1), (b"\xef\xbb", 1), (b"\xef\xbb\xbf\xef", 1), (b"1\n\xef", 2)]
)
def test_a_broken_byte_order_mark_has_a_line(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    reading = FileReading("t", "json", fields=FIELDS)
    message, _ = explain_place(RECORD, reading, path, "\ufffd")
    assert message == f"{path}, line {line}: '\ufffd' is not valid JSON"


def test_a_missing_or_remote_file_has_no_line(tmp_path: Path) -> None:
    reading = FileReading("t", "csv", "v", "BIGINT", index=0, fields=FIELDS)
    message, _ = explain_place(VALUE, reading, "s3a://bucket/a.csv", "x")
    assert message == "s3a://bucket/a.csv, column `v`: 'x' is not a valid BIGINT"
    message, _ = explain_place(VALUE, reading, tmp_path / "gone.csv", "x")
    assert message == f"{tmp_path}/gone.csv, column `v`: 'x' is not a valid BIGINT"


def test_files_of_this_directory_are_named_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reading = FileReading("t", "csv", "v", "BIGINT", index=0, fields=FIELDS)
    message, _ = explain_place(VALUE, reading, tmp_path / "gone.csv", "x")
    assert message == "gone.csv, column `v`: 'x' is not a valid BIGINT"


def test_another_message_is_left_as_it_is() -> None:
    assert explain_message("division by zero") is None
    assert explain_message(f"{VALUE}{BETWEEN}only two") is None


def test_a_header_is_never_to_be_read_as_null(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("made by hand\nts,v\n2025-01-01,1\nts,v\n")
    reading = FileReading("t", "csv", "v", "BIGINT", index=1, fields=FIELDS, skip=1)
    message, hint = explain_place(VALUE, reading, path, "v")
    assert message == f"{path}, line 2, column `v`: 'v' is not a valid BIGINT"
    assert hint is not None
    assert hint.startswith("set 'header' = 'true' to use the first line as column names")
    assert "null-literals" not in hint
    headed = FileReading("t", "csv", "v", "BIGINT", fields=FIELDS, skip=1, has_header=True)
    message, hint = explain_place(VALUE, headed, path, "v")
    assert message == f"{path}, line 4, column `v`: 'v' is not a valid BIGINT"
    assert hint is not None
    assert hint.startswith("set 'csv.skip-repeated-headers' = 'true'")
    assert "null-literals" not in hint


def test_a_row_of_units_and_symbols_have_options_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,v\ns,m\n\n# more\n2025-01-01,1\n2025-01-01,5 €\n")
    reading = FileReading("t", "csv", "v", "BIGINT", fields=FIELDS, has_header=True, comment="#")
    message, hint = explain_place(VALUE, reading, path, "m")
    assert "line 2, column `v`" in message
    assert hint is not None and "'csv.skip-lines-below-header' = '1'" in hint
    message, hint = explain_place(VALUE, reading, path, "5 €")
    assert "line 6, column `v`" in message
    assert hint is not None and "set 'csv.number-symbols' = '€' to read the number" in hint
