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
# Modes other than BATCH. A default run takes one of them for each file, in rotation, and there
# only the first queries.
FURTHER = (STREAM, ONE_PHASE, STREAM, RULES_OFF)
MODES = (BATCH, ALONE, ONE_PHASE, RULES_OFF, STREAM, STREAM_RULES_OFF)
SAMPLE = 6


def sampled(place: int) -> Mode:
    """Return the mode that a default run takes in addition to BATCH for the file at a place."""
    return FURTHER[place % len(FURTHER)]
