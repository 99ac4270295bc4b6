"""Restart a simulated stream with another query.

After the restart, the stream emits the windows that the changed query would have emitted in the
same micro-batches, had it run from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from runtime.errors import SqlwinError
from runtime.simulator.check import Disagreement, SimulatedStream
from runtime.simulator.compare import difference, rows_of
from runtime.simulator.histories import Batch, Restart, StreamHistory
from runtime.simulator.run import ChangedQuery


@dataclass(frozen=True)
class ChangedStream:
    """A stream and the query with which it resumes.

    Attributes:
        before: Stream of the first query.
        after: Stream of the changed query over the same rows.
        change: Changed query.
        has_other_windows: Whether its windows differ. Those that begin before the stored slices are
            incomplete, so rows are not compared.
    """

    before: SimulatedStream
    after: SimulatedStream
    change: ChangedQuery
    has_other_windows: bool = False

    def history(self, seed: int) -> StreamHistory:
        """Return a random history in which the stream resumes once with the changed query."""
        history = self.before.history(seed)
        steps = list(history.steps)
        batches = [place for place, step in enumerate(steps) if isinstance(step, Batch)]
        place = Random(seed).choice(batches)
        return replace(history, steps=(*steps[:place], Restart(is_changed=True), *steps[place:]))

    def disagreement(self, history: StreamHistory, seed: int | None = None) -> Disagreement | None:
        """Compare a history with the histories of both queries; return the difference or None.

        Args:
            history: History.
            seed: Seed of the history, for messages.
        """
        same = replace(
            history,
            steps=tuple(
                replace(step, is_changed=False) if isinstance(step, Restart) else step
                for step in history.steps
            ),
        )
        try:
            outcome = self.before.run(history, self.change)
            before, after = self.before.run(same), self.after.run(same)
        except SqlwinError as error:
            return Disagreement(history, None, error.message, seed)
        for output in outcome.batches:
            is_changed = output.number >= outcome.n_before_change
            if output.needless is not None and output.number == len(outcome.batches) - 1:
                return Disagreement(history, None, output.needless, seed)
            if is_changed and self.has_other_windows:
                continue
            expected = (after if is_changed else before).batches[output.number]
            mismatch = difference(rows_of([expected.rows]), rows_of([output.rows]))
            if mismatch is not None:
                query = "the changed query" if is_changed else "the first query"
                reason = f"micro-batch {output.number} has other rows than {query}"
                return Disagreement(history, mismatch, reason, seed)
        return None

    def first_disagreement(self, seeds: Iterable[int]) -> Disagreement | None:
        """Return the first random history that differs, or None."""
        results = (self.disagreement(self.history(seed), seed) for seed in seeds)
        return next((result for result in results if result is not None), None)
