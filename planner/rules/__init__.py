"""The rules and their order.

Examples in their docstrings call `before_after` of `tests/planner/test_docstrings.py`. It plans
queries over the tables `trips` (files) and `rides` (a stream) and prints the plans before and
after the rule.
"""

from __future__ import annotations

from planner.optimizer import Stage
from planner.rules.all_time.rank_rows_of_stream import rank_rows_of_stream
from planner.rules.answer_from_slices import answer_from_slices
from planner.rules.changes.subtract_changes import subtract_changes
from planner.rules.convert_join_to_rank import convert_join_to_rank
from planner.rules.convert_rank_to_deduplicate import convert_rank_to_deduplicate
from planner.rules.expand_after_local_aggregate import expand_after_local_aggregate
from planner.rules.fill_gaps_of_stream import fill_gaps_of_stream
from planner.rules.fold_window_into_aggregate import fold_window_into_aggregate
from planner.rules.join_versions_of_stream import join_versions_of_stream
from planner.rules.keep_session_rows import keep_session_rows
from planner.rules.keep_window_rows import keep_window_rows
from planner.rules.narrow_slices import narrow_slices
from planner.rules.narrow_window_rows import narrow_window_rows
from planner.rules.prune_aggregate_input import prune_aggregate_input
from planner.rules.pull_window_filter_above_aggregate import pull_window_filter_above_aggregate
from planner.rules.push_filter_below_window import push_filter_below_window
from planner.rules.push_local_aggregate_into_scan import push_local_aggregate_into_scan
from planner.rules.push_rank_into_local_aggregate import push_rank_into_local_aggregate
from planner.rules.share_window_slices import share_window_slices
from planner.rules.split_window_aggregate import split_window_aggregate

LOGICAL_STAGES = (
    Stage("filters", (push_filter_below_window, pull_window_filter_above_aggregate)),
    Stage("windows", (fold_window_into_aggregate,)),
    Stage("changes", (subtract_changes,)),
    Stage("ranks", (convert_rank_to_deduplicate,)),
    Stage("joins", (convert_join_to_rank,)),
    Stage("row columns", (narrow_window_rows,)),
    Stage("rows", (keep_window_rows,)),
    Stage("rows of sessions", (keep_session_rows,)),
    Stage("columns", (prune_aggregate_input,)),
)

PHYSICAL_STAGES = (
    Stage("phases", (split_window_aggregate,)),
    Stage("gaps", (fill_gaps_of_stream,)),
    Stage("versions", (join_versions_of_stream,)),
)

# Between these stages, `share_window_slices` processes whole plans
SHARING_RULE = share_window_slices

SCAN_STAGES = (
    Stage("slices", (answer_from_slices,)),
    Stage("scans", (push_local_aggregate_into_scan,)),
    Stage("groupings", (expand_after_local_aggregate,)),
    # From here on there are local aggregates below grouping sets.
    Stage("slices of groupings", (answer_from_slices,)),
    Stage("slices of windows", (narrow_slices,)),
    Stage("ranks of rows", (push_rank_into_local_aggregate, rank_rows_of_stream)),
)

# Rules that only apply to streams
STREAM_RULE_NAMES = frozenset(
    rule.__name__
    for rule in (
        convert_join_to_rank,
        narrow_window_rows,
        keep_window_rows,
        keep_session_rows,
        subtract_changes,
        push_rank_into_local_aggregate,
        rank_rows_of_stream,
        fill_gaps_of_stream,
        join_versions_of_stream,
    )
)

# Rules that only apply if there are materialized tables
SLICES_RULE_NAMES = frozenset((answer_from_slices.__name__, narrow_slices.__name__))

# Rules that only apply to windows over changes
CHANGES_RULE_NAMES = frozenset((subtract_changes.__name__,))

RULE_NAMES = tuple(
    dict.fromkeys(
        (
            *(r.__name__ for stage in (*LOGICAL_STAGES, *PHYSICAL_STAGES) for r in stage.rules),
            SHARING_RULE.__name__,
            *(rule.__name__ for stage in SCAN_STAGES for rule in stage.rules),
        )
    )
)
