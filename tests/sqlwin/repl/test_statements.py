"""When Enter runs the input at the prompt."""

import pytest

from sqlwin.repl.statements import is_command, is_complete, open_piece


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "SELECT 1;\n-- a remark",
        "SELECT 1; SELECT 2;",
        "SELECT ';';",
        "SELECT `a;b` FROM t;",
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;",
        "BEGIN SELECT 1; END;",
        "",
        "   ",
        r"\d bids",
        r"  \q",
        ";",
        "quit",
        "Exit;",
        "help",
        "help tumble",
        "help asof join",
        "HELP 'execution.runtime-mode';",
        "?",
        ".tables",
        ".schema bids",
    ],
)
def test_these_run(text):
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "quit now",
        ".5 + 1",
        ".tables\nSELECT 1",
        "SELECT 'a;",
        "SELECT 1 -- done;",
        "SELECT 1 /* done; */",
        "SELECT 1 /* done;",
        "SELECT 1; SELECT 2",
        "SELECT `a;",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        "BEGIN STATEMENT SET;",
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        "BEGIN SELECT 1;",
    ],
)
def test_these_go_on_in_the_next_line(text):
    assert not is_complete(text)


def test_a_backslash_begins_a_command_only_at_the_start():
    assert is_command(r" \d") and not is_command(r"SELECT '\d'")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("SELECT (a", "("),
        ("SELECT 'a", "'"),
        ("SELECT 'it''s'", ""),
        (r"SELECT 'it\'s", "'"),
        ('SELECT "a', '"'),
        ("SELECT `a", "`"),
        ("SELECT (a) -- (", ""),
        ("SELECT /* (", "/*"),
        ("SELECT a[1", "["),
    ],
)
def test_open_brackets_and_quotes_are_detected(text, piece):
    assert open_piece(text) == piece
