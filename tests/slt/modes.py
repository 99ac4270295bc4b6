"""The ways in which every query of a file runs, and the sample of them in a default run."""

from __future__ import annotations

from dataclasses import dataclass

from planner.rules import RULE_NAMES, SLICES_RULE_NAMES, STREAM_RULE_NAMES

BATCH_RULES = tuple(
    rule for rule in RULE_NAMES if rule not in STREAM_RULE_NAMES | SLICES_RULE_NAMES
)
STREAM_RULES = tuple(rule for rule in RULE_NAMES if rule in STREAM_RULE_NAMES)


@dataclass(frozen=True)
class Mode:
    """One way to run the queries of a file.

    Attributes:
        name: The name in the test's id.
        is_stream: Whether tables are read as streams.
        settings: Settings, without quotes.
        rules: Each of these rules is switched off in turn, for the queries to which it applies.
            Empty: nothing is switched off.
    """

    name: str
    is_stream: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    rules: tuple[str, ...] = ()


BATCH = Mode("batch")
ALONE = Mode("alone")
ONE_PHASE = Mode("one-phase", settings=(("table.optimizer.agg-phase-strategy", "ONE_PHASE"),))
RULES_OFF = Mode("rules-off", rules=BATCH_RULES)
STREAM = Mode("stream", is_stream=True)
STREAM_RULES_OFF = Mode("stream-rules-off", is_stream=True, rules=STREAM_RULES)
MODES = (BATCH, ALONE, ONE_PHASE, RULES_OFF, STREAM, STREAM_RULES_OFF)
# Most queries of a file that a default run takes in another mode than BATCH
SAMPLE = 6
# Those files and modes
SAMPLED = (
    ("aggregates/distinct_and_filter.slt", ONE_PHASE),
    ("aggregates/first_last.slt", STREAM),
    ("aggregates/together.slt", STREAM),
    ("clauses/where.slt", RULES_OFF),
    ("joins/outer.slt", STREAM),
    ("ranks/qualify.slt", RULES_OFF),
    ("ranks/top_n.slt", STREAM),
    ("windows/cumulate.slt", ONE_PHASE),
    ("windows/hop.slt", STREAM),
    ("windows/session.slt", STREAM),
)
# Files that only a long run takes: nearly 200 queries, and streams
LONG = (
    "late/late_rows.slt",
    "late/sessions.slt",
    "late/several_sources.slt",
    "late/side_output.slt",
    "late/updates.slt",
    "windows/shapes.slt",
)
