"""User-defined functions and aggregates in SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import sqlwin
from runtime.errors import AnalysisError, SqlwinError
from tests.runtime.compute import user_functions
from tests.runtime.compute.user_functions import Longest, WeightedMean

# Workers cannot import this folder, so the classes are pickled by value, as in a user's script.
cloudpickle.register_pickle_by_value(user_functions)


ROWS = """
    CREATE VIEW trades AS SELECT * FROM VALUES
        (TIMESTAMP_NTZ '2024-01-01 00:00:10', 'a', 10, 1, 'x'),
        (TIMESTAMP_NTZ '2024-01-01 00:00:50', 'a', 20, 3, 'xyz'),
        (TIMESTAMP_NTZ '2024-01-01 00:01:10', 'a', 40, 1, 'yy'),
        (TIMESTAMP_NTZ '2024-01-01 00:01:20', 'b', NULL, 1, NULL),
        (NULL, 'a', 1000, 1000, 'a row without a time is in no window')
    AS t(ts, sym, price, volume, note);
"""
HOP = "TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES))"


@pytest.fixture
def session(fresh_session: sqlwin.Session) -> sqlwin.Session:
    fresh_session.register_aggregate("weighted_mean", WeightedMean())
    fresh_session.register_aggregate("longest", Longest())
    fresh_session.execute(ROWS)
    return fresh_session


@pytest.mark.long
def test_a_user_aggregate_runs_on_slices_with_built_in_ones(session: sqlwin.Session) -> None:
    query = f"""
        SELECT sym, date_format(window_end, 'HH:mm') AS ends, COUNT(*) AS n,
               Weighted_Mean(price, volume) AS mean,
               weighted_mean(price, volume) FILTER (WHERE price > 10) AS dear,
               longest(concat(note, '!')) AS note, COUNT(DISTINCT volume) AS volumes,
               APPROX_COUNT_DISTINCT(note) AS notes, APPROX_PERCENTILE(price, 0.5) AS median
        FROM {HOP} GROUP BY sym, window_start, window_end ORDER BY sym, ends"""
    assert [tuple(row) for row in session.sql(query).collect()] == [
        ("a", "00:01", 2, 17.5, 20.0, "xyz!", 2, 2, 10),
        ("a", "00:02", 3, 22.0, 25.0, "xyz!", 2, 3, 20),
        ("a", "00:03", 1, 40.0, 40.0, "yy!", 1, 1, 40),
        ("b", "00:02", 1, None, None, None, 1, 0, None),
        ("b", "00:03", 1, None, None, None, 1, 0, None),
    ]
    plan = session.explain(query)
    assert "LocalWindowAggregate" in plan
    assert "applied:" in plan
    assert "split_window_aggregate on OnePhaseWindowAggregate(HOP)" in plan


@pytest.mark.long
def test_an_aggregate_runs_on_sessions_and_in_a_plain_group_by(session: sqlwin.Session) -> None:
    sessions = """
        SELECT sym, weighted_mean(price, volume) AS mean
        FROM TABLE(SESSION(TABLE trades PARTITION BY sym, DESCRIPTOR(ts), INTERVAL '30' SECONDS))
        GROUP BY sym, window_start, window_end ORDER BY sym, mean"""
    assert [tuple(row) for row in session.sql(sessions).collect()] == [
        ("a", 10.0),
        ("a", 25.0),
        ("b", None),
    ]
    plain = "SELECT sym, longest(note) AS note FROM trades WHERE ts IS NOT NULL GROUP BY sym"
    assert sorted(tuple(row) for row in session.sql(plain).collect()) == [
        ("a", "xyz"),
        ("b", None),
    ]


@pytest.mark.long
def test_filter_also_applies_where_spark_calls_the_aggregate(session: sqlwin.Session) -> None:
    dear = "weighted_mean(price, volume) FILTER (WHERE price BETWEEN 11 AND 50)"
    plain = session.sql(f"SELECT sym, {dear} FROM trades GROUP BY sym ORDER BY sym")
    assert [tuple(row) for row in plain.collect()] == [("a", 25.0), ("b", None)]
    session.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    hop = f"""SELECT sym, date_format(window_end, 'HH:mm') AS ends, {dear} AS dear
        FROM {HOP} GROUP BY sym, window_start, window_end ORDER BY sym, ends"""
    one_phase = [tuple(row) for row in session.sql(hop).collect()]
    session.execute("RESET 'table.optimizer.agg-phase-strategy'")
    assert one_phase == [tuple(row) for row in session.sql(hop).collect()]
    assert [row[2] for row in one_phase] != [None] * 5


@pytest.mark.long
def test_a_function_gets_and_gives_arrow_arrays(session: sqlwin.Session) -> None:
    session.register_function("twice", lambda x: pc.multiply(x, 2), returns="bigint")
    session.register_function("root", lambda x: np.sqrt(x.to_numpy(False)), returns="double")
    rows = session.sql(
        f"SELECT MAX(twice(price)) AS m, root(MAX(volume)) AS r FROM {HOP} GROUP BY window_end"
    ).collect()
    assert sorted((row.m, round(row.r, 6)) for row in rows) == [
        (40, 1.732051),
        (80, 1.0),
        (80, 1.732051),
    ]


def test_an_error_in_a_user_function_is_one_line(session: sqlwin.Session) -> None:
    class Unlucky(WeightedMean):
        def merge(self, groups, n_groups, states):
            raise ValueError("the thirteenth")

    session.register_aggregate("unlucky", Unlucky())
    query = f"SELECT unlucky(price, volume) FROM {HOP} GROUP BY window_end"
    with pytest.raises(SqlwinError) as error:
        session.execute(query)[-1].rows  # noqa: B018  # reading the rows runs the query
    assert error.value.message == "Unlucky.merge failed: ValueError: the thirteenth"


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (
            lambda s: s.register_aggregate("w", WeightedMean),
            "aggregate w must be a sqlwin.Aggregate",
        ),
        (
            lambda s: s.register_aggregate("w w", WeightedMean()),
            "invalid function name 'w w'",
        ),
        (
            lambda s: s.register_function("f", len, returns="number"),
            "function f: returns has the unknown type 'num",
        ),
        (
            lambda s: s.register_function("f", 5, returns="int"),
            "function f must be callable, not 5",
        ),
    ],
)
def test_invalid_functions_cannot_be_registered(register, message, session: sqlwin.Session) -> None:
    with pytest.raises(AnalysisError) as error:
        register(session)
    assert error.value.message.startswith(message)


def test_a_name_may_change_from_aggregate_to_function(session: sqlwin.Session) -> None:
    session.register_function("longest", lambda text: pa.array(["same"] * len(text)), "string")
    assert session.sql("SELECT longest('a') AS x").collect()[0].x == "same"
