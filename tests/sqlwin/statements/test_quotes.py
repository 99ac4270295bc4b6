"""The meaning of double quotes, the text passed to later steps, and positions in errors."""

from __future__ import annotations

import pytest

from sqlwin.config.config import Config
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.quotes import DoubleQuotes
from sqlwin.statements.split import split_script


@pytest.mark.parametrize(
    ("sql", "names", "strings"),
    [
        ('SELECT "a b"', "SELECT `a b`", "SELECT 'a b'"),
        ('"a""b"', '`a"b`', "'a\"b'"),
        ('"a`b"', "`a``b`", "'a`b'"),
        ('"it\'s"', "`it's`", r"'it\'s'"),
        (r'"C:\x"', r"`C:\x`", "'C:x'"),
        ('DESCRIPTOR("ts")', "DESCRIPTOR(`ts`)", "DESCRIPTOR('ts')"),
        ('\'"a"\' -- "b"\n, `"c"`', '\'"a"\' -- "b"\n, `"c"`', '\'"a"\' -- "b"\n, `"c"`'),
    ],
)
def test_double_quotes_become_backticks_or_single_quotes(
    sql: str, names: str, strings: str
) -> None:
    (part,) = split_script(sql)
    for quotes, text in (
        (DoubleQuotes.IDENTIFIER, names),
        (DoubleQuotes.STRING, strings),
        (DoubleQuotes.CHECKED, sql),
    ):
        bound = bind_parameters(part, None, quotes=quotes)
        assert bound.text == text
        # the tokens are those of the text
        (again,) = split_script(text)
        kinds = [(token.token_type, token.text, token.start, token.end) for token in bound.tokens]
        assert kinds == [(t.token_type, t.text, t.start, t.end) for t in again.tokens]


def test_positions_refer_to_the_users_text() -> None:
    sql = 'SELECT "a`b", :n, "c""d", k'
    (part,) = split_script(sql)
    bound = bind_parameters(part, {"n": 12345}, quotes=DoubleQuotes.IDENTIFIER)
    assert bound.text == 'SELECT `a``b`,  12345 , `c"d`, k'
    for new, old in (("`a``b`", '"a`b"'), ("12345", ":n"), ('`c"d`', '"c""d"'), ("k", "k")):
        start, length = bound.original(bound.text.rindex(new), len(new))
        assert sql[start : start + length] == old


@pytest.mark.parametrize(
    ("spark", "own", "meaning"),
    [
        (None, None, "checked"),
        ("true", None, "identifier"),
        ("false", None, "checked"),
        ("true", "string", "string"),
        (None, "identifier", "identifier"),
    ],
)
def test_the_setting_of_spark_counts_until_the_own_one_is_set(
    spark: str | None, own: str | None, meaning: str
) -> None:
    config = Config()
    if spark is not None:
        config.set("spark.sql.ansi.doubleQuotedIdentifiers", spark)
    if own is not None:
        config.set("sqlwin.double-quotes", own)
    assert config.double_quotes == meaning
