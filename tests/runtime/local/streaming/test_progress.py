"""What a task says of its sources, and what operators that are joined make of it."""

import pyarrow as pa

from runtime.local.streaming.messages import SourceProgress
from runtime.local.streaming.progress import TaskProgress
from runtime.spec.stream import KEEP, SOURCE, WATERMARK
from runtime.streaming.watermarks import WatermarkRules, Watermarks, advance, watermarks_of
from tests.runtime.streaming.model import decoded

S = 1_000_000
RULES = WatermarkRules(idle_timeout_us=30 * S)


def seen(rows: list[tuple[bool, int, int | None]]) -> list[SourceProgress]:
    """What a task of two sources says of rows (whether it counts, source, watermark)."""
    kept, sources, marks = zip(*rows, strict=True)
    progress = TaskProgress(2, [0])
    progress.observe(
        pa.RecordBatch.from_pydict(
            {
                KEEP: pa.array(kept, pa.bool_()),
                SOURCE: pa.array(sources, pa.int32()),
                WATERMARK: pa.array(marks, pa.int64()),
            }
        )
    )
    return [m for _, m in decoded([progress.control()]) if isinstance(m, SourceProgress)]


def test_a_source_that_sends_only_null_times_moves_joined_operators_together() -> None:
    """The windows of the one are over source 0, those of the other over source 1."""
    both: list[list[Watermarks]] = []
    for own in (0, 1):
        marks = watermarks_of({}, 2, "")
        both.append([])
        for at in range(0, 100, 10):
            # of the other source a mark comes with each row that has a time
            rows = [(own == 1, 1, at * S)] + ([(True, 0, None)] if own == 0 else [])
            if at == 0:
                rows.append((own == 0, 0, 0))
            marks = advance(marks, seen(rows), RULES, at * S)
            both[-1].append(marks)
    assert both[0] == both[1]
    # from 30 s on the silent source does not hold the other one back
    assert [each.combined_us for each in both[0]] == [0, 0, 0, *(n * 10 * S for n in range(3, 10))]
