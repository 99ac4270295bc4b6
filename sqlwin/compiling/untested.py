"""Write the text of an engine in another dialect, which no test runs."""

from __future__ import annotations

from sqlglot import Dialect, ErrorLevel, parse_one
from sqlglot.errors import ParseError, UnsupportedError

from runtime.errors import AnalysisError

# Dialects of sqlglot that read the texts. DataFusion's is close to PostgreSQL's
_READ_AS = {"datafusion": "postgres"}
# Dialects that are not engines
_NOT_ENGINES = ("", "sqlwin")


def check_untested(dialect: str) -> None:
    """Check the name of a dialect of sqlglot.

    Raises:
        AnalysisError: It is unknown.
    """
    names = sorted(name for name in Dialect.classes if name not in _NOT_ENGINES)
    if dialect not in names:
        raise AnalysisError(
            f"unknown dialect '{dialect}'", hint=f"dialects of sqlglot: {', '.join(names)}"
        )


def written_untested(text: str, dialect: str, untested: str) -> str:
    """Return the text of an engine in another dialect, with a comment that says so.

    Args:
        text: Text of the engine.
        dialect: Name of the engine.
        untested: Name of the dialect.

    Raises:
        AnalysisError: The dialect or sqlglot lacks a construct of the text.
    """
    try:
        written = parse_one(text, read=_READ_AS.get(dialect, dialect)).sql(
            untested, pretty=True, unsupported_level=ErrorLevel.RAISE
        )
    except UnsupportedError as error:
        reasons = dict.fromkeys(str(error).splitlines())
        raise _unwritten(untested, "; ".join(filter(None, reasons))) from error
    except (ParseError, AttributeError) as error:
        # some generators fail at named windows, and GROUP BY WINDOW(...) is read as a clause
        raise _unwritten(untested, "sqlglot does not know a construct of it") from error
    return f"/* untested: the text for {dialect}, in the dialect {untested} */\n{written}"


def _unwritten(dialect: str, reason: str) -> AnalysisError:
    return AnalysisError(
        f"cannot write the text in the dialect {dialect}: {reason}",
        hint="leave out --untested, or take the text of another engine",
    )
