"""Parsing of log lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.detection.log_lines import columns_of_lines, group_names, line_parser, pattern_error
from runtime.errors import CatalogError
from tests.runtime.detection.test_detect import detect_file, options, types, write_file

COMBINED = (
    '192.0.2.7 - ann [10/Oct/2025:13:55:36 -0700] "GET /a?b=%22 HTTP/1.1" 200 2326 '
    '"https://example.org/" "Mozilla/5.0 (\\"x\\")"\n'
    '2001:db8::1 - - [10/Oct/2025:13:55:37 -0700] "\\x16\\x03" 400 - "-" "-"\n'
)


def test_combined_format_of_web_servers(tmp_path: Path) -> None:
    detection = detect_file(
        write_file(tmp_path / "access.log", COMBINED), format="text", text__pattern="combined"
    )
    assert types(detection) == {
        "host": "STRING",
        "ident": "STRING",
        "user": "STRING",
        "time": "TIMESTAMP",
        "request": "STRING",
        "method": "STRING",
        "path": "STRING",
        "protocol": "STRING",
        "status": "BIGINT",
        "bytes": "BIGINT",
        "referer": "STRING",
        "agent": "STRING",
    }
    assert options(detection)["fields.time.format"] == "d/MMM/yyyy:H:mm:ss XX"
    assert detection.notes == ()


def test_values_of_the_common_format() -> None:
    parse = line_parser("common")
    first, second = (parse(line) for line in COMBINED.splitlines())
    assert first is not None and second is not None
    assert (first["user"], first["method"], first["path"]) == ("ann", "GET", "/a?b=%22")
    assert (second["user"], second["method"], second["request"]) == (None, None, "\\x16\\x03")
    assert second["bytes"] is None
    assert parse("no such line") is None


def test_logfmt(tmp_path: Path) -> None:
    text = (
        'ts=2026-01-01T10:00:00Z level=info msg="it\'s \\"on\\"" ms=1.5 ok\n'
        "ts=2026-01-01T10:00:01Z level=warn ms=2 url=/a?b=c\n"
    )
    detection = detect_file(
        write_file(tmp_path / "app.log", text), format="text", text__pattern="logfmt"
    )
    assert types(detection) == {
        "ts": "TIMESTAMP",
        "level": "STRING",
        "msg": "STRING",
        "ms": "DOUBLE",
        "ok": "BOOLEAN",
        "url": "STRING",
    }
    first = line_parser("logfmt")(text.splitlines()[0])
    assert first is not None
    assert (first["msg"], first["ok"]) == ('it\'s "on"', "true")
    assert (line_parser("logfmt")("url=/a?b=c e=") or {})["url"] == "/a?b=c"
    assert line_parser("logfmt")("a line of words") is None


def test_named_groups_of_python_and_of_java_are_columns(tmp_path: Path) -> None:
    text = "2026-01-01 10:00:00 [INFO] took 12 ms\nboom\n2026-01-01 10:00:01 [WARN] took 7 ms\n"
    path = write_file(tmp_path / "app.log", text)
    for at in ("(?<at>", "(?P<at>"):
        detection = detect_file(
            path, format="text", text__pattern=at + r"\S+ \S+) \[(?<level>\w+)\] took (?<ms>\d+)"
        )
        assert types(detection) == {"at": "TIMESTAMP_NTZ", "level": "STRING", "ms": "BIGINT"}
        assert "1 of 3 lines do not match 'text.pattern': 'boom'" in detection.notes[0]
    declared = detect_file(
        path, format="text", text__pattern=r"(?<ms>\d+) ms", text__ignore_parse_errors="true"
    )
    assert declared.notes == ()


@pytest.mark.parametrize("pattern", [r"\d+", "(", "", "(?<a>x"])
def test_a_pattern_has_named_groups(pattern: str) -> None:
    assert "a regular expression with named groups" in (pattern_error(pattern) or "")


def test_names_of_columns_stand_in_the_order_of_their_groups() -> None:
    assert group_names("(?<b>x)(?<a>(?<c>y))") == ("b", "a", "c")
    assert group_names("logfmt") is None
    assert columns_of_lines("logfmt", ["a=1", "b=2 a=3"]) == (
        ["a", "b"],
        [["1", "3"], ["", "2"]],
        [],
    )


def test_a_pattern_that_no_line_matches_says_so(tmp_path: Path) -> None:
    path = write_file(tmp_path / "app.log", "boom\nbang\n")
    with pytest.raises(
        CatalogError, match=r"no line of .*app\.log matches .*; the first line is 'boom'"
    ):
        detect_file(path, format="text", text__pattern="combined")
