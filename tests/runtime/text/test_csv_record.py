"""Lines with stray quotes have the fields that Spark's CSV reader gives them."""

from __future__ import annotations

import pytest

from runtime.text.csv_record import split_record

# What Spark 4.3 returned for these lines. tests/end_to_end/batch/test_in_process_text.py compares
# thousands of others
FIELDS_OF_SPARK = {
    "a,b": ["a", "b"],
    ",": [None, None],
    '"a,b",c': ["a,b", "c"],
    '"say ""hi""",': ['say "hi"', None],
    '"': ['"'],
    'a,"': ["a", '"'],
    '"a': ["a"],
    '"a,b': ["a,b"],
    'a"b"': ['a"b"'],
    ' a,"\\,"': [" a", "\\,"],
    '\t,""""': ["\t", '"'],
    ',""" ': [None, '" '],
    '"a" ,b': ["a", "b"],
    '"\t, ,\t\'a"': ["\t, ,\t'a"],
    '"é,\t"é': ['"é,\t"é'],
    ',"ab"  "\'': [None, '"ab"  "\''],
    '","é"é"\'a': ['","é"é"\'a'],
    ',""é,\x01': [None, '""é', "\x01"],
    '"\x01a" b"': ['"\x01a" b""'],
    ',,"" a"\\\'b': [None, None, '"" a"\\\'b"'],
    '"é""\x01" b\\bé"': ['"é"\x01" b\\bé"'],
}


@pytest.mark.parametrize("line", FIELDS_OF_SPARK)
def test_fields_are_the_ones_of_spark(line: str) -> None:
    assert split_record(line, ",", '"') == FIELDS_OF_SPARK[line]


def test_empty_quoted_fields_differ_from_missing_ones() -> None:
    assert split_record('"",,""', ",", '"') == ["", None, ""]


def test_without_a_quote_character_quotes_are_letters() -> None:
    assert split_record('"a,b"', ",", "") == ['"a', 'b"']


def test_an_escape_character_stands_before_quotes_and_itself() -> None:
    assert split_record('"a\\"b\\\\c\\d",x\\"', ",", '"', "\\") == ['a"b\\c\\d', 'x\\"']
    # the fields of Spark: a doubled quote is not an escaped one
    assert split_record('"a""b",c', ",", '"', "\\") == ['"a""b"', "c"]
    assert split_record('"a""" ,"",b', ",", '"', "\\") == ['a""', "", "b"]
