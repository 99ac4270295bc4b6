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
    "sqlwin uses Spark's catalogs, which are configured when Spark starts",
    "add a catalog with --conf spark.sql.catalog.NAME=CLASS; CREATE TABLE ... WITH needs none",
)
_MODULE = _Refusal(
    "modules are not supported: all Spark functions are available",
    "remove the statement; SHOW FUNCTIONS lists the functions",
)
_PLAN = _Refusal(
    "compiled plans are not supported",
    "run the INSERT: it resumes from its checkpoint; EXPLAIN FORMATTED shows the plan",
)
_MODEL = _Refusal(
    "models are not supported",
    "call the model in a Python function: session.register_function(name, function, returns)",
)
_JVM_FUNCTION = _Refusal(
    "Flink functions cannot run on Spark",
    "write it in Python: session.register_function(name, function, returns); for a Hive UDF, use "
    "CREATE TEMPORARY FUNCTION f AS 'class' USING JAR 'path', without LANGUAGE",
)
_PYTHON_FUNCTION = _Refusal(
    "CREATE FUNCTION does not support Python",
    "use session.register_function(name, function, returns) in Python",
)
_JOB = _Refusal("DESCRIBE JOB is not supported", "use SHOW STREAMS")

# By first words
_REFUSED: dict[str, _Refusal] = {
    "CREATE CATALOG": _CATALOG,
    "DROP CATALOG": _CATALOG,
    "ALTER CATALOG": _CATALOG,
    "SHOW CREATE CATALOG": _CATALOG,
    "DESCRIBE CATALOG": _CATALOG,
    "DESC CATALOG": _CATALOG,
    "SHOW CURRENT CATALOG": _Refusal(
        "SHOW CURRENT CATALOG is not supported",
        "use SHOW CURRENT DATABASE, which includes the catalog, or SELECT current_catalog()",
    ),
    "LOAD MODULE": _MODULE,
    "UNLOAD MODULE": _MODULE,
    "USE MODULES": _MODULE,
    "SHOW MODULES": _MODULE,
    "SHOW FULL MODULES": _MODULE,
    "SHOW JARS": _Refusal("SHOW JARS is not supported", "use LIST JARS"),
    "REMOVE JAR": _Refusal(
        "a JAR stays loaded until Spark stops", "remove the statement, or start a new session"
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
        "connections are not supported",
        "set the options in each table: CREATE TABLE ... WITH (...)",
    ),
    "ALTER FUNCTION": _Refusal("ALTER FUNCTION is not supported", "use CREATE OR REPLACE FUNCTION"),
    "CREATE TEMPORARY SYSTEM FUNCTION": _JVM_FUNCTION,
    "DROP TEMPORARY SYSTEM FUNCTION": _Refusal(
        "system functions of a session are not supported", "use DROP TEMPORARY FUNCTION name"
    ),
}
# Spark may have tables of these names
_MAY_BE_TABLES = frozenset({"DESCRIBE", "DESC"})


def refuse_flink_statement(sql: str, tokens: Sequence[Token]) -> None:
    """Reject a statement that only Flink supports.

    Raises:
        SqlSyntaxError: Only Flink supports the statement. The hint shows the alternative.
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
