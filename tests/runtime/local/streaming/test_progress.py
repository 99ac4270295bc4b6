"""Source progress that tasks report, and the watermarks that joined operators derive from it."""

import json
import random

import pyarrow as pa

from runtime.local.streaming.messages import EndOfInput, Progress, SourceProgress
from runtime.local.streaming.progress import TaskProgress
from runtime.records import from_json, to_json
from runtime.spec.stream import KEEP, SOURCE, SPLIT, WATERMARK
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    advance,
    combine_progress,
    no_watermarks,
    with_new_clocks,
)
from tests.runtime.streaming.model import decode_messages

S = 1_000_000
RULES = WatermarkRules(idle_timeout_us=30 * S)


def stored_watermarks(marks: Watermarks) -> Watermarks:
    """Return the watermarks as the next micro-batch reads them from state."""
    return from_json(Watermarks, json.loads(json.dumps(to_json(marks))))


def task_progress(rows: list[tuple[bool, int, int | None]]) -> list[SourceProgress]:
    """Return a task's progress in two sources for rows (whether it counts, source, watermark)."""
    counts, sources, marks = zip(*rows, strict=True)
    progress = TaskProgress(2, [0], [0])
    progress.observe(
        pa.RecordBatch.from_pydict(
            {
                KEEP: pa.array(counts, pa.bool_()),
                SOURCE: pa.array(sources, pa.int32()),
                WATERMARK: pa.array(marks, pa.int64()),
            }
        )
    )
    return [
        m
        for _, m in decode_messages([progress.control(wakes=True)])
        if isinstance(m, SourceProgress)
    ]


def test_a_source_that_sends_only_null_times_moves_joined_operators_together() -> None:
    """One operator has windows over source 0, the other over source 1."""
    histories: list[list[Watermarks]] = []
    for source in (0, 1):
        marks = no_watermarks(2)
        histories.append([])
        for at in range(0, 100, 10):
            # the other source sends a watermark with each row that has a time
            rows = [(source == 1, 1, at * S)] + ([(True, 0, None)] if source == 0 else [])
            if at == 0:
                rows.append((source == 0, 0, 0))
            marks = advance(marks, task_progress(rows), RULES, at * S)
            histories[-1].append(marks)
    assert histories[0] == histories[1]
    # after 30 s, the silent source no longer holds back the other one
    assert [item.combined_us for item in histories[0]] == [
        0,
        0,
        0,
        *(n * 10 * S for n in range(3, 10)),
    ]


def test_a_held_watermark_advances_with_the_next_micro_batch() -> None:
    marks = advance(no_watermarks(1), [SourceProgress(0, 10, 5, 2)], WatermarkRules(), None)
    held = advance(marks, [SourceProgress(0, 90, 9, 2)], WatermarkRules(), None, is_held=True)
    held = advance(held, [SourceProgress(0, 50, 50, 1)], WatermarkRules(), None, is_held=True)
    assert (marks.combined_us, held.combined_us) == (10, 10)
    remembered = stored_watermarks(held)
    assert advance(remembered, [], WatermarkRules(), None).combined_us == 90
    assert advance(remembered, [EndOfInput()], WatermarkRules(), None).sources[0].held_us is None


def test_the_watermark_of_a_source_is_the_lowest_of_its_splits() -> None:
    # source 1, splits 0 and 7
    zero, seven = 1 + SPLIT, 1 + 8 * SPLIT
    progress = task_progress(
        [(True, zero, 100 * S), (True, seven, 40 * S), (True, zero, 90 * S), (True, 0, 200 * S)]
    )
    assert SourceProgress(1, 100 * S, 90 * S, 2, 0) in progress
    assert SourceProgress(1, 40 * S, 40 * S, 1, 7) in progress
    marks = advance(no_watermarks(2), progress, RULES, 0)
    assert [source.watermark_us for source in marks.sources] == [200 * S, 40 * S]
    assert marks.combined_us == 40 * S
    # a split that is ahead changes nothing, and its watermark is remembered
    marks = advance(marks, task_progress([(True, zero, 300 * S)]), RULES, 10 * S)
    assert marks.combined_us == 40 * S
    marks = stored_watermarks(marks)
    assert (
        advance(marks, task_progress([(True, seven, 60 * S)]), RULES, 20 * S).combined_us == 60 * S
    )
    # the source has rows, but that split has been silent for long
    later = advance(
        marks, task_progress([(True, zero, 310 * S), (True, 0, 500 * S)]), RULES, 30 * S
    )
    assert later.combined_us == 310 * S
    # its rows are behind, but the watermark does not fall
    again = advance(later, task_progress([(True, seven, 70 * S)]), RULES, 31 * S)
    assert again.combined_us == 310 * S
    # a new run restarts its idle time
    assert advance(with_new_clocks(marks), [], RULES, 99 * S).combined_us == 40 * S
    # splits that are no longer tracked do not hold it back
    alone = advance(marks, task_progress([(True, 1, 320 * S), (True, 0, 500 * S)]), RULES, 12 * S)
    assert alone.combined_us == 320 * S and alone.sources[1].splits == ()


def any_progress(rng: random.Random) -> list[Progress]:
    """Return random progress of tasks in two sources and their splits."""
    result: list[Progress] = []
    for _ in range(rng.randrange(12)):
        low = rng.randrange(200) * S
        high = low + rng.randrange(50) * S
        bounds = (high, low) if rng.random() < 0.8 else (None, None)
        split = rng.choice([None, 0, 1, 2])
        n_rows = rng.randrange(4)
        result.append(
            SourceProgress(rng.randrange(2), *bounds, n_rows, split if bounds[0] else None)
        )
    if rng.random() < 0.02:
        result.append(EndOfInput())
    return result


def test_watermarks_are_the_same_from_one_task_and_from_several() -> None:
    rng = random.Random(4)
    for rules in (RULES, WatermarkRules("max", 30 * S), WatermarkRules(max_jump_us=20 * S)):
        one = other = no_watermarks(2)
        for number in range(300):
            seen_by_tasks = any_progress(rng)
            is_held = rng.random() < 0.2
            one = advance(one, seen_by_tasks, rules, number * 5 * S, is_held=is_held)
            least = combine_progress(seen_by_tasks)
            other = advance(other, least, rules, number * 5 * S, is_held=is_held)
            assert one == other
            assert len(least) <= 2 * 4 + 1
