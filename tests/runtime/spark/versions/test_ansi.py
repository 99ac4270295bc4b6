"""Overflow and bad casts are errors, even where Spark turns ANSI mode off by default."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.errors import SetupError, SqlwinError
from runtime.spark.defaults import ANSI
from runtime.spark.session import check_session, start_session
from runtime.spark.versions.capabilities import ANSI_BY_DEFAULT, has

VALUES = """
    SELECT * FROM VALUES
      (TIMESTAMP_NTZ '2024-01-01 00:00:01', 9223372036854775807, '7'),
      (TIMESTAMP_NTZ '2024-01-01 00:00:02', 1, 'x') AS v(ts, n, t)"""


@pytest.mark.parametrize(
    ("items", "error"),
    [("SUM(n)", "overflow"), ("MAX(n + 1)", "overflow"), ("MAX(CAST(t AS INT))", "'x'")],
)
def test_rows_of_a_dataframe_that_do_not_fit_are_errors(
    spark: SparkSession, fresh_session: sqlwin.Session, items: str, error: str
) -> None:
    fresh_session.register("v", spark.sql(VALUES))
    query = f"""
        SELECT window_end, {items} AS a
        FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_end"""
    with pytest.raises(SqlwinError, match=error):
        fresh_session.execute(query)[0].rows  # noqa: B018  # computes them


def test_a_session_of_its_own_is_in_ansi_mode(spark: SparkSession) -> None:
    assert start_session().conf.get(ANSI) == "true"


def test_a_session_with_sparks_default_is_checked(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.unset(ANSI)
    if has(ANSI_BY_DEFAULT):
        check_session(theirs)
        conf = SimpleNamespace(get=lambda key, *default: default[0] if default else "false")
        theirs = SimpleNamespace(conf=conf, version="3.5.9")
    with pytest.raises(
        SetupError, match=r"^spark.sql.ansi.enabled is false, the default of Spark 3.5"
    ):
        check_session(theirs)


def test_ansi_mode_that_the_user_turned_off_stays_off(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set(ANSI, "false")
    check_session(theirs)
    assert theirs.conf.get(ANSI) == "false"
