"""Positions in the report of an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import (
    AnalysisError,
    CatalogError,
    ErrorKind,
    Position,
    SqlwinError,
    kind_in_words,
    packages_of,
)
from runtime.spark.messages import ErrorText, error_text, names_in

LONG = "SELECT " + ", ".join(f"column_{i}" for i in range(40)) + " FROM flights"


def caret_lines(sql: str, token: str, width: int | None) -> tuple[str, str]:
    """Return the line of SQL and the line of carets."""
    place = Position.at(sql, sql.index(token), len(token))
    error = SqlwinError("it does not exist", position=place, sql=sql, hint="write another")
    message, at, line, carets, hint = error.report(width).split("\n")
    assert (message, hint) == ("it does not exist", "  write another")
    assert at == f"  at line 1, column {place.column}"
    return line, carets


def test_a_long_line_is_cut_around_the_error() -> None:
    for token in ("SELECT", "column_20", "column_39", "flights"):
        line, carets = caret_lines(LONG, token, 80)
        assert len(line) <= 79
        assert line[carets.index("^") : len(carets)] == token
        assert line.startswith("    …") == (token not in ("SELECT",))
        assert line.endswith("…") == (token in ("SELECT", "column_20"))
    assert caret_lines(LONG, "column_20", None)[0] == "    " + LONG


def test_a_short_line_is_shown_as_it_is() -> None:
    assert caret_lines("SELECT nope", "nope", 80) == ("    SELECT nope", "           ^^^^")


def test_carets_stand_under_letters_that_are_two_columns_wide() -> None:
    line, carets = caret_lines("SELECT '\u6771\u4eac', nope", "nope", 80)
    assert line == "    SELECT '\u6771\u4eac', nope"
    assert carets == " " * (4 + len("SELECT '") + 4 + len("', ")) + "^^^^"


def test_tabs_before_the_place_are_kept() -> None:
    assert caret_lines("\tSELECT nope", "nope", 80)[1] == "    \t       ^^^^"


def test_a_mistyped_keyword_gets_the_word_that_was_meant() -> None:
    texts = [error_text("PARSE_SYNTAX_ERROR", {"error": f"'{word}'"}) for word in ("SELEC", "x")]
    assert texts == [
        ErrorText("syntax error at or near 'SELEC'", "did you mean SELECT?"),
        ErrorText("syntax error at or near 'x'"),
    ]


def test_a_name_below_an_unknown_catalog_tells_of_the_catalog() -> None:
    condition = "REQUIRES_SINGLE_PART_NAMESPACE"
    texts = [
        error_text(condition, {"sessionCatalog": "spark_catalog", "identifier": name})
        for name in ("`no``cat`.`db`.`t`", "`default_catalog`.`db`.`t`")
    ]
    assert [(text.message, text.kind, text.subject) for text in filter(None, texts)] == [
        ("catalog `no`cat` does not exist", ErrorKind.UNKNOWN_CATALOG, "no`cat"),
        (
            "table `default_catalog.db.t` does not exist",
            ErrorKind.UNKNOWN_TABLE,
            "default_catalog.db.t",
        ),
    ]


def test_a_missing_table_with_a_files_name_suggests_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    hints = [
        error_text("TABLE_OR_VIEW_NOT_FOUND", {"relationName": name})
        for name in ("`sales`.`csv`", "`sales`", "`sale`.`csv`")
    ]
    assert [item.hint for item in filter(None, hints)] == [
        "to read the file of that name, quote it: 'sales.csv'",
        "use SHOW TABLES to list tables",
        "use SHOW TABLES to list tables",
    ]


def test_a_function_of_flinks_gets_the_name_that_spark_has_for_it() -> None:
    texts = [
        error_text("UNRESOLVED_ROUTINE", {"routineName": f"`{name}`"})
        for name in ("TO_BASE64", "nope")
    ]
    assert [text[:2] for text in filter(None, texts)] == [
        (
            "function `TO_BASE64` does not exist",
            "use Spark's BASE64(value)",
        ),
        ("function `nope` does not exist", "use SHOW FUNCTIONS to list functions"),
    ]


def test_an_error_about_a_table_keeps_its_subject() -> None:
    error = CatalogError("option 'a' of `x` is 'b'", hint="no", subjects=("'b'", "'a'", "x"))
    table = error.about("table `t`", "t")
    assert type(table) is CatalogError
    assert (table.message, table.hint) == ("table `t`: option 'a' of `x` is 'b'", "no")
    assert table.subjects == ("'b'", "'a'", "t", "x")


def test_names_in_sparks_messages_are_the_subjects() -> None:
    message = "option 'a' of `x`.`y` cannot be 'b'"
    assert names_in(message) == ("'b'", "'a'", "x", "y")
    assert names_in("cannot create 'a' or `x`") == ("'a'", "x")
    assert names_in("Spark's own") == ()


def test_a_report_keeps_its_lines_for_any_characters() -> None:
    sql = "SELECT '\x1b[31m\x0c\u2028' AS a,\r\n  `x\x1by` FROM t\r\n"
    error = AnalysisError("column `x\x1by\n` does not exist", hint="did you mean `a\x00`?")
    error.position, error.sql = Position.at(sql, sql.index("`x"), 5), sql
    assert str(error).split("\n") == [
        r"column `x\x1by\n` does not exist",
        "  at line 2, column 3",
        "      `x\ufffdy` FROM t",
        "      ^^^^^",
        r"  did you mean `a\x00`?",
    ]


def test_a_message_that_quotes_a_very_long_value_is_cut_in_the_middle() -> None:
    error = SqlwinError(f"invalid value '{'x' * 90_000}' for 'key'", hint="y" * 90_000)
    assert len(str(error)) < 4_100
    assert error.message.startswith("invalid value 'xxx")
    assert error.message.endswith("xxx' for 'key'")
    assert " … " in error.message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "timeout error"),
        (OSError(), "os error"),
        (CatalogError("t"), "catalog error"),
        (type("JSONDecodeError", (Exception,), {})(), "json decode error"),
        (type("gaierror", (Exception,), {})(), "gaierror"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_without_a_message_is_named_in_words(error: Exception, words: str) -> None:
    assert kind_in_words(error) == words


def test_a_missing_module_of_sqlwin_is_not_a_missing_package() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, packages_of("ui", "the page"):
        import runtime.no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(caught.value, SqlwinError)
