"""Options of a streaming query that are not in its plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runtime.spec.thresholds import Thresholds
from runtime.streaming.changes import StateNames
from runtime.streaming.control_sources import ControlSources
from runtime.streaming.operators.base import RunStart
from runtime.streaming.operators.firing import FireRule
from runtime.streaming.state.blobs import Owner
from runtime.streaming.state.key_groups import head_groups, key_group_numbers

BUCKET_BYTES = 64 << 20


@dataclass(frozen=True)
class StreamOptions:
    """Options of a streaming query. Those that affect state are fixed for the life of a checkpoint.

    Attributes:
        key_groups: Number of key groups of the state. Fixed at the first start and stored in the
            checkpoint.
        partitions: Parallelism of the operators. Spark fixes it at the first start.
        fixes_partitions: Whether Spark runs with that parallelism, instead of the one that is set
            when the stream starts.
        control_sources: Sources that end the input and bring processing time.
        owner: Checkpoint that the state belongs to. None skips the check.
        names: Names of the operators' columns in state, by operator number, for operators that
            resume with the state of another plan.
        idle_timeout_us: Time without rows after which a source no longer holds back the others.
            None means never.
        watermark_policy: `min` or `max` of the sources' watermarks.
        max_jump_us: Maximum advance of a source's watermark in one micro-batch. None means no
            limit.
        allowed_lateness_us: How long after its end a window is emitted again for late rows.
        bucket_bytes: Maximum bytes of a key group's rows combined at once. Larger key groups are
            split into sub-buckets.
        early_fire: When windows are emitted before their end. None means never.
        late_fire: When windows with late rows are emitted again within the allowed lateness. None
            means with every micro-batch that brings some.
        is_of_all_time: Whether the results are groups or ranks without a window, which change.
        has_clock: Whether operators read the clock even if nothing waits for it, because the
            checkpoint has it.
        thresholds: Sizes at which operators change how they store and compute.
        runs: This run and earlier ones whose micro-batches may be repeated, the oldest first. Empty
            if unknown.
    """

    key_groups: int
    partitions: int
    fixes_partitions: bool = True
    control_sources: ControlSources = field(default_factory=ControlSources, compare=False)
    owner: Owner | None = field(default=None, compare=False)
    names: tuple[StateNames, ...] = field(default=(), compare=False)
    idle_timeout_us: int | None = None
    watermark_policy: str = "min"
    max_jump_us: int | None = None
    allowed_lateness_us: int = 0
    bucket_bytes: int = BUCKET_BYTES
    early_fire: FireRule | None = None
    late_fire: FireRule | None = None
    is_of_all_time: bool = False
    has_clock: bool = False
    thresholds: Thresholds = field(default_factory=Thresholds)
    runs: tuple[RunStart, ...] = ()

    @property
    def emits_updates(self) -> bool:
        """Whether results can be emitted more than once. Rows then have a row kind."""
        return self.allowed_lateness_us > 0 or self.early_fire is not None or self.is_of_all_time

    @property
    def fires_after_delay(self) -> bool:
        """Whether windows are emitted in intervals of processing time."""
        rules = (self.early_fire, self.late_fire)
        return self.emits_updates and any(rule.delay_us for rule in rules if rule is not None)

    def numbers_of_groups(self, has_keys: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of an operator's key groups, and of the head of each task.

        Args:
            has_keys: Whether there are keys. Otherwise all rows are in one group.
        """
        numbers = tuple(key_group_numbers(self.key_groups if has_keys else 1, self.partitions))
        if not self.fixes_partitions:
            # each key group may be alone in its task
            return numbers, numbers
        return numbers, tuple(head_groups(numbers, self.partitions))

    def names_of(self, operator: int) -> StateNames:
        """Return the names of an operator's columns in state."""
        return self.names[operator] if operator < len(self.names) else StateNames()

    def owner_of(self, operator: int) -> Owner | None:
        """Return the owner of an operator's state."""
        return None if self.owner is None else replace(self.owner, operator=operator)
