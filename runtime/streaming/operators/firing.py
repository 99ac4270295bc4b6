"""When windows are emitted more than once: rules, and what counts towards them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FireRule:
    """Emissions of a window in addition to the one when the watermark passes its end.

    Attributes:
        delay_us: Interval in processing time at which windows with new rows are emitted. 0 means
            with every micro-batch that brings rows, None means not by time.
        rows: Number of new rows in a key group after which windows are emitted. None means not by
            rows.
    """

    delay_us: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class UpdateRules:
    """When windows are emitted again.

    Attributes:
        allowed_lateness_us: How long after the watermark passed its end a window accepts rows.
        early: When windows are emitted before their end. None means never.
        late: When windows with late rows are emitted. None means with every micro-batch.
        is_whole: Whether a window with changes is emitted whole: its emitted results as -D, then
            its current ones as +I, also those that are equal.
    """

    allowed_lateness_us: int
    early: FireRule | None
    late: FireRule | None
    is_whole: bool = False


@dataclass
class Pending:
    """New rows of a key group whose windows have not been emitted since, and when they are due.

    Attributes:
        n_rows: Number of rows since windows were last emitted early.
        n_late: Number of rows in fired windows since these were last emitted.
        early_at_us: Processing time of the next early results. None if none are due.
        late_at_us: Processing time of the next results of late rows. None if none are due.
    """

    n_rows: int = 0
    n_late: int = 0
    early_at_us: int | None = None
    late_at_us: int | None = None

    def add(self, rules: UpdateRules, n_new: int, n_late: int, clock_us: int | None) -> None:
        """Count the rows of a micro-batch.

        Args:
            rules: When windows are emitted again.
            n_new: Number of new rows.
            n_late: Number of new rows in windows that have fired.
            clock_us: Processing time.
        """
        self.n_rows += n_new
        self.n_late += n_late
        if clock_us is None:
            return
        if n_new and rules.early is not None and rules.early.delay_us:
            self.early_at_us = self.early_at_us or clock_us + rules.early.delay_us
        if n_late and rules.late is not None and rules.late.delay_us:
            self.late_at_us = self.late_at_us or clock_us + rules.late.delay_us

    def is_early_due(self, rules: UpdateRules, n_new: int, clock_us: int | None) -> bool:
        """Return whether open windows with new rows are due. Arguments as in `add`."""
        if rules.early is None or not self.n_rows:
            return False
        return _is_due(rules.early, self.n_rows, self.early_at_us, n_new, clock_us)

    def is_late_due(self, rules: UpdateRules, n_new: int, clock_us: int | None) -> bool:
        """Return whether fired windows with late rows are due. Arguments as in `add`."""
        if not self.n_late:
            return False
        rule = rules.late or FireRule(delay_us=0)
        return _is_due(rule, self.n_late, self.late_at_us, n_new, clock_us)

    def forget(self, *, early: bool, late: bool) -> None:
        """Start to count again after early results, results of late rows, or both."""
        if early:
            self.n_rows, self.early_at_us = 0, None
        if late:
            self.n_late, self.late_at_us = 0, None


def _is_due(
    rule: FireRule, n_rows: int, at_us: int | None, n_new: int, clock_us: int | None
) -> bool:
    if rule.rows is not None and n_rows >= rule.rows:
        return True
    if rule.delay_us == 0:
        return n_new > 0
    return at_us is not None and clock_us is not None and clock_us >= at_us
