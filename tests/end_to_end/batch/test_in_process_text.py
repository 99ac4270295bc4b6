"""CSV and JSON files that sqlwin reads have the rows and errors of Spark's reader."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from runtime.compute.arrow.parse_text import BLANKS
from runtime.spec.text import Notation, TextColumn
from runtime.text.csv_record import split_record
from runtime.text.values import convert
from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.unstarted import NeedsSparkError, unstarted_spark

SETTING = "sqlwin.in-process.max-bytes"
LETTERS = [
    '"',
    '"',
    '"',
    ",",
    ",",
    ",",
    "a",
    "b",
    " ",
    "\t",
    "\\",
    "'",
    "é",
    "\x01",
    "#",
    "n/a",
    "😀",
]
# Texts; many of them are changed by a character
VALUES = {
    "BIGINT": ["1", "-12", "+7", " 8 ", "9223372036854775807", "1.5", "0x1", "٣", "", "1,000"],
    "TINYINT": ["1", "127", "128", "-128", "\t5\x01"],
    "DOUBLE": ["1.5", "-.5", "1e5", "NaN", "inf", "1d", "0x1p3", "1e400", "4.9e-324", "-0", "1."],
    "FLOAT": ["0.1", "3.4028236e38", "16777217", "1f"],
    "DECIMAL(10, 2)": ["1.005", "1e3", "99999999.995", "-0.004", "1.", ".5", "１"],
    "BOOLEAN": ["true", "FALSE", " True ", "1", "t"],
    "DATE": ["2024-01-31", "2024-2-9", "0001-01-01", "-0044-03-15", "+12024-01-01", "2024-01"],
    "TIMESTAMP(3)": ["2024-01-31 10:00:00", "2024-1-1T1:2:3.1234567", "1969-12-31 23:59:59.9"],
    "TIMESTAMP_LTZ(3)": [
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00",
        "2024-01-01 10:00:00Z",
        "2024-01-01 10:00:00+05:30",
        "2024-01-01 10:00:00 Europe/Paris",
    ],
    "STRING": ["a", " b ", "", "n/a", "é😀"],
}
SPECIAL_LINES = (
    ", 'header' = 'true', 'csv.skip-lines' = '1', 'csv.skip-lines-below-header' = '1', "
    "'csv.skip-lines-starting-with' = 'Total'"
)
TRIMMED = ", 'ignoreLeadingWhiteSpace' = 'true', 'ignoreTrailingWhiteSpace' = 'true'"
PATTERNS = {
    "d.M.yyyy H:mm:ss": ["1.2.2024 3:04:05", "31.12.1969 23:59:59", "001.02.2024 00:00:00"],
    "yyyy-MM-dd'T'HH:mm:ss.SSS": [
        "2024-01-31T10:00:00.5",
        "2024-01-31t10:00:00.123",
        "+12024-01-31T",
    ],
    "yyyy/MM/dd": ["2024/01/31", "-2024/02/29", "2023/02/29", "+2024/01/01", "12024/01/01"],
    "epoch-millis": ["0", "-1", "1700000000123.5", "9223372036854775807", "1e3"],
    "epoch-seconds": ["1700000000.123456789", "-0.5"],
}


def without_spark() -> Session:
    return Session(unstarted_spark(), settings={})


def nasty_lines(n_fields: int, n_lines: int, seed: int) -> list[str]:
    """Return lines of CSV with that number of fields, many with stray quotes."""
    draw = random.Random(seed)
    lines: list[str] = []
    while len(lines) < n_lines:
        line = "".join(draw.choices(LETTERS, k=draw.randrange(1, 16)))
        if line.strip(BLANKS) and len(split_record(line, ",", '"')) == n_fields:
            lines.append(line)
    return lines


def among_numbers(long: int, slow: int) -> pytest.MarkDecorator:
    """Run a test with a number of texts with --long, and with a larger one with --slow."""
    numbers = (
        pytest.param(long, marks=pytest.mark.long),
        pytest.param(slow, marks=pytest.mark.slow),
    )
    return pytest.mark.parametrize("n_texts", numbers)


def changed_texts(texts: list[str], n_texts: int, seed: int) -> list[str]:
    """Return texts with characters added, removed or replaced."""
    draw, others = random.Random(seed), "0123456789.eE+-:/ TZxdf\t"
    result = list(texts)
    while len(result) < n_texts:
        letters = list(draw.choice(texts))
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(letters) + 1)
            letters[place : place + draw.randrange(2)] = draw.choice(["", draw.choice(others)])
        result.append("".join(letters))
    return result


def fitting(texts: list[str], column: TextColumn, notation: Notation) -> list[str]:
    """Return the texts that fit a column."""

    def fits(text: str) -> bool:
        try:
            _, is_misfit = convert(pa.array([text or None], pa.string()), column, notation)
        except sqlwin.SqlwinError:
            return False  # a zone that only Spark knows
        return not is_misfit[0].as_py()

    return list(filter(fits, texts))


def create(
    session: Session, path: Path, columns: str, options: str = "", file_format: str = "csv"
) -> None:
    session.execute(
        f"CREATE OR REPLACE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = '{file_format}'{options})"
    )


def as_numbers(rows: pa.Table) -> pa.Table:
    """Return rows with dates and times as numbers, because Python has fewer years."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_temporal(field.type):
            number = pa.int32() if pa.types.is_date(field.type) else pa.int64()
            rows = rows.set_column(place, field.name, rows.column(place).cast(number))
    return rows


Compare = Callable[[str], list[dict[str, object]] | str]


@pytest.fixture
def compare(fresh_session: Session) -> Iterator[Compare]:
    """Return the rows of a query, or the message of its error, from both executors."""

    def outcome(sql: str, *, in_process: bool) -> list[dict[str, object]] | str:
        fresh_session.execute(f"SET '{SETTING}' = '{'1 gb' if in_process else '0'}'")
        try:
            (result,) = fresh_session.execute(sql)
            assert isinstance(result.data, InProcessRows) is in_process
            return as_numbers(result.to_arrow()).to_pylist()
        except sqlwin.SqlwinError as error:
            return f"{error.message}\n{error.hint}"

    def both(sql: str) -> list[dict[str, object]] | str:
        in_process_rows, spark_rows = (
            outcome(sql, in_process=in_process) for in_process in (True, False)
        )
        assert sorted(map(repr, in_process_rows)) == sorted(map(repr, spark_rows)), sql
        return in_process_rows

    yield both


@pytest.mark.long
def test_windows_over_text_are_read_in_tasks(
    fresh_session: Session, compare: Compare, tmp_path: Path
) -> None:
    for number in range(2):
        directory = tmp_path / "csv" / f"day={number}"
        directory.mkdir(parents=True)
        lines = [
            f'"2024-01-0{number + 1} 0{i % 9}:30:00","k ""{i % 3}""",{"x" if i == 39 else i}'
            for i in range(40)
        ]
        (directory / "a.csv").write_text("ts,k,v\n" + "\n".join(lines))
    columns = "ts TIMESTAMP(3), k STRING, v INT"
    windows = (
        "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s "
        "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) {} "
        "GROUP BY window_start, window_end, k"
    )
    path = tmp_path / "csv"
    fresh_session.execute(
        f"CREATE TABLE t ({columns}, day INT) PARTITIONED BY (day) WITH ('connector' = "
        f"'filesystem', 'path' = '{path}', 'format' = 'csv', 'header' = 'true')"
    )
    rows = compare(windows.format("WHERE day = 1 AND k <> 'k \"0\"'"))
    assert sum(row["s"] for row in rows) == sum(i for i in range(40) if i % 3)
    misfit = compare(windows.format(""))
    assert "day=0/a.csv, line 41, column `v`: 'x' is not a valid INT" in misfit
    fresh_session.execute(f"SET '{SETTING}' = '0'")
    assert "ArrowScanLocalWindowAggregate(table=[t]" in fresh_session.explain(windows.format(""))
    objects = [{"ts": f"2024-01-01 0{i % 9}:00:00", "k": f"é{i % 2}", "v": i} for i in range(50)]
    (tmp_path / "a.json").write_text("".join(f"{json.dumps(o)}\n" for o in objects))
    create(fresh_session, tmp_path / "a.json", columns, file_format="json")
    assert len(compare(windows.format("WHERE v > 3"))) == 18


@pytest.mark.long
def test_nasty_files_have_the_rows_of_spark(
    fresh_session: Session, compare: Compare, tmp_path: Path
) -> None:
    fresh_session.execute("SET 'table.local-time-zone' = 'Europe/Berlin'")
    # quotes, line ends, blank lines, a byte order mark, bytes that are not UTF-8
    for n_fields, options in ((1, ""), (3, ""), (3, ", 'csv.null-literal' = 'n/a'")):
        lines = nasty_lines(n_fields, 3000, n_fields)
        draw = random.Random(5)
        ends = draw.choices(["\n", "\r\n", "\r", "\n\n", "\n \t\n"], k=len(lines))
        data = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode()
        bad = data.replace("é".encode(), "é".encode() + b"\xff\xe2\x82") if options else data
        path = tmp_path / f"{n_fields}{len(options)}"
        path.mkdir()
        (path / "a.csv").write_bytes(b"\xef\xbb\xbf" + bad)
        (path / "b.csv").write_bytes(b"")
        create(fresh_session, path, ", ".join(f"c{i} STRING" for i in range(n_fields)), options)
        rows = compare("SELECT * FROM t")
        assert len(rows) == len(lines)
        for sign in ("", "''"):
            compare(f"SELECT COUNT(*) AS n FROM t WHERE c0 <> '{sign}'")
    for options in (", 'csv.comment' = '#'", ", 'csv.disable-quote-character' = 'true'"):
        lines = [line for line in nasty_lines(1, 500, 3) if "," not in line]
        (tmp_path / "c.csv").write_text("\n".join(lines))
        create(fresh_session, tmp_path / "c.csv", "c STRING", options)
        compare("SELECT * FROM t")
    # records with another number of fields
    for line in ("1", "1,2,3", '1,"2', "1,2,", ',,"'):
        (tmp_path / "r.csv").write_text(f"0,0\n{line}\n")
        create(fresh_session, tmp_path / "r.csv", "a STRING, b STRING")
        compare("SELECT COUNT(*) AS n FROM t")
        compare("SELECT b FROM t WHERE a = '0'")


def write_columns(path: Path, columns: Iterable[list[str]]) -> None:
    """Write a CSV file with these texts in its columns. Fields below the last text are empty."""
    rows = zip_longest(*columns, fillvalue="")
    path.write_text("".join(",".join(f'"{text}"' for text in row) + "\n" for row in rows))


@among_numbers(150, 600)
def test_values_are_read_like_spark(
    n_texts: int, fresh_session: Session, compare: Compare, tmp_path: Path
) -> None:
    fresh_session.execute("SET 'table.local-time-zone' = 'Europe/Berlin'")
    words = ", 'csv.null-literals' = 'n/a|-'"
    changed, columns = {}, {}
    for number, (type_, texts) in enumerate(VALUES.items()):
        spark_type = {"TIMESTAMP(3)": "timestamp_ntz", "TIMESTAMP_LTZ(3)": "timestamp"}.get(type_)
        column = TextColumn("v", spark_type or type_.lower().replace(" ", ""))
        notation = Notation(nulls=("n/a", "-"), zone="Europe/Berlin")
        changed[type_] = changed_texts([*texts, "n/a", "-"], n_texts, number)
        fit = fitting(changed[type_], column, notation)
        columns[type_] = [text for text in fit if '"' not in text]
    assert min(map(len, columns.values())) > n_texts // 6
    declared = ", ".join(f"v{i} {type_}" for i, type_ in enumerate(VALUES))
    write_columns(tmp_path / "v.csv", columns.values())
    create(fresh_session, tmp_path / "v.csv", declared, words)
    assert len(compare("SELECT * FROM t")) == max(map(len, columns.values()))
    for type_, texts in changed.items():
        for text in [text for text in texts if text not in columns[type_]][:1]:
            (tmp_path / "v.csv").write_text(f'1,\n2,"{text}"\n')
            create(fresh_session, tmp_path / "v.csv", f"i INT, v {type_}", words)
            assert isinstance(compare("SELECT v FROM t"), str), text
            if type_ == "DATE":
                compare("SELECT v FROM t WHERE i = 1")
                compare("SELECT COUNT(*) AS n FROM t")
    fits: list[list[str]] = []
    declared, options = "", ""
    for number, (pattern, texts) in enumerate(PATTERNS.items()):
        changed_like = changed_texts(texts, n_texts // 3, 7)
        quoted = pattern.replace("'", "''")
        for place, type_ in enumerate(("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DATE")):
            spark_type = {"TIMESTAMP(3)": "timestamp_ntz", "DATE": "date"}.get(type_, "timestamp")
            column = TextColumn("v", spark_type, pattern=pattern)
            fit = fitting(changed_like, column, Notation(zone="Europe/Berlin"))
            declared += f"{', ' * bool(fits)}v{len(fits)} {type_}"
            options += f", 'fields.v{len(fits)}.format' = '{quoted}'"
            fits.append(fit)
            misfits = [text for text in changed_like if text not in fit]
            if misfits and place == number % 3:
                (tmp_path / "p.csv").write_text(f'2,"{misfits[0]}"\n')
                option = f", 'fields.v.format' = '{quoted}'"
                create(fresh_session, tmp_path / "p.csv", f"i INT, v {type_}", option)
                assert isinstance(compare("SELECT v FROM t"), str), misfits[0]
    assert min(map(len, fits)) > n_texts // 30
    write_columns(tmp_path / "p.csv", fits)
    create(fresh_session, tmp_path / "p.csv", declared, options)
    assert len(compare("SELECT * FROM t")) == max(map(len, fits))
    # numbers as in German spreadsheets
    texts = ["1.234,5", "1,5 €", "€ 2", "-€3", "1.23", "12.34.5", "1.234.567", "5%", "1,2,3", "7."]
    notation = Notation(decimal=",", thousands=".", symbols=("€", "%"))
    fit = fitting(changed_texts(texts, n_texts, 9), TextColumn("v", "double"), notation)
    (tmp_path / "g.csv").write_text("i;v\n" + "".join(f"{i};{t}\n" for i, t in enumerate(fit)))
    create(
        fresh_session,
        tmp_path / "g.csv",
        "v DOUBLE, i INT",
        ", 'header' = 'true', 'csv.field-delimiter' = ';', 'csv.thousands-separator' = '.', "
        "'csv.number-symbols' = '€|%'",
    )
    assert len(compare("SELECT * FROM t")) == len(fit)


JSON_VALUES = (
    """1 -1 1.5 1.50 1e3 -0 -0.0 01 1. .5 +1 true false null "x" "" "1" "1.5" NaN "NaN" Infinity -INF
    "INF" "-INF" +Infinity [1,2] {"b":1} 'q' "\\u00e9" "\\x" 9223372036854775808 128 1e400 "1,5" []
    12345678901234567890.5 "\\ud83d" 3.4028236e38 "2024-01-31T10:00:00" "n/a" 1700000000123.5 -129"""
).split()
JSON_LINES = (
    '{} [] null 1 "x" [{"a":1},{"a":2}] [{"a":1},null] {"a":1}{"a":2} {"a":1 {\'a\':1} {"A":1} '
    '{"a":1,"a":2} {"a":"x","a":2} {"b":[1,{"a":5}],"a":3} {"a":1,} {"b":nope,"a":1} \ufeff{"a":1} '
    '{"\\u0061":1} {"a":1}//c []x [[{"a":1}]] {"b":"\\q","a":1} {"b":{"c":1,},"a":1}'
).split(" ")
JSON_TYPES = (
    ("STRING", "string", ""),
    ("BIGINT", "bigint", ""),
    ("TINYINT", "tinyint", ""),
    ("DOUBLE", "double", ""),
    ("FLOAT", "float", ""),
    ("BOOLEAN", "boolean", ""),
    ("DECIMAL(10, 2)", "decimal(10,2)", ""),
    ("TIMESTAMP(3)", "timestamp_ntz", ""),
    ("TIMESTAMP_LTZ(3)", "timestamp", ", 'fields.a.format' = 'epoch-millis'"),
    ("DATE", "date", ", 'fields.a.format' = 'ISO-8601'"),
    ("DOUBLE", "double", ", 'json.null-literals' = 'n/a|x'"),
)


def outcome_of_line(session: Session, path: Path, line: str) -> bool:
    """Return whether this process reads a file of one line."""
    path.write_text(line + "\n", encoding="utf-8", errors="surrogatepass")
    try:
        session.execute("SELECT a FROM t")[0].to_arrow()
    except sqlwin.SqlwinError:
        return False
    return True


@among_numbers(150, 700)
def test_nasty_json_has_the_rows_of_spark(
    n_texts: int, fresh_session: Session, compare: Compare, tmp_path: Path
) -> None:
    lines = [f'{{"a": {value}}}' for value in JSON_VALUES] + JSON_LINES
    lines += [f'{{"i":"", "a":{value} , "z":[{{}}]}}' for value in JSON_VALUES]
    lines = list(dict.fromkeys([*lines, *changed_texts(lines, n_texts, 3)]))
    session = without_spark()
    for type_, _, options in JSON_TYPES:
        path = tmp_path / "a.json"
        path.write_text('{"a":null}\n')
        create(session, path, f"a {type_}", options, "json")
        is_read = [outcome_of_line(session, path, line) for line in lines]
        fit = [line for line, fits in zip(lines, is_read, strict=True) if fits]
        # the spelling of fields is taken from the first lines
        text = "\n \n".join([*['{"a":null}'] * 100, *fit])
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        create(fresh_session, path, f"a {type_}", options, "json")
        assert len(compare("SELECT a FROM t")) > 100, type_
        # a count depends on the records, not on the type
        is_counted = type_ in ("STRING", "BIGINT")
        if is_counted:
            assert not isinstance(compare("SELECT COUNT(*) AS n FROM t"), str)
        misfits = [line for line, fits in zip(lines, is_read, strict=True) if not fits]
        for line in misfits[: 1 + is_counted]:
            path.write_text('{"a":null}\n' * 100 + line, errors="surrogatepass")
            assert isinstance(compare("SELECT a FROM t"), str), line
            if is_counted:
                compare("SELECT COUNT(*) AS n FROM t")


def test_json_is_read_without_spark(tmp_path: Path) -> None:
    rows = [{"ID": i, "name": f"é{i}", "ok": i % 2 == 0, "tags": ["a", i]} for i in range(300)]
    path = tmp_path / "a.json"
    path.write_text(
        "\n".join(json.dumps(row, ensure_ascii=i % 3 == 0) for i, row in enumerate(rows))
    )
    session = without_spark()
    create(session, path, "id BIGINT, name STRING, ok BOOLEAN, tags STRING, x INT", "", "json")
    (result,) = session.execute("SELECT * FROM t WHERE id >= 10")
    expected = [
        {
            "id": row["ID"],
            "name": row["name"],
            "ok": row["ok"],
            "tags": json.dumps(row["tags"]),
            "x": None,
        }
        for row in rows[10:]
    ]
    assert result.to_arrow().to_pylist() == expected
    (counted,) = session.execute("SELECT ok, COUNT(*) AS n FROM t GROUP BY ok ORDER BY ok")
    assert counted.to_arrow().to_pylist() == [{"ok": False, "n": 150}, {"ok": True, "n": 150}]


@pytest.mark.parametrize(
    ("columns", "options", "lines", "reason"),
    [
        ("a INT", ", 'multiLine' = 'true'", "{}", "the table has the option 'multiLine'"),
        ("a DATE", "", "{}", "Spark reads a as DATE"),
        ("a INT", "", '{"a":1}\n{"A":1}', "the field a has several spellings"),
        ("a INT", ", 'json.records' = 'r'", "{}", "the table has the option 'json.records'"),
    ],
)
def test_explain_names_the_json_option_that_needs_spark(
    tmp_path: Path, columns: str, options: str, lines: str, reason: str
) -> None:
    (tmp_path / "a.json").write_text(lines)
    session = without_spark()
    create(session, tmp_path / "a.json", f"b INT, {columns}", options, "json")
    place = session.explain("SELECT a FROM t").partition("== Execution ==\n")[2]
    assert place == f"on Spark: {reason}\n"


def test_columns_that_only_spark_converts_need_spark_only_if_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1, "x": {"b": [2]}}\n{"x": 3, "a": null}\n')
    session = without_spark()
    create(session, tmp_path / "a.json", "a INT, x BYTES", "", "json")
    (result,) = session.execute("SELECT a FROM t")
    assert result.to_arrow().to_pylist() == [{"a": 1}, {"a": None}]
    place = session.explain("SELECT a, x FROM t").partition("== Execution ==\n")[2]
    assert place == "on Spark: Spark reads x as BYTES\n"


def test_clean_files_have_the_rows_of_the_csv_module(tmp_path: Path) -> None:
    draw = random.Random(1)
    fields = ["", "a", 'say "hi"', "x,y", "é", " spaced ", "0", "None", '"']
    rows = [[str(i), draw.choice(fields), draw.choice(fields[1:])] for i in range(2000)]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    session = without_spark()
    create(session, tmp_path / "a.csv", "i INT, a STRING, b STRING")
    (result,) = session.execute("SELECT * FROM t")
    expected = [{"i": int(i), "a": a or None, "b": b} for i, a, b in rows]
    assert result.to_arrow().to_pylist() == expected
    (counted,) = session.execute("SELECT a, COUNT(*) AS n FROM t WHERE i < 1000 GROUP BY a")
    by_hand = {a: sum(row["a"] == a for row in expected[:1000]) for a in {e["a"] for e in expected}}
    assert {row["a"]: row["n"] for row in counted.to_arrow().to_pylist()} == by_hand


def test_columns_of_a_type_share_a_time_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("01.02.2024;1.2.2024 3:04\n;\n31.12.1969;31.12.1969 23:59\n")
    options = "'sep' = ';', 'dateFormat' = 'dd.MM.yyyy', 'csv.timestampNTZFormat' = 'd.M.yyyy H:mm'"
    session = without_spark()
    create(session, tmp_path / "a.csv", "d DATE, t TIMESTAMP(3)", f", {options}")
    (result,) = session.execute("SELECT CAST(d AS STRING) AS d, CAST(t AS STRING) AS t FROM t")
    assert result.to_arrow().to_pylist() == [
        {"d": "2024-02-01", "t": "2024-02-01 03:04:00"},
        {"d": None, "t": None},
        {"d": "1969-12-31", "t": "1969-12-31 23:59:00"},
    ]


@pytest.mark.long
def test_parts_of_a_file_are_read_in_parallel(tmp_path: Path) -> None:
    n_rows = 1_200_000
    lines = "".join(f"{i},{i % 7}\r\n" for i in range(n_rows))
    (tmp_path / "big.csv").write_text("id,k\n" + lines, newline="")
    session = without_spark()
    create(session, tmp_path / "big.csv", "k INT, id BIGINT", ", 'header' = 'true'")
    (result,) = session.execute("SELECT k, COUNT(*) AS n, SUM(id) AS s FROM t GROUP BY k")
    sums = {row["k"]: (row["n"], row["s"]) for row in result.to_arrow().to_pylist()}
    assert sums == {k: (len(range(k, n_rows, 7)), sum(range(k, n_rows, 7))) for k in range(7)}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (", 'multiLine' = 'true'", "the table has the option 'multiLine'"),
        (", 'csv.ignore-parse-errors' = 'true'", "the option 'csv.ignore-parse-errors'"),
        (", 'csv.field-delimiter' = '||'", "Spark reads CSV with the delimiter '||'"),
        (", 'fields.t.format' = 'dd. MMM yyyy'", "Spark reads times in the format 'dd. MMM yyyy'"),
        (", 'header' = 'true'", "its header has no field t"),
    ],
)
def test_explain_says_which_option_needs_spark(tmp_path: Path, options: str, reason: str) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    session = without_spark()
    create(session, tmp_path / "a.csv", "t TIMESTAMP(3), n INT", options)
    place = session.explain("SELECT t, n FROM t").partition("== Execution ==\n")[2]
    assert place.startswith("on Spark: ") and reason in place
    with pytest.raises(NeedsSparkError):
        session.execute("SELECT t, n FROM t")[0].to_arrow()


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "top\nk,n\nname,cm\né,1\nTotal,3\n", SPECIAL_LINES),
        ("a.csv.gz", "top\nk,n\nname,cm\né,1\n", SPECIAL_LINES),
        ("a.csv", "// c\né,1\n", ", 'csv.comment' = '//'"),
        ("a.csv", '"é",1\n', ", 'csv.escape-character' = '~'"),
        ("a.csv", " é , 1\n", TRIMMED),
        ("a.csv", "é,1\n", ", 'encoding' = 'windows-1252'"),
        ("a.log", "é took 1 ms\n", ", 'text.pattern' = '(?<k>.) took (?<n>[0-9]+) ms'"),
    ],
)
def test_special_lines_and_encodings_need_no_spark(
    tmp_path: Path, name: str, text: str, options: str
) -> None:
    data = text.encode("windows-1252" if "encoding" in options else "utf-8")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    session = without_spark()
    create(session, tmp_path / name, "k STRING, n INT", options, "csv" if "csv" in name else "text")
    (result,) = session.execute("SELECT k, n FROM t")
    assert result.to_arrow().to_pylist() == [{"k": "é", "n": 1}]


def test_files_with_different_headers_are_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,n\n1,2\n")
    (tmp_path / "b.csv").write_text("n,k\n1,2\n")
    session = without_spark()
    create(session, tmp_path, "k INT, n INT", ", 'header' = 'true'")
    assert "on Spark: its files have different headers" in session.explain("SELECT k FROM t")
