"""Records among the lines of a file, whole or in parts, compressed and in other encodings."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from runtime.errors import ExecutionError
from runtime.scan.ranges import FileRange
from runtime.spec.scan import ScanFile
from runtime.spec.text import LineRecords, Notation, TextColumn, TextSource
from runtime.text.read import read_fields

Rows = list[tuple[str | None, ...]]


def rows_of(
    path: Path, records: LineRecords, encoding: str = "", cuts: tuple[int, ...] = ()
) -> Rows:
    """Return the fields of a file that is read in parts which end at `cuts`."""
    columns = tuple(TextColumn(f"c{i}", "string", field=i) for i in range(records.n_fields))
    source = TextSource("", (), columns, records, Notation(), encoding=encoding)
    file = ScanFile(str(path), n_bytes=path.stat().st_size)
    ends = [*cuts, file.n_bytes]
    rows: Rows = []
    for start, stop in zip([0, *cuts], ends, strict=True):
        for fields in read_fields(source, FileRange(file, start, stop)):
            columns_of_part = [fields.texts[c.name].to_pylist() for c in columns]
            rows += zip(*columns_of_part, strict=True)
    return rows


def test_preamble_header_units_and_comments_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeffmade by hand\n\n// c\nk,n\nname,s\na,1\n// d,2\n \nTotal,9\nb,2\n")
    records = LineRecords(
        2, comment="//", has_header=True, skip=1, skip_below=1, prefixes=("Total", "Sum")
    )
    assert rows_of(path, records) == [("a", "1"), ("b", "2")]


def test_repeated_headers_are_dropped_in_every_part(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,n\na,1\n" * 4)
    known = LineRecords(2, has_header=True, header="k,n", drops_repeated=True)
    assert rows_of(path, known, cuts=(9, 17)) == [("a", "1")] * 4
    # without a known header, the first part has all lines
    unknown = LineRecords(2, has_header=True, drops_repeated=True)
    assert rows_of(path, unknown, cuts=(9, 17)) == [("a", "1")] * 4


def test_other_files_have_the_same_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,n\na,1\n")
    assert rows_of(path, LineRecords(2, has_header=True, header=" k,n")) == [("a", "1")]
    with pytest.raises(ExecutionError, match=r"a.csv has 'k,n', other files have 'n,k'"):
        rows_of(path, LineRecords(2, has_header=True, header="n,k"))


@pytest.mark.parametrize("escape", ["", "\\"])
def test_a_quoted_field_spans_lines(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "a.csv"
    quote = f'{escape or chr(34)}"'
    path.write_bytes(f'# "\na,"x\r\n# y{quote}"\n"b\n\n",2\nc,"open\nz'.encode())
    records = LineRecords(2, comment="#", escape=escape, spans_lines=True)
    expected = [("a", 'x\n# y"'), ("b\n\n", "2"), ("c", "open\nz")]
    assert rows_of(path, records, cuts=(5,)) == expected


@pytest.mark.parametrize("encoding", ["windows-1252", "UTF-16", "utf-16le", ""])
def test_files_are_decoded_and_decompressed(tmp_path: Path, encoding: str) -> None:
    lines = "k;é\n" + "".join(f"ö{i};ü\r\n" for i in range(50))
    data = lines.encode(encoding or "utf-8")
    expected = [(f"ö{i}", "ü") for i in range(50)]
    records = LineRecords(2, delimiter=";", has_header=True)
    (tmp_path / "a.csv").write_bytes(data)
    assert rows_of(tmp_path / "a.csv", records, encoding, cuts=(100, 111)) == expected
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    assert rows_of(tmp_path / "a.csv.gz", records, encoding, cuts=(10,)) == expected


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,1\n" * 100)[:-9])
    with pytest.raises(ExecutionError, match=r"cannot read .*a.csv.gz"):
        rows_of(path, LineRecords(2))


def test_records_with_other_fields_are_filled_or_cut_if_errors_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\nb,1,2\nc,3\n'd',4\n")
    records = LineRecords(2, quote="'", is_strict=False)
    assert rows_of(path, records) == [("a", None), ("b", "1"), ("c", "3"), ("d", "4")]


def test_delimiters_may_be_any_character(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a§1\n«b§c«§2\n")
    records = LineRecords(2, delimiter="§", quote="«")
    assert rows_of(path, records) == [("a", "1"), ("b§c", "2")]


def test_blanks_around_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a , 1\n "b, " , 2 \n  ,\n')
    trimmed = LineRecords(2, trims=(True, True))
    assert rows_of(path, trimmed) == [("a", "1"), ("b, ", "2"), (None, None)]
