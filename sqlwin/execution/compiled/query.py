"""Queries as SQL text of another engine."""

from __future__ import annotations

from functools import partial

from planner.lowering.sql.portable import FILE_RULES, compile_plan
from planner.lowering.sql.refusals import NotPortable, refuse_part
from planner.lowering.sql.targets import TARGETS
from planner.sql.depth import deep_trees
from planner.sql.nodes import path_of_files
from runtime.errors import AnalysisError
from runtime.refusal import Refusal, Refused
from runtime.spark.on_demand import NotStartedError, without_start
from sqlwin.catalog.spark.analyzer import UnknownColumnsError
from sqlwin.execution.compiled.executors import refusal_error
from sqlwin.execution.planning import Plans
from sqlwin.parser.positions import locate
from sqlwin.statements.nodes import Query

_SPARK_ONLY = (
    "only Spark knows the columns or functions of this query, and it is not started to compile one"
)
_DECLARE = "declare the columns of its tables with CREATE TABLE, in the script or --schema"
_CANNOT = "cannot compile the query"
_STREAM = "a stream has no SQL that another engine could run"


def compile_query(plans: Plans, statement: Query, target: str) -> str:
    """Return a query as SQL of an engine, without starting Spark.

    Args:
        plans: Planner of the session.
        statement: Query.
        target: Name of the engine.

    Raises:
        AnalysisError: The query is invalid, or its rows might differ on the engine.
    """
    check_target(target)
    text = statement.text
    with plans.lock, deep_trees(text), without_start():
        plans.begin(text)
        try:
            plan = plans.plan(statement.ast, text, without=FILE_RULES)
            if plans.is_stream(plan):
                raise _refusal(text, _STREAM, "SET 'execution.runtime-mode' = 'batch'")
            return compile_plan(
                plan.physical, plans.catalog, plans.time_zone, target, partial(_refuse_files, plans)
            )
        except Refused as refused:
            raise refusal_error(_CANNOT, refused, text) from refused
        except NotStartedError as error:
            raise unknown_error(_CANNOT, error, text) from error
        finally:
            plans.end()


def unknown_error(subject: str, error: NotStartedError, text: str) -> AnalysisError:
    """Return the error for a statement that only Spark's analyser knows.

    Args:
        subject: Start of the message.
        error: Error for the start of Spark.
        text: Text of the statement.
    """
    unknown = error.unknown if isinstance(error, UnknownColumnsError) else None
    if unknown is None:
        return _refusal(text, _SPARK_ONLY, _DECLARE, subject)
    part = next((part for part in unknown.parts if locate(part, text) is not None), "")
    return refusal_error(subject, NotPortable(Refusal(unknown.reason), part), text)


def check_target(target: str) -> None:
    """Check the name of an engine.

    Raises:
        AnalysisError: It is unknown.
    """
    if target not in TARGETS:
        raise AnalysisError(
            f"unknown dialect `{target}`", hint=f"available dialects: {', '.join(TARGETS)}"
        )


def _refuse_files(plans: Plans, name: tuple[str, ...]) -> None:
    """Refuse files by path, given their name in a plan."""
    origin = plans.catalog.origin_of_view(name[-1])
    path = None if origin is None else path_of_files(origin[0][-1])
    if path is not None:
        refuse_part(
            "files by path are not compiled",
            f"'{path}'",
            "CREATE TABLE name WITH ('connector' = 'filesystem', 'path' = ...), and a table "
            "or view of that name on the engine",
        )


def _refusal(text: str, reason: str, hint: str, subject: str = _CANNOT) -> AnalysisError:
    return refusal_error(subject, NotPortable(Refusal(reason), hint=hint), text)
