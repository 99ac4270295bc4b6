"""The changes of SQL that a checkpoint supports, and the names of columns in state."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.refusal import Refusal, Refused, tried
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.state_schema import OperatorSchema, RowOrigin, StateAccumulator, StateKey
from runtime.streaming.changes import ResumedOperator, first_complete, resume_operator
from runtime.streaming.identity import Identity, difference, may_differ
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import CalendarTumble, Tumble

MIN = 60_000_000
SUM = StateAccumulator(("t$0",), "sum", ("v",), None, "SUM(v)")
COUNT = StateAccumulator(("n$0",), "count", (), None, "COUNT(*)")
ROWS = RowOrigin({"table": "r"})


def operator_schema(
    *accumulators: StateAccumulator, window: Window | None = None, key: str = "k"
) -> OperatorSchema:
    return OperatorSchema(
        window or Tumble(MIN),
        ("ts", "timestamp_ntz"),
        "$slice_end",
        (StateKey(key, "k", "int"),),
        accumulators or (SUM, COUNT),
        rows=ROWS,
    )


def went_on(old: OperatorSchema, new: OperatorSchema) -> ResumedOperator:
    result = resume_operator(0, old, new)
    assert isinstance(result, ResumedOperator), result
    return result


def test_columns_keep_the_names_that_they_have_in_state() -> None:
    renamed = replace(SUM, columns=("other$0",))
    result = went_on(operator_schema(), operator_schema(COUNT, renamed, key="room"))
    assert dict(result.names.columns) == {"room": "k", "other$0": "t$0"}
    assert result.changes == () and result.operator.generation == 0
    assert [accumulator.columns for accumulator in result.operator.accumulators] == [
        ("n$0",),
        ("t$0",),
    ]
    # and once more
    again = went_on(result.operator, operator_schema(COUNT, renamed, key="room"))
    assert again == result


def test_a_dropped_aggregate_cannot_return() -> None:
    result = went_on(operator_schema(), operator_schema(COUNT))
    assert result.changes == ("SUM(v) was removed",) and result.operator.generation == 1
    assert tried(resume_operator, 0, result.operator, operator_schema()) == Refusal(
        "the state of operator 0 has COUNT(*), from which SUM(v) cannot be computed"
    )


def test_a_sum_of_doubles_is_had_of_the_sum_for_good() -> None:
    expected = StateAccumulator(
        ("m$sum",), "sum", ("CAST(v AS DOUBLE)",), None, "SUM(CAST(v AS DOUBLE))"
    )
    result = went_on(operator_schema(), operator_schema(SUM, expected))
    assert result.names.sources == (("m$sum~1", "t$0"),)
    again = went_on(result.operator, operator_schema(SUM, expected))
    # older chunks may still lack it
    assert again.names == result.names and again.changes == ()
    dropped = went_on(result.operator, operator_schema(expected))
    assert dropped.names.sources == (("m$sum~1", "t$0"),)


def test_state_tables_have_the_requested_columns() -> None:
    table = pa.table({"k": [1], "$slice_end": [60], "t$0": [7], "n$0": [2]})
    narrow = StateColumns(("k",), "$slice_end", (Merge(("n$0",), MergeOp.COUNT),)).of(table)
    assert narrow.to_pylist() == [{"k": 1, "$slice_end": 60, "n$0": 2}]
    sums = (Merge(("m",), MergeOp.SUM),)
    columns = StateColumns(("k",), "$slice_end", sums, (("m", "t$0"),))
    wide = columns.of(table)
    assert wide.to_pylist() == [{"k": 1, "$slice_end": 60, "m": 7.0}]
    assert columns.of(wide) is wide


@pytest.mark.parametrize(
    ("was", "now", "goes_on"),
    [
        (Tumble(MIN), Hop(MIN, 60 * MIN), True),
        (Hop(MIN, 60 * MIN), Hop(MIN, 360 * MIN), True),
        (Hop(MIN, 60 * MIN), Tumble(MIN), True),
        (Hop(MIN, 60 * MIN), Cumulate(MIN, 60 * MIN), True),
        (Tumble(MIN, 7 * MIN), Hop(MIN, 2 * MIN, 3 * MIN), True),
        (CalendarTumble(1), CalendarHop(1, 12), True),
        (CalendarTumble(1), CalendarCumulate(12, 1), True),
        (Tumble(MIN), Tumble(2 * MIN), False),
        (Tumble(MIN, 1), Tumble(MIN), False),
        (Hop(2 * MIN, 5 * MIN), Hop(2 * MIN, 7 * MIN), False),
        (Hop(2 * MIN, MIN), Hop(2 * MIN, 4 * MIN), False),
        (Cumulate(MIN, 60 * MIN), Tumble(MIN), False),
        (Tumble(MIN), SessionWindow(MIN, ("k",)), False),
        (SessionWindow(MIN, ("k",)), SessionWindow(2 * MIN, ("k",)), False),
        (CalendarTumble(1), Tumble(MIN), False),
    ],
)
def test_windows_may_change_on_the_same_slices(was: Window, now: Window, goes_on: bool) -> None:
    old, new = operator_schema(window=was), operator_schema(window=now)
    result = tried(resume_operator, 0, old, new)
    assert isinstance(result, ResumedOperator) == goes_on
    if isinstance(result, ResumedOperator):
        assert result.window == was and result.operator.generation == 1


def test_renaming_keys_keeps_sessions() -> None:
    old = operator_schema(window=SessionWindow(MIN, ("k",)))
    result = went_on(old, operator_schema(window=SessionWindow(MIN, ("room",)), key="room"))
    assert result.changes == () and result.operator.window == old.window


@pytest.mark.parametrize(
    ("was", "now", "closed", "whole"),
    [
        # TUMBLE has dropped the slices of emitted windows
        (Tumble(MIN), Hop(MIN, 3 * MIN), 10 * MIN, (10 * MIN, 13 * MIN)),
        (Hop(MIN, 3 * MIN), Hop(MIN, 5 * MIN), 10 * MIN + 5, (8 * MIN, 13 * MIN)),
        (Hop(MIN, 5 * MIN), Hop(MIN, 3 * MIN), 10 * MIN, None),
        (Hop(MIN, 5 * MIN), Tumble(MIN), 10 * MIN, None),
        (Hop(MIN, 5 * MIN), Cumulate(MIN, 60 * MIN), 70 * MIN, (66 * MIN, 121 * MIN)),
    ],
)
def test_the_first_complete_window_is_determined(
    was: Window, now: Window, closed: int, whole: tuple[int, int] | None
) -> None:
    assert first_complete(was, now, closed) == whole


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            replace(operator_schema(), keys=(StateKey("k", "k", "bigint"),)),
            "the keys of operator 0 have changed from k to k",
        ),
        (
            replace(operator_schema(), time=("at", "timestamp_ntz")),
            "the time of operator 0 has changed from ts to at",
        ),
        (
            replace(operator_schema(), rows=replace(ROWS, where=("v > 3",))),
            "operator 0 had the conditions none, but now has v > 3",
        ),
        (
            replace(operator_schema(), rows=RowOrigin({"table": "s"})),
            "operator 0 read `r`, but now reads `s`",
        ),
    ],
)
def test_the_meaning_of_rows_may_not_change(changed: OperatorSchema, message: str) -> None:
    with pytest.raises(Refused) as refused:
        resume_operator(0, operator_schema(), changed)
    assert str(refused.value) == message


def identity(operator: OperatorSchema, form: object = "a", **settings: str) -> Identity:
    return Identity("plan", {"r": "connector kafka"}, settings, (operator,), (form,))


def test_results_may_change_above_windows_but_not_where_they_are_emitted_again() -> None:
    assert isinstance(
        difference(identity(operator_schema()), identity(operator_schema(), "b")), tuple
    )
    again = {"early firing or allowed lateness": "on"}
    old, new = (identity(operator_schema(), form, **again) for form in "ab")
    assert tried(difference, old, new) == Refusal("its plan has changed")
    assert isinstance(difference(old, old), tuple)


@pytest.mark.parametrize(
    ("option", "is_free"),
    [
        ("properties.bootstrap.servers", True),
        ("properties.sasl.jaas.config", True),
        ("properties.group.id", True),
        ("kafka.bootstrap.servers", True),
        ("max-files-per-trigger", True),
        ("properties.isolation.level", False),
        ("topic", False),
        ("path", False),
        ("format", False),
    ],
)
def test_options_that_change_no_row_never_refuse(option: str, is_free: bool) -> None:
    assert may_differ(option) == is_free
    old, new = (
        replace(
            identity(operator_schema()), tables={"r": f"connector kafka\n'{option}' = '{value}'"}
        )
        for value in ("one", "other")
    )
    assert isinstance(tried(difference, old, new), tuple) == is_free


@pytest.mark.parametrize(
    ("was", "now", "is_same"),
    [
        ("UTC", "Etc/UTC", True),
        ("Etc/UTC", "Z", True),
        ("GMT", "Etc/UTC", True),
        ("UTC", "Europe/London", False),
        ("Europe/London", "Europe/Berlin", False),
    ],
)
def test_a_time_zone_may_have_another_name(was: str, now: str, is_same: bool) -> None:
    old, new = (
        identity(operator_schema(), **{"table.local-time-zone": zone}) for zone in (was, now)
    )
    assert isinstance(tried(difference, old, new), tuple) == is_same


def joined(first: str, second: str, left: str = "l", right: str = "r") -> RowOrigin:
    """Return rows of two relations that the query names as given."""
    relations = {second: {"from": {"table": right}}, first: {"from": {"table": left}}}
    sql = f"SELECT k FROM {first} UNION ALL SELECT k FROM {second}"
    return RowOrigin({"sql": sql, "relations": relations})


def test_relations_of_a_query_have_no_names_of_their_own() -> None:
    old = joined("__sqlwin_input_2__", "__sqlwin_input_10__")
    assert old.normalized == joined("__sqlwin_input_0__", "__sqlwin_input_1__").normalized
    swapped = joined("__sqlwin_input_0__", "__sqlwin_input_1__", "r", "l")
    assert old.normalized != swapped.normalized


def test_repeated_rows_of_older_records_name_the_column_of_copies() -> None:
    new = {"node": "WindowRows", "inputs": [{"from": {"table": "t"}}]}
    assert RowOrigin({**new, "copies": "$copies"}).normalized == RowOrigin(new).normalized
