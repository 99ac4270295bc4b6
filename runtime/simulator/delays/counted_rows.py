"""Rows that the window operator of a query counts, for predictions of delays."""

from __future__ import annotations

import pyarrow as pa

from runtime.compute.kernels.conversions import int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.plan.arrow_rows import RowScan, local_rows
from runtime.plan.local import ArrowBuffer, is_local
from runtime.plan.simulated import SimulatedOperator
from runtime.refusal import refuse
from runtime.simulator.carried import scanned_rows
from runtime.simulator.delays.aligned import Arrivals, Counted, CountedRows
from runtime.simulator.delays.sessions import CountedSessions
from runtime.spec.stream import LATE_ROW, TIME


def counted_rows(operator: SimulatedOperator, arrivals: Arrivals, lateness_us: int) -> Counted:
    """Return the rows that an operator counts, by its own filters and expressions.

    Args:
        operator: Operator.
        arrivals: Rows of its table.
        lateness_us: How long after their end windows accept rows.

    Raises:
        Refused: The windows are not windows on event time over one table whose late rows can be
            predicted.
        ExecutionError: An expression fails.
    """
    local, mode = local_rows(operator.windows), operator.step.input.mode
    assert is_local(local, RowScan, ArrowBuffer), "a simulated operator reads relations"
    windows = local.window
    if not windows.closes:
        refuse("only windows that end have late rows")
    if windows.row_length is not None:
        refuse("the rows of its sessions have gaps of their own")
    if not windows.has_slices and lateness_us:
        refuse("sessions with allowed lateness are emitted again")
    if mode.sources[0].idle_advance_us is not None:
        refuse("the clock of the machine advances the watermark")
    rows = None
    if len(mode.sources) == 1:
        rows = scanned_rows(operator.windows, mode, {arrivals.table: [arrivals.all_columns]})
    if rows is None:
        refuse("its windows are not over the rows of one table")
    if windows.has_slices:
        # rows in gaps between windows are in none
        assigner = windows.assigner()
        slice_end = assigner.slice_end(int64_values(one_chunk(rows.column(TIME))))
        is_in = assigner.first_window_end(slice_end) <= assigner.last_window_end(slice_end)
        rows = rows.filter(pa.array(is_in))
    keys = local.keys if windows.has_slices else windows.partition
    codes, values = encode_keys([rows.column(name) for name in keys], len(rows))
    common = (
        arrivals,
        int64_values(one_chunk(rows.column(LATE_ROW))),
        int64_values(one_chunk(rows.column(TIME))),
        codes,
        dict(zip(keys, values, strict=True)),
        mode.time_zone if mode.sources[0].time_type == "timestamp" else "",
        lateness_us,
    )
    if not windows.has_slices:
        return CountedSessions(*common, windows.gap_us)
    return CountedRows(*common, assigner, windows.slice_text)
