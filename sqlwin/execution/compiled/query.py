"""Queries as SQL text of another engine."""

from __future__ import annotations

from functools import partial

from planner.lowering.sql.compile import compile_plan
from planner.lowering.sql.portable import FILE_RULES
from planner.lowering.sql.refusals import NotPortable
from planner.lowering.sql.targets import TARGETS
from planner.sql.depth import deep_trees
from planner.sql.nodes import path_of_files
from runtime.errors import AnalysisError, Position, SqlwinError
from runtime.refusal import Refused
from runtime.spark.on_demand import NotStartedError, without_start
from sqlwin.execution.planning import Plans
from sqlwin.parser.positions import locate
from sqlwin.statements.nodes import Query

_SPARK_ONLY = (
    "only Spark knows the columns or functions of this query, and it is not started to compile one"
)
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
                raise _refusal(text, _STREAM, hint="SET 'execution.runtime-mode' = 'batch'")
            return compile_plan(
                plan.physical, plans.catalog, plans.time_zone, target, partial(_path_of, plans)
            )
        except NotPortable as refused:
            place = (
                None
                if refused.place is None
                else Position.at(
                    text, refused.place.start, refused.place.end - refused.place.start + 1
                )
            )
            position = locate(refused.part, text) or place
            raise _refusal(text, str(refused.refusal), position, refused.hint) from refused
        except Refused as refused:
            raise _refusal(text, str(refused.refusal)) from refused
        except NotStartedError as error:
            hint = "declare the columns of its tables with CREATE TABLE, in the script or --schema"
            raise _refusal(text, _SPARK_ONLY, hint=hint) from error
        finally:
            plans.end()


def check_target(target: str) -> None:
    """Check the name of an engine.

    Raises:
        AnalysisError: It is unknown.
    """
    if target not in TARGETS:
        raise AnalysisError(
            f"unknown dialect `{target}`", hint=f"available dialects: {', '.join(TARGETS)}"
        )


def _path_of(plans: Plans, name: tuple[str, ...]) -> str | None:
    """Return the path of files by their name in a plan, None for a table."""
    origin = plans.catalog.origin_of_view(name[-1])
    return None if origin is None else path_of_files(origin[0][-1])


def _refusal(
    text: str, reason: str, position: Position | None = None, hint: str = ""
) -> SqlwinError:
    start = len(text) - len(text.lstrip())
    return AnalysisError(
        f"cannot compile the query: {reason}",
        position=position or Position.at(text, start, len(text.split(maxsplit=1)[0])),
        sql=text,
        hint=hint or None,
    )
