"""The general window operator: triggers, evictors, lateness and merging, scripted and by a model."""

import pickle
from collections import defaultdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import AnalysisError
from runtime.streaming.general.assigners import AlignedAssigner, GlobalAssigner, SessionAssigner
from runtime.streaming.general.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from runtime.streaming.general.functions import (
    AggregateFunction,
    ReduceFunction,
    WholeWindowFunction,
)
from runtime.streaming.general.operator import GeneralWindowOperator, WindowJob
from runtime.streaming.general.triggers import (
    ContinuousTrigger,
    CountTrigger,
    DeltaTrigger,
    EarlyAndLateTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.reference import windows_of

MS = 1_000
ROWS = WholeWindowFunction(lambda key, window, rows: [list(rows)])
SUM = ReduceFunction(lambda a, b: a + b)


class Script:
    """Drives an operator; times in ms. The state is pickled between steps."""

    def __init__(self, assigner, function=ROWS, **job):
        self.job = WindowJob(assigner, function, **job)
        self.state = None

    def step(self, call):
        operator = GeneralWindowOperator(self.job, self.state)
        result = [
            (item.key, item.window.start_us // MS, item.window.end_us // MS, item.result)
            for item in call(operator)
        ]
        self.state = pickle.loads(pickle.dumps(operator.state))
        return result

    def row(self, value, time, key="a"):
        return self.step(lambda operator: operator.on_row(key, value, time * MS))

    def watermark(self, time):
        return self.step(lambda operator: operator.on_watermark(time * MS))

    def clock(self, time):
        return self.step(lambda operator: operator.on_processing_time(time * MS))

    def end(self):
        return self.step(lambda operator: operator.on_end())

    def is_empty(self):
        state = self.state
        parts = (state.contents, state.memories, state.merging, state.event_timers.standing)
        return not any(parts) and not state.clock_timers.standing


def tumble(size=10):
    return AlignedAssigner(Tumble(size * MS))


def test_a_window_fires_at_its_last_millisecond_and_is_forgotten():
    script = Script(tumble())
    assert script.row(1, 3) == script.row(2, 9) == script.watermark(8) == []
    assert script.watermark(9) == [("a", 0, 10, [1, 2])]
    assert script.is_empty()


def test_a_late_row_is_dropped_counted_and_handed_over():
    script = Script(tumble())
    script.watermark(12)
    assert script.row(1, 3) == []
    assert script.state.n_late == 1


def test_each_late_row_within_the_allowed_lateness_fires_again():
    script = Script(tumble(), SUM, allowed_lateness_us=5 * MS)
    script.row(1, 3)
    assert script.watermark(9) == [("a", 0, 10, 1)]
    assert script.row(10, 4) == [("a", 0, 10, 11)]
    assert script.watermark(13) == []
    assert script.row(100, 5) == [("a", 0, 10, 111)]
    assert script.watermark(14) == []
    assert script.is_empty()
    assert script.row(1000, 6) == []
    assert script.state.n_late == 1


def test_a_row_is_late_only_if_all_its_windows_are_closed():
    script = Script(AlignedAssigner(Hop(5 * MS, 10 * MS)))
    script.watermark(9)
    assert script.row(1, 7) == []
    assert script.watermark(14) == [("a", 5, 15, [1])]
    assert script.state.n_late == 0


def test_sessions_merge_with_contents_timers_and_trigger():
    script = Script(SessionAssigner(10 * MS), SUM)
    script.row(1, 0)
    script.row(10, 18)
    assert script.row(100, 9) == []
    assert script.watermark(26) == []
    assert script.watermark(27) == [("a", 0, 28, 111)]
    assert script.is_empty()


def test_sessions_that_touch_merge_and_others_do_not():
    script = Script(SessionAssigner(10 * MS))
    for value, time in enumerate([0, 10, 21]):
        script.row(value, time)
    assert script.end() == [("a", 0, 20, [0, 1]), ("a", 21, 31, [2])]


def test_a_late_row_that_merges_with_an_open_session_is_accepted():
    script = Script(SessionAssigner(10 * MS))
    script.row(1, 20)
    script.watermark(25)
    assert script.row(2, 12) == []
    assert script.row(3, 2) == []  # touches the session that the previous row opened
    assert script.row(4, -9, key="b") == []
    assert script.state.n_late == 1
    assert script.end() == [("a", 2, 30, [1, 2, 3])]
    assert script.is_empty()


def test_the_gap_of_a_session_may_depend_on_the_row():
    script = Script(SessionAssigner(lambda value: value * MS))
    script.row(3, 0)
    script.row(30, 5)
    script.row(1, 30)
    assert script.end() == [("a", 0, 3, [3]), ("a", 5, 35, [30, 1])]
    with pytest.raises(AnalysisError, match="the session gap is 0"):
        script.row(0, 50)


def test_a_count_trigger_fires_with_every_nth_row_and_keeps_the_rows():
    script = Script(GlobalAssigner(), SUM, trigger=CountTrigger(2))
    results = [[result[3] for result in script.row(n, n)] for n in range(1, 6)]
    assert results == [[], [3], [], [10], []]
    assert script.end() == []


def test_a_purging_trigger_starts_over():
    script = Script(GlobalAssigner(), SUM, trigger=PurgingTrigger(CountTrigger(2)))
    results = [[result[3] for result in script.row(n, n)] for n in range(1, 6)]
    assert results == [[], [3], [], [7], []]


def test_counts_of_sessions_add_up_when_they_merge():
    script = Script(SessionAssigner(10 * MS), trigger=CountTrigger(3))
    script.row(1, 0)
    script.row(2, 15)
    assert script.row(3, 8) == [("a", 0, 25, [1, 2, 3])]


def test_a_delta_trigger_fires_when_a_value_has_moved_far_enough():
    far = DeltaTrigger(5, lambda last, value: abs(value - last))
    script = Script(GlobalAssigner(), trigger=PurgingTrigger(far))
    fired = [bool(script.row(value, 0)) for value in (1, 4, 7, 8, 12, 13)]
    assert fired == [False, False, True, False, False, True]


def test_a_continuous_trigger_fires_at_every_interval_of_the_watermark():
    script = Script(tumble(100), SUM, trigger=ContinuousTrigger(30 * MS))
    script.row(1, 5)
    assert script.watermark(29) == []
    assert script.watermark(30) == [("a", 0, 100, 1)]
    script.row(10, 31)
    assert script.watermark(95) == [("a", 0, 100, 11)] * 2
    assert script.watermark(99) == [("a", 0, 100, 11)]
    assert script.is_empty()


def test_a_continuous_trigger_may_be_on_processing_time():
    script = Script(tumble(100), SUM, trigger=ContinuousTrigger(30 * MS, processing_time=True))
    script.clock(1000)
    script.row(1, 5)
    assert script.clock(1019) == []
    assert script.clock(1020) == [("a", 0, 100, 1)]


def test_early_results_then_the_result_then_late_ones():
    trigger = EarlyAndLateTrigger(early=CountTrigger(2), late=CountTrigger(2))
    script = Script(tumble(), SUM, trigger=trigger, allowed_lateness_us=50 * MS)
    assert [script.row(n, n) for n in (1, 2, 3)] == [[], [("a", 0, 10, 3)], []]
    assert script.watermark(9) == [("a", 0, 10, 6)]
    assert [script.row(n, n) for n in (4, 5)] == [[], [("a", 0, 10, 15)]]
    script.watermark(59)
    assert script.is_empty()


def test_windows_on_processing_time_fire_by_the_clock_and_at_the_end():
    script = Script(tumble(), is_processing_time=True)
    script.row(1, 3)
    assert script.watermark(1000) == []
    assert script.clock(9) == [("a", 0, 10, [1])]
    script.row(2, 12)
    assert script.end() == [("a", 10, 20, [2])]
    assert script.is_empty()


@pytest.mark.parametrize(
    ("evictor", "first", "second"),
    [
        (CountEvictor(2), [2, 9], [9, 4]),
        (CountEvictor(2, after=True), [1, 2, 9], [2, 9, 4]),
        (TimeEvictor(3 * MS), [2, 9], [9, 4]),
        (DeltaEvictor(5, lambda row, last: abs(last - row)), [9], [4]),
    ],
    ids=["count", "count after", "time", "delta"],
)
def test_an_evictor_drops_rows_for_good(evictor, first, second):
    script = Script(tumble(), evictor=evictor, trigger=CountTrigger(1))
    script.row(1, 0)
    script = Script(tumble(), evictor=evictor, allowed_lateness_us=100 * MS)
    for value, time in [(1, 0), (2, 3), (9, 5)]:
        script.row(value, time)
    assert script.watermark(9) == [("a", 0, 10, first)]
    assert script.row(4, 6) == [("a", 0, 10, second)]


def test_an_evictor_feeds_reduced_windows_too():
    script = Script(tumble(), SUM, evictor=CountEvictor(2))
    for value in (1, 2, 3):
        script.row(value, value)
    assert script.watermark(9) == [("a", 0, 10, 5)]


def test_an_aggregate_with_a_process_function_sees_key_and_window():
    mean = AggregateFunction(
        lambda: (0, 0),
        lambda acc, value: (acc[0] + value, acc[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda acc: acc[0] / acc[1],
        lambda key, window, value: [(key, window.end_us // MS, value)],
    )
    script = Script(SessionAssigner(10 * MS), mean)
    script.row(1, 0)
    script.row(5, 12)
    script.row(3, 6)
    assert [result[3] for result in script.end()] == [("a", 22, 3.0)]


def test_calendar_windows_are_assigned_too():
    script = Script(AlignedAssigner(CalendarTumble(1)))
    script.row(1, 40 * 86_400_000)
    (result,) = script.end()
    assert result[1:3] == (31 * 86_400_000, 59 * 86_400_000)


def test_triggers_that_cannot_merge_say_so():
    script = Script(SessionAssigner(10 * MS), trigger=DeltaTrigger(1, lambda a, b: b - a))
    script.row(1, 0)
    with pytest.raises(AnalysisError, match="DeltaTrigger is not supported for sessions"):
        script.row(1, 5)


def test_lateness_of_windows_on_processing_time_is_an_error():
    with pytest.raises(AnalysisError, match="have no late rows"):
        Script(tumble(), is_processing_time=True, allowed_lateness_us=1)


class Model:
    """Rules of the event-time trigger: a window's rows, when it fires, which rows are late."""

    def __init__(self, windows_of, lateness, merges):
        self.windows_of, self.lateness, self.merges = windows_of, lateness, merges
        self.open = defaultdict(list)
        self.watermark_ms = -(10**12)
        self.n_late = 0

    def row(self, key, value, time):
        result, is_skipped = [], True
        for start, end in self.windows_of(time):
            if self.merges:
                start, end = self.merge(key, start, end)
            if end - 1 + self.lateness <= self.watermark_ms:
                self.open.pop((key, start, end), None)
                continue
            is_skipped = False
            self.open[key, start, end].append(value)
            if end - 1 <= self.watermark_ms:
                result.append((key, start, end, sorted(self.open[key, start, end])))
        if is_skipped and time + self.lateness <= self.watermark_ms:
            self.n_late += 1
        return result

    def merge(self, key, start, end):
        values = []
        for other in [w for w in self.open if w[0] == key and w[1] <= end and start <= w[2]]:
            values += self.open.pop(other)
            start, end = min(start, other[1]), max(end, other[2])
        self.open[key, start, end] = values
        return start, end

    def watermark(self, time):
        before, self.watermark_ms = self.watermark_ms, max(time, self.watermark_ms)
        result = [
            (*window, sorted(values))
            for window, values in self.open.items()
            if before < window[2] - 1 <= self.watermark_ms
        ]
        for window in list(self.open):
            if window[2] - 1 + self.lateness <= self.watermark_ms:
                del self.open[window]
        return result


KINDS = [
    *(
        (AlignedAssigner(window), partial(windows_of, window, unit_us=MS))
        for window in (
            Tumble(10 * MS),
            Hop(4 * MS, 10 * MS),
            Hop(10 * MS, 4 * MS),
            Cumulate(5 * MS, 15 * MS),
        )
    ),
    (SessionAssigner(6 * MS), lambda time: [(time, time + 6)]),
]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.sampled_from("ab"), st.integers(-20, 60)),
        st.tuples(st.just("watermark"), st.integers(-30, 70)),
    ),
    max_size=40,
)


@pytest.mark.long
@given(st.sampled_from(KINDS), steps, st.sampled_from([0, 5, 30]))
def test_the_operator_equals_the_model(kind, script, lateness):
    assigner, windows_of = kind
    job = WindowJob(assigner, ROWS, EventTimeTrigger(), allowed_lateness_us=lateness * MS)
    operator = GeneralWindowOperator(job)
    model = Model(windows_of, lateness, assigner.merges)
    for n, (what, *arguments) in enumerate([*script, ("watermark", 10**6)]):
        if what == "row":
            key, time = arguments
            result = operator.on_row(key, n, time * MS)
            expected = model.row(key, n, time)
        else:
            result = operator.on_watermark(arguments[0] * MS)
            expected = model.watermark(arguments[0])
        plain = [
            (item.key, item.window.start_us // MS, item.window.end_us // MS, sorted(item.result))
            for item in result
        ]
        assert sorted(plain) == sorted(expected)
        assert operator.state.n_late == model.n_late
    assert not operator.state.contents
    assert not operator.state.memories
    assert not operator.state.merging
