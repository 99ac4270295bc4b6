"""Allowed differences between a stream's SQL and its checkpoint's, and resumption of operators.

State holds keys, slices and accumulators, so the results computed from them when windows close may
change. The windows may change too if they consist of the same slices: they are then computed from
the stored slices, as far back as these go. Columns keep their names in state forever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from runtime.refusal import refuse
from runtime.spec.state_schema import (
    OperatorSchema,
    StateAccumulator,
    normalise_sql,
)
from runtime.windows import Window
from runtime.windows.assigner import SliceAssigner
from runtime.windows.intervals import duration_text


@dataclass(frozen=True)
class StateNames:
    """Names of an operator's columns in state.

    Attributes:
        columns: (name in the plan, name in state) of key, slice end and partial columns.
        sources: (column, source) of columns that are computed from `source` if state lacks them.
        generation: Generation of the operator, see `OperatorSchema`.
    """

    columns: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    generation: int = 0

    def of(self, name: str) -> str:
        """Return a column's name in state."""
        return dict(self.columns).get(name, name)


@dataclass(frozen=True)
class ResumedOperator:
    """An operator that resumes with the state of another plan.

    Attributes:
        operator: New description of its state.
        names: Names of its columns.
        changes: Descriptions of the changes.
        window: Previous window, if it has changed.
    """

    operator: OperatorSchema
    names: StateNames
    changes: tuple[str, ...]
    window: Window | None


def resume_operator(number: int, old: OperatorSchema, new: OperatorSchema) -> ResumedOperator:
    """Return how an operator resumes with the state of another plan.

    Args:
        number: Number of the operator, for messages.
        old: Operator in the checkpoint.
        new: Operator of the plan.

    Raises:
        Refused: It cannot resume.
    """
    before, after = (
        [(normalise_sql(key.expr), key.type) for key in operator.keys] for operator in (old, new)
    )
    if before != after:
        texts = (", ".join(key.expr for key in operator.keys) or "none" for operator in (old, new))
        refuse("the keys of operator {} have changed from {} to {}".format(number, *texts))
    if (normalise_sql(old.time[0]), old.time[1]) != (normalise_sql(new.time[0]), new.time[1]):
        refuse(f"the time of operator {number} has changed from {old.time[0]} to {new.time[0]}")
    if (change := _changed_rows(old, new) or _other_types(old, new)) is not None:
        refuse(f"operator {number} {change}")
    columns = dict(zip((key.name for key in new.keys), (key.name for key in old.keys), strict=True))
    columns[new.slice_end] = old.slice_end
    window, was = _with_partition(new.window, columns), old.window
    if window != was and (change := _other_window(was, window)) is not None:
        refuse(f"operator {number} {change}")
    left = list(old.accumulators)
    new_accumulators: list[StateAccumulator] = []
    added: list[str] = []
    for accumulator in new.accumulators:
        stored = next(
            (candidate for candidate in left if candidate.meaning == accumulator.meaning), None
        )
        if stored is not None:
            if (change := _other_state(stored, accumulator)) is not None:
                refuse(f"the state of operator {number} has {change}")
            left.remove(stored)
        elif (source := _source(accumulator, old.accumulators)) is not None:
            fresh = tuple(f"{column}~{old.generation + 1}" for column in accumulator.columns)
            stored = replace(accumulator, columns=fresh, source=source.columns[0])
            added.append(accumulator.name)
        else:
            available = ", ".join(other.name for other in old.accumulators) or "no aggregate"
            refuse(
                f"the state of operator {number} has {available}, from which "
                f"{accumulator.name} cannot be computed"
            )
        new_accumulators.append(replace(accumulator, columns=stored.columns, source=stored.source))
        columns |= zip(accumulator.columns, stored.columns, strict=True)
    changes = [
        *([f"{_text(was)} changed to {_text(window)}"] if window != was else []),
        *(f"{name} was added" for name in added),
        *(f"{accumulator.name} was removed" for accumulator in left),
    ]
    names = [key.name for key in old.keys]
    keys = tuple(replace(key, name=name) for key, name in zip(new.keys, names, strict=True))
    generation = old.generation + bool(changes)
    operator = replace(
        new,
        window=window,
        keys=keys,
        slice_end=old.slice_end,
        accumulators=tuple(new_accumulators),
        generation=generation,
    )
    sources = tuple(
        (accumulator.columns[0], accumulator.source)
        for accumulator in new_accumulators
        if accumulator.source is not None
    )
    renamed = tuple((name, other) for name, other in columns.items() if name != other)
    changed = was if window != was else None
    return ResumedOperator(
        operator, StateNames(renamed, sources, generation), tuple(changes), changed
    )


def first_complete(was: Window, is_: Window, closed_us: int) -> tuple[int, int] | None:
    """Return the first complete window among windows computed from other windows' slices.

    Args:
        was: Window whose slices are stored.
        is_: New window.
        closed_us: Windows that end at or before this are closed.

    Returns:
        The first stored time, and the end of the first window that starts at or after it. None if
        the next window is complete.
    """
    assert was.has_slices and is_.has_slices
    before, after = was.assigner(), is_.assigner()

    def start(assigner: SliceAssigner, end: int) -> int:
        return int(assigner.window_start(np.array([end], np.int64))[0])

    stored_from_us = start(before, before.next_window_end(closed_us))
    first = end = after.next_window_end(closed_us)
    while start(after, end) < stored_from_us:
        end = after.next_window_end(end)
    return None if end == first else (stored_from_us, end)


def may_change(operators: Sequence[OperatorSchema]) -> str:
    """Return the allowed changes of a stream, for a hint."""
    words = "HAVING, the selected columns and ranks, and removed aggregates"
    if any(o.window.has_slices and o.window.has_even_slices for o in operators):
        words += ", and windows of the same slices"
    return f"allowed changes: {words}"


def _changed_rows(old: OperatorSchema, new: OperatorSchema) -> str | None:
    was, is_ = old.rows.normalized, new.rows.normalized
    if was == is_:
        return None
    if was[1] != is_[1]:
        texts = (" AND ".join(operator.rows.where) or "none" for operator in (old, new))
        return "had the conditions {}, but now has {}".format(*texts)
    read = [_source_name(operator.rows.base) for operator in (old, new)]
    if None in read or read[0] == read[1]:
        return "reads different rows"
    return "read {}, but now reads {}".format(*read)


def _other_types(old: OperatorSchema, new: OperatorSchema) -> str | None:
    """Describe an input column whose type has changed, if there is one."""
    for name, type_ in new.types.items():
        if old.types.get(name, type_) != type_:
            return f"read `{name}` as {old.types[name]}, but now reads it as {type_}"
    return None


def _other_state(old: StateAccumulator, new: StateAccumulator) -> str | None:
    """Describe how an accumulator's state differs from the stored one, if it does."""
    is_other = len(old.columns) != len(new.columns) or (
        # columns of a user-defined state are named after its fields
        new.kind.startswith("user-defined") and old.fields != new.fields
    )
    if is_other or (old.type and new.type and old.type != new.type):
        was, is_ = (accumulator.type or ", ".join(accumulator.fields) for accumulator in (old, new))
        return f"{old.name} as {was}, but the query needs {is_}"
    return None


def _source_name(base: Any) -> str | None:
    """Return the name of the source of rows, or None if it has no short name."""
    name = (base or {}).get("sql") or (base or {}).get("table")
    return None if name is None else f"`{name}`"


def _source(new: StateAccumulator, stored: Sequence[StateAccumulator]) -> StateAccumulator | None:
    """Return the stored sum that differs from a sum of doubles only in its type."""
    if new.kind != "sum":
        return None
    for candidate in stored:
        _, args, condition = candidate.meaning
        same = candidate.kind == "sum" and condition == new.meaning[2] and candidate.source is None
        if same and new.meaning[1] == tuple(f"cast({arg} as double)" for arg in args):
            return candidate
    return None


# -- windows ---------------------------------------------------------------------------------------


def _other_window(was: Window, is_: Window) -> str | None:
    """Return why a window cannot be computed from another one's slices, or None."""
    reason = was.reason_against(is_)
    return reason and f"had the window {_text(was)}, but now has {_text(is_)}: {reason}"


def _with_partition(window: Window, names: dict[str, str]) -> Window:
    """Return a window whose partition columns are named as in state."""
    return window.with_partition(tuple(names.get(name, name) for name in window.partition))


def _text(window: Window) -> str:
    """Format a window: `HOP(size=1 h, slide=1 min)`."""
    arguments = []
    for name, value in asdict(window).items():
        if not value or not isinstance(value, int):
            continue
        if name.endswith("_us"):
            arguments.append(f"{name.removesuffix('_us')}={duration_text(value)}")
        elif name.endswith("_months"):
            arguments.append(f"{name.removesuffix('_months')}={value} months")
    return f"{window.function}({', '.join(arguments)})"
