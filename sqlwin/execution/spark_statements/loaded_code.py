"""Checks of statements that load code. Spark itself accepts missing files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import Token

from runtime.errors import CatalogError, Position
from runtime.spark.files import files_at
from runtime.spark.messages import plain_path
from runtime.spark.session import is_remote
from sqlwin.parser.base import STRINGS, is_word
from sqlwin.parser.strings import string_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# URI schemes that Spark resolves itself, reporting missing files
_RESOLVED_BY_SPARK = frozenset({"ivy", "http", "https", "ftp"})
_ADD = re.compile(r"\s*ADD\s+(?:JAR|FILE|ARCHIVE)S?\s+(\S.*?)\s*;?\s*", re.IGNORECASE | re.DOTALL)
_RESOURCES = ("JAR", "FILE", "ARCHIVE")
_PROBE = "sqlwin_probe_of_class"


def check_loaded_code(spark: SparkSession, text: str, tokens: Sequence[Token]) -> None:
    """Check the files and the class that a Spark statement loads.

    Args:
        spark: Spark session that runs the statement.
        text: The statement.
        tokens: Tokens of `text`.

    Raises:
        CatalogError: A file of ADD JAR, FILE or ARCHIVE, or of USING JAR, is missing.
        PySparkException: CREATE FUNCTION names a class that Spark cannot load.
    """
    if is_remote(spark):
        return  # the server has the files and classes
    if (added := _ADD.fullmatch(text)) is not None:
        _check_file(spark, text, added.start(1), added.end(1))
        return
    if is_word(tokens, 0, "CREATE") and any(is_word(tokens, i, "FUNCTION") for i in range(1, 5)):
        _check_function(spark, text, tokens)


def _check_function(spark: SparkSession, text: str, tokens: Sequence[Token]) -> None:
    for i in range(2, len(tokens) - 1):
        is_file = is_word(tokens, i - 1, "USING") or tokens[i - 1].text == ","
        if is_file and tokens[i].text.upper() in _RESOURCES and tokens[i + 1].token_type in STRINGS:
            _check_file(spark, text, tokens[i + 1].start, tokens[i + 1].end + 1)
    as_class = (
        i
        for i in range(2, len(tokens) - 1)
        if is_word(tokens, i, "AS") and tokens[i + 1].token_type in STRINGS
    )
    start = next(as_class, None)
    is_temporary = is_word(tokens, 1, "TEMPORARY") or is_word(tokens, 3, "TEMPORARY")
    if start is None or is_temporary:
        return  # Spark loads the class of a temporary function at once
    definition = text[tokens[start].start :]
    spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {_PROBE} {definition}")
    spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {_PROBE}")


def _check_file(spark: SparkSession, text: str, start: int, stop: int) -> None:
    """Check the file whose path, possibly quoted, is a range of the text."""
    word = text[start:stop]
    path = string_value(word) if word[0] in "'\"" else word
    scheme = _SCHEME.match(path)
    if scheme is not None and scheme.group(1).lower() in _RESOLVED_BY_SPARK:
        return
    if scheme is None or scheme.group(1).lower() == "file":
        exists = Path(plain_path(path)).exists()
    else:
        exists = files_at(spark, path).exists(path)
    if not exists:
        raise CatalogError(
            f"file {path} does not exist", position=Position.at(text, start, stop - start), sql=text
        )
