"""How a streaming query runs: what is not in its plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runtime.streaming.changes import KeptNames
from runtime.streaming.operators.updates import FireRule
from runtime.streaming.own_sources import OwnSources
from runtime.streaming.state.blobs import Owner
from runtime.streaming.state.key_groups import head_groups, key_group_numbers

BUCKET_BYTES = 64 << 20


@dataclass(frozen=True)
class StreamOptions:
    """Settings of a streaming query; those of its state hold for the life of its checkpoint.

    Attributes:
        key_groups: how many groups of keys the state is cut into; fixed at the first start and
            kept with the checkpoint.
        partitions: the parallelism of the operators; Spark fixes it at the first start.
        fixes_partitions: whether Spark runs with that parallelism; otherwise with what is set when
            somebody starts the stream.
        own_sources: what ends the input and brings processing time.
        owner: the checkpoint that its state is part of; None: that is not checked.
        names: what the columns of operators are called in state, by the operators' numbers, where
            these go on with the state of another plan.
        idle_timeout_us: a source without rows for so long does not hold back the
            others; None: it does.
        watermark_policy: `min` or `max` of the sources' watermarks.
        max_jump_us: how far one micro-batch may move a source's watermark; None: any distance.
        allowed_lateness_us: for so long after its end a window is emitted again with rows that
            come late.
        bucket_bytes: so many bytes of rows of a key group are put together at a time; one with more
            is cut into sub-buckets.
        early_fire: how often windows are emitted before their end too; None: they are not.
        late_fire: how often windows with late rows are emitted again within the allowed
            lateness; None: with every micro-batch that brought some.
    """

    key_groups: int
    partitions: int
    fixes_partitions: bool = True
    own_sources: OwnSources = field(default_factory=OwnSources, compare=False)
    owner: Owner | None = field(default=None, compare=False)
    names: tuple[KeptNames, ...] = field(default=(), compare=False)
    idle_timeout_us: int | None = None
    watermark_policy: str = "min"
    max_jump_us: int | None = None
    allowed_lateness_us: int = 0
    bucket_bytes: int = BUCKET_BYTES
    early_fire: FireRule | None = None
    late_fire: FireRule | None = None

    @property
    def emits_updates(self) -> bool:
        """Whether a window can be emitted more than once: rows then carry a row kind."""
        return self.allowed_lateness_us > 0 or self.early_fire is not None

    def numbers_of_groups(self, has_keys: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of an operator's key groups, and of those that come first in their tasks.

        Args:
            has_keys: whether there are keys; otherwise all rows are in one group.
        """
        numbers = tuple(key_group_numbers(self.key_groups if has_keys else 1, self.partitions))
        if not self.fixes_partitions:
            # each may be alone in its task
            return numbers, numbers
        return numbers, tuple(head_groups(numbers, self.partitions))

    def names_of(self, operator: int) -> KeptNames:
        """What the columns of the operator of a number are called in state."""
        return self.names[operator] if operator < len(self.names) else KeptNames()

    def owner_of(self, operator: int) -> Owner | None:
        """The owner, of the state of the operator of a number."""
        return None if self.owner is None else replace(self.owner, operator=operator)
