"""The modes in which the queries of a file run, and which of them a test runs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.rules import RULE_NAMES, SLICES_RULE_NAMES, STREAM_RULE_NAMES

Settings = tuple[tuple[str, str], ...]

STREAMING = ("execution.runtime-mode", "streaming")
DISABLED = "sqlwin.optimizer.disabled-rules"
BATCH_RULES = tuple(
    rule for rule in RULE_NAMES if rule not in STREAM_RULE_NAMES | SLICES_RULE_NAMES
)
STREAM_RULES = tuple(rule for rule in RULE_NAMES if rule in STREAM_RULE_NAMES)


@dataclass(frozen=True)
class Mode:
    """One way to run a query.

    Attributes:
        name: Its name in README.md and in ids of tests.
        settings: Settings, without quotes.
        rules: Rules that are switched off one after another, each for the queries whose plan it
            changes. Empty: all rules are on.
        group_size: Maximum number of queries in one UNION ALL.
        is_in_process: Whether Spark must not start.
    """

    name: str
    settings: Settings = ()
    rules: tuple[str, ...] = ()
    group_size: int = 10
    is_in_process: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether tables are read as streams."""
        return STREAMING in self.settings


BATCH = Mode("batch")
IN_PROCESS = Mode("in-process", group_size=1, is_in_process=True)
ALONE = Mode("alone", group_size=1)
ONE_PHASE = Mode("one-phase", (("table.optimizer.agg-phase-strategy", "ONE_PHASE"),))
RULES_OFF = Mode("rules-off", rules=BATCH_RULES)
STREAM = Mode("stream", (STREAMING,), group_size=6)
STREAM_RULES_OFF = Mode("stream-rules-off", (STREAMING,), STREAM_RULES, group_size=6)
# Modes of Spark other than BATCH
FURTHER = (ALONE, ONE_PHASE, RULES_OFF, STREAM, STREAM_RULES_OFF)


@dataclass(frozen=True)
class Selection:
    """The queries of a file that a test runs, and their modes.

    A query does not run the same program twice: see "Programs" in README.md.

    Attributes:
        name: Its name in ids of tests.
        modes: The modes.
        is_in_turn: Whether each query runs in one of the modes that fit, taken in turn, and with
            one of its rules switched off. Otherwise it runs in all of them.
        every: One query out of this many runs. In turn, it has no divisor in common with the number
            of modes, or the same modes would come again and again.
        done: Modes in which another test runs every query.
    """

    name: str
    modes: tuple[Mode, ...]
    is_in_turn: bool = False
    every: int = 1
    done: tuple[Mode, ...] = ()


def select_all(mode: Mode) -> Selection:
    """Select all queries in one mode."""
    return Selection(mode.name, (mode,))


# Queries that need Spark, and a sample of the others, which another test runs in process
NEEDS_SPARK = Selection("needs-spark", (BATCH,))
SAMPLED_OF_OTHERS = 8
SAMPLE = Selection("sample", FURTHER, is_in_turn=True, every=8, done=(BATCH,))
IN_TURN = Selection("in-turn", FURTHER, is_in_turn=True, every=11, done=(BATCH,))
EVERY_FURTHER = Selection("every-mode", FURTHER, done=(BATCH,))
