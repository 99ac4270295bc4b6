"""Flink statements that sqlwin does not support, with an alternative for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot.tokenizer_core import Token

from runtime.errors import Position, SqlSyntaxError
from sqlwin.parser.base import is_word


class _Refusal(NamedTuple):
    """Error message and alternative of a statement."""

    message: str
    hint: str


_CATALOG = _Refusal(
    "catalogs are Spark's, and are configured when Spark starts",
    "--conf spark.sql.catalog.NAME=CLASS adds one; CREATE TABLE ... WITH needs none",
)
_MODULE = _Refusal(
    "there are no modules: all functions of Spark are there",
    "leave it out; SHOW FUNCTIONS lists them",
)
_PLAN = _Refusal(
    "plans are not compiled into files",
    "run the INSERT itself: its checkpoint resumes it; EXPLAIN FORMATTED shows a plan",
)
_MODEL = _Refusal(
    "there are no models",
    "call one in a function: session.register_function(name, function, returns) in Python",
)
_JVM_FUNCTION = _Refusal(
    "functions of Flink do not run on Spark",
    "write it in Python: session.register_function(name, function, returns); a Hive UDF of Spark "
    "is CREATE TEMPORARY FUNCTION f AS 'class' USING JAR 'path', without LANGUAGE",
)
_PYTHON_FUNCTION = _Refusal(
    "CREATE FUNCTION takes no functions in Python",
    "session.register_function(name, function, returns) in Python gives one a name in SQL",
)
_JOB = _Refusal("streams are described together", "SHOW STREAMS lists them")

# By first words
_REFUSED: dict[str, _Refusal] = {
    "CREATE CATALOG": _CATALOG,
    "DROP CATALOG": _CATALOG,
    "ALTER CATALOG": _CATALOG,
    "SHOW CREATE CATALOG": _CATALOG,
    "DESCRIBE CATALOG": _CATALOG,
    "DESC CATALOG": _CATALOG,
    "SHOW CURRENT CATALOG": _Refusal(
        "SHOW CURRENT takes DATABASE, which names the catalog too",
        "SHOW CURRENT DATABASE, or SELECT current_catalog()",
    ),
    "LOAD MODULE": _MODULE,
    "UNLOAD MODULE": _MODULE,
    "USE MODULES": _MODULE,
    "SHOW MODULES": _MODULE,
    "SHOW FULL MODULES": _MODULE,
    "SHOW JARS": _Refusal("SHOW JARS is called LIST JARS here", "LIST JARS"),
    "REMOVE JAR": _Refusal(
        "a JAR stays loaded until Spark stops", "leave it out, or start another session"
    ),
    "COMPILE PLAN": _PLAN,
    "COMPILE AND EXECUTE PLAN": _PLAN,
    "EXECUTE PLAN": _PLAN,
    "CREATE MODEL": _MODEL,
    "DROP MODEL": _MODEL,
    "ALTER MODEL": _MODEL,
    "DESCRIBE MODEL": _MODEL,
    "DESC MODEL": _MODEL,
    "SHOW MODELS": _MODEL,
    "DESCRIBE JOB": _JOB,
    "DESC JOB": _JOB,
    "CREATE CONNECTION": _Refusal(
        "there are no connections", "give the options to each table: CREATE TABLE ... WITH (...)"
    ),
    "ALTER FUNCTION": _Refusal(
        "a function is not altered", "CREATE OR REPLACE FUNCTION makes it anew"
    ),
    "CREATE TEMPORARY SYSTEM FUNCTION": _JVM_FUNCTION,
    "DROP TEMPORARY SYSTEM FUNCTION": _Refusal(
        "there are no system functions of a session", "DROP TEMPORARY FUNCTION name"
    ),
}
# Spark may have tables of these names
_MAY_BE_TABLES = frozenset({"DESCRIBE", "DESC"})


def refuse_flink_statement(sql: str, tokens: Sequence[Token]) -> None:
    """Reject a statement that only Flink supports.

    Raises:
        SqlSyntaxError: It is such a statement. The hint shows the alternative.
    """
    for text, refusal in _REFUSED.items():
        words = text.split()
        if is_word(tokens, 0, *words):
            is_name = words[0] in _MAY_BE_TABLES and len(tokens) == len(words)
            if not is_name:
                _refuse(sql, tokens[0], tokens[len(words) - 1], refusal)
    if is_word(tokens, 0, "CREATE") and any(is_word(tokens, i, "FUNCTION") for i in range(1, 5)):
        for i in range(2, len(tokens) - 1):
            if is_word(tokens, i, "LANGUAGE", "PYTHON"):
                _refuse(sql, tokens[i], tokens[i + 1], _PYTHON_FUNCTION)
            if is_word(tokens, i, "LANGUAGE", "JAVA") or is_word(tokens, i, "LANGUAGE", "SCALA"):
                _refuse(sql, tokens[i], tokens[i + 1], _JVM_FUNCTION)


def _refuse(sql: str, first: Token, last: Token, refusal: _Refusal) -> None:
    position = Position.at(sql, first.start, last.end + 1 - first.start)
    raise SqlSyntaxError(refusal.message, position=position, sql=sql, hint=refusal.hint)
