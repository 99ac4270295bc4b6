"""EXPLAIN ANALYZE as text: a line per operator, then reductions, then stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.explain.document import (
    Analysis,
    MicroBatches,
    QueryDocument,
    SourceEntry,
    StreamAnalysis,
    Tree,
    WindowOperatorEntry,
)
from runtime.spec.figures import count_text, seconds_text, size_text, wall_clock_text

_HEADS = ("operator", "rows in", "rows out", "bytes out", "task time", "peak memory")
_STAGE_HEADS = ("stage", "tasks", "task time", "median", "slowest", "skew", "operators")


def analysis_text(query: QueryDocument) -> str:
    """Return the section that EXPLAIN ANALYZE adds, or "" if the query was not run."""
    analysis = query.analysis
    if analysis is None or query.trees is None:
        return ""
    tree = analysis.tree or query.trees.physical
    rows = analysis.rows_out
    ended = f", {count_text(rows, 'rows')}" if rows is not None else ""
    if analysis.stream is None:
        place = "in process: " if analysis.tree is not None else ""
        begin = f"{place}finished in {seconds_text(analysis.seconds)}{ended}"
    else:
        begin = _stream_ended(analysis, analysis.stream)
    lines = ["== Execution ==", begin, ""]
    heads: tuple[str, ...] = _HEADS
    operators = _operators(tree, analysis)
    if analysis.tree is not None:
        # one process runs all operators, without tasks
        heads, operators = (*_HEADS[:4], "time"), [row[:5] for row in operators]
    lines += _table(heads, operators, n_left=1)
    reductions = list(_reductions(tree, analysis))
    if reductions:
        lines += ["", *reductions]
    if analysis.stream is not None:
        lines.append("")
        for operator in analysis.stream.window_operators:
            lines += _window_operator(operator)
        lines += _micro_batches(analysis.stream.micro_batches, analysis.seconds)
    if analysis.stages:
        lines += ["", *_table(_STAGE_HEADS, _stages(tree, analysis), n_left=0, last_left=True)]
    if analysis.spark_ui is not None:
        lines += ["", f"Spark UI: {analysis.spark_ui}/SQL/"]
    return "\n".join(lines) + "\n"


def _operators(tree: Tree, analysis: Analysis) -> list[list[str]]:
    operators = tree.by_id
    rows: list[list[str]] = []

    def add(name: str, head: str, margin: str) -> None:
        figures = analysis.operators[name]
        rows.append(
            [
                head + operators[name].name,
                _number(figures.rows_in),
                _number(figures.rows_out),
                "" if figures.bytes_out is None else size_text(figures.bytes_out),
                "" if figures.seconds is None else seconds_text(figures.seconds),
                size_text(figures.peak_memory_bytes) if figures.peak_memory_bytes else "",
            ]
        )
        inputs = operators[name].inputs
        for source in inputs:
            last = source == inputs[-1]
            add(source, margin + ("+- " if last else ":- "), margin + ("   " if last else ":  "))

    add(tree.root, "", "")
    return rows


_DROPPED = {"rows_without_time": "without a time skipped", "rows_filtered_out": "filtered out"}


def _reductions(tree: Tree, analysis: Analysis) -> list[str]:
    """Return how far rows were reduced, and the rows that are in no window."""
    reductions = []
    for entry in tree.operators:
        figures = analysis.operators[entry.id]
        n_rows, rows_out = figures.rows_aggregated, figures.rows_out
        if figures.reduction is not None and n_rows is not None and rows_out is not None:
            reductions.append(
                f"{entry.name}: {count_text(n_rows, 'rows')} aggregated into "
                f"{count_text(rows_out, 'partials')}, {figures.reduction:,.1f} rows per partial"
            )
        for counter, fate in _DROPPED.items():
            if dropped := figures.counters.get(counter):
                reductions.append(f"{entry.name}: {count_text(dropped, 'rows')} {fate}")
    return reductions


def _stages(tree: Tree, analysis: Analysis) -> list[list[str]]:
    names = {entry.id: entry.name for entry in tree.operators}
    return [
        [
            str(stage.id),
            f"{stage.tasks:,}",
            seconds_text(stage.seconds),
            seconds_text(stage.median_seconds),
            seconds_text(stage.slowest_seconds),
            "" if stage.skew is None else f"{stage.skew:.1f}x",
            ", ".join(dict.fromkeys(names[name] for name in stage.operators)),
        ]
        for stage in analysis.stages
    ]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _table(
    heads: Sequence[str], rows: list[list[str]], *, n_left: int, last_left: bool = False
) -> list[str]:
    """Align columns: the first `n_left` and optionally the last left, the others right."""
    widths = [max(len(row[i]) for row in [list(heads), *rows]) for i in range(len(heads))]
    lines = []
    for row in [list(heads), *rows]:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            is_text = i < n_left or (last_left and i == len(heads) - 1)
            cells.append(cell.ljust(width) if is_text else cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    return lines


# -- streams -------------------------------------------------------------------------------------

_ENDS = {
    "input": "ran to the end of its input",
    "time": "ran for sqlwin.analyze.duration",
    "interrupt": "ran until interrupted",
}


def _stream_ended(analysis: Analysis, stream: StreamAnalysis) -> str:
    """Return why the run ended and how much it processed."""
    parts = [
        f"{_ENDS[stream.ended]}: {seconds_text(analysis.seconds)}",
        _batches(stream.micro_batches.count),
        f"{count_text(stream.rows_in, 'rows')} in",
    ]
    if analysis.rows_out is not None:
        parts.append(f"{count_text(analysis.rows_out, 'rows')} out")
    return ", ".join(parts)


def _batches(number: int) -> str:
    return "1 micro-batch" if number == 1 else f"{number:,} micro-batches"


def _window_operator(operator: WindowOperatorEntry) -> Iterator[str]:
    yield f"StreamWindowOperator(number=[{operator.number}]):"
    several = ""
    if len(operator.sources) > 1:
        watermarks = [
            f"{s.name} {_watermark(s)}{' (idle)' if s.is_idle else ''}" for s in operator.sources
        ]
        several = f"; {', '.join(watermarks)}"
    yield f"  watermark: {_watermark(operator)}{several}"
    most = f"{count_text(operator.most_state_rows, 'partials')}, "
    most += size_text(operator.most_state_bytes)
    last = f"{count_text(operator.state_rows, 'partials')}, {size_text(operator.state_bytes)}"
    yield f"  state: at most {most}; at the end {last}"
    yield f"  late: {count_text(operator.late_rows, 'rows')} dropped"
    if operator.rows_without_time:
        yield f"  without a time: {count_text(operator.rows_without_time, 'rows')} dropped"
    if operator.next_window_end_us is not None:
        yield f"  next window ends at {wall_clock_text(operator.next_window_end_us)}"


def _micro_batches(batches: MicroBatches, seconds: float) -> Iterator[str]:
    if batches.median_seconds is None or batches.slowest_seconds is None:
        yield "no micro-batch finished"
        return
    busy = f"busy for {seconds_text(batches.seconds)} of {seconds_text(seconds)}"
    yield (
        f"micro-batches: {busy}; median {seconds_text(batches.median_seconds)}, "
        f"slowest {seconds_text(batches.slowest_seconds)}"
    )
    phases = sorted(batches.phases.items(), key=lambda phase: -phase[1])
    yield f"  {', '.join(f'{name} {seconds_text(spent)}' for name, spent in phases)}"
    if batches.state_commit_seconds:
        commit = seconds_text(batches.state_commit_seconds)
        yield f"  of computing, writing the state took {commit} of task time"


def _watermark(of: WindowOperatorEntry | SourceEntry) -> str:
    return "end of input" if of.is_at_end_of_input else wall_clock_text(of.watermark_us)
