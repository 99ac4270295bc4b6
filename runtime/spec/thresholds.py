"""Thresholds: sizes at which operators change their way of storing and computing.

Results do not depend on them, only memory and time do. They are one object, so tests can pass small
values and reach both sides of a threshold with a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the state of window operators.

    Attributes:
        merge_size_ratio: Runs or chunks with more than this many times the rows of all smaller ones
            are not merged with them.
        slices_max_small_chunks: Number of small chunks in a slab from which they are merged.
        slices_small_chunk_bytes: Maximum size of a small chunk.
        slices_slab_rows: If slices are read one by one, a slab with this many rows takes no further
            slices.
        slices_merge_rows: A slab is merged as a whole when it exceeds twice its rows after the last
            merge, plus this.
        spans_min_rows: Minimum partials in state for spans. Merging fewer costs less than storing
            spans.
        spans_min_slices_per_key: Slices per key from which spans are stored. Below half of that,
            they are dropped.
        spans_max_patches: Maximum number of patches. With more, they are merged into the spans.
            Also the maximum number of fired windows whose spans are kept.
        running_min_blocks: Minimum number of blocks per HOP window. With more blocks there are
            fewer suffixes to store, but the middle is recomputed from more partials.
        running_max_middle_rows: Maximum number of partials from which the middle is recomputed.
        running_max_list_suffixes: Maximum number of suffixes of a block of lists.
        running_min_stride_windows: Blocks with at least this many windows have a suffix for every
            second window: a window in between reads one more slice, and half as much is written.
        sessions_max_runs: Number of runs of chunks from which some are merged before the next is
            written.
        sessions_n_marks: Number of marks of partitions, a power of two. Few enough for one array
            over all marks.
        results_part_rows: A part of emitted results ends with the first window after which it has
            at least this many.
        results_max_runs: Maximum number of runs of emitted results.
        changed_keys_max_rows: Maximum number of changed keys in state. With more, windows are
            computed for all keys.
        changed_keys_max_tables: Maximum number of tables of changed keys.
    """

    merge_size_ratio: int = 4
    slices_max_small_chunks: int = 8
    slices_small_chunk_bytes: int = 1 << 19
    slices_slab_rows: int = 1 << 12
    slices_merge_rows: int = 1 << 13
    spans_min_rows: int = 1 << 14
    spans_min_slices_per_key: int = 6
    spans_max_patches: int = 32
    running_min_blocks: int = 4
    running_max_middle_rows: int = 1 << 16
    running_max_list_suffixes: int = 4
    running_min_stride_windows: int = 4
    sessions_max_runs: int = 16
    sessions_n_marks: int = 1 << 22
    results_part_rows: int = 1 << 12
    results_max_runs: int = 8
    changed_keys_max_rows: int = 1 << 16
    changed_keys_max_tables: int = 8
