"""The state of a key group as that of several, for a checkpoint that is spread over more tasks.

Key groups are ranges of the keys' hash, so that each of twice as many is half of one. Nothing is
computed anew: every partial, result and cell goes to the one key group that its key is in now, and
all of them get the watermarks, and whatever else is known beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import int64_values, one_chunk
from runtime.compute.kernels.keys import bucket_of
from runtime.errors import ExecutionError
from runtime.spec.windows import FIRST_TIME, LAST_TIME
from runtime.streaming.state.blobs import (
    FACTS,
    checked,
    decode_facts,
    decode_table,
    encode_facts,
    encode_state,
)
from runtime.streaming.state.table_cache import unique_name

# Of the facts, the columns by whose values keys are in key groups
BY = "by"

Blobs = Mapping[str, bytes]


@dataclass(frozen=True)
class Split:
    """How key groups are cut.

    Attributes:
        n_groups: how many key groups there are.
        into: each becomes so many.
        cells: how many cells a key group of the general operator has now, a multiple of `into`.
    """

    n_groups: int
    into: int
    cells: int


def key_columns(blobs: Blobs) -> list[str]:
    """The columns by whose values keys are in key groups; none: there is one, and it stays so.

    Raises:
        ExecutionError: an older sqlwin wrote it, or it lacks something.
    """
    facts = decode_facts(_known(blobs, FACTS))
    if BY not in facts:
        raise ExecutionError(
            "the state in the checkpoint was written by an older sqlwin, which did not say what "
            "its keys are",
            hint="run its stream with this sqlwin until it has processed something, stop it, and "
            "then rescale the checkpoint",
        )
    columns: list[str] = facts[BY]
    return columns


def split_group(blobs: Blobs, group: int, split: Split) -> list[dict[str, bytes]]:
    """The blobs of the key groups that one becomes, in their order.

    Args:
        blobs: the blobs of a key group, by their names; it has `key_columns`.
        group: which of the key groups it is.
        split: how it is cut.

    Raises:
        ExecutionError: it lacks something.
    """
    if split.into == 1:
        return [dict(blobs)]
    facts = decode_facts(_known(blobs, FACTS))
    splitter = _Splitter(blobs, facts, group, split)
    return [splitter.blobs(number) for number in range(split.into)]


class _Splitter:
    """Cuts the state of a key group.

    Args:
        blobs: its blobs.
        facts: what is remembered of it.
        group: which it is.
        split: how it is cut.
    """

    def __init__(self, blobs: Blobs, facts: dict[str, Any], group: int, split: Split) -> None:
        self._old = blobs
        self._group = group
        self._split = split
        self._by: list[str] = facts[BY]
        self._new: list[dict[str, bytes]] = [{} for _ in range(split.into)]
        # running aggregates hold nothing that slices do not, and are made again
        kept = {name: fact for name, fact in facts.items() if name != "running"}
        self._facts = [dict(kept) for _ in range(split.into)]
        if "cells" in facts:
            self._cells(facts["cells"])
        if "chunks" in facts:
            self._sessions(facts["chunks"])
        if "slices" in facts:
            for own, slabs in zip(self._facts, self._slabs(facts["slices"]), strict=True):
                own["slices"] = slabs
        if "levels" in facts:
            levels = [(members, self._slabs(slabs)) for members, slabs in facts["levels"]]
            for number, own in enumerate(self._facts):
                own["levels"] = [[m, slabs[number]] for m, slabs in levels if slabs[number]]
        if "updates" in facts:
            self._updates(facts["updates"])

    def blobs(self, number: int) -> dict[str, bytes]:
        """The blobs of one of the new key groups."""
        return {FACTS: encode_facts(self._facts[number]), **self._new[number]}

    def _cells(self, cells: Mapping[str, Any]) -> None:
        """Cells stay whole: each key group gets those that are next to each other."""
        each = self._split.cells // self._split.into
        for own in self._facts:
            own["cells"] = {}
        for name, cell in cells.items():
            number, place = divmod(int(name), each)
            self._facts[number]["cells"][str(place)] = cell
            self._new[number][f"c{place}"] = _known(self._old, f"c{name}")

    def _sessions(self, chunks: list[list[Any]]) -> None:
        """Of the chunks of open sessions what is not taken."""
        found: list[list[list[Any]]] = [[] for _ in self._facts]
        for chunk in chunks:
            # an older sqlwin numbered them
            name = f"s{chunk[0]}" if isinstance(chunk[0], int) else chunk[0]
            run = chunk[5] if len(chunk) > 5 else name
            table = decode_table(_known(self._old, name))
            if len(chunk) > 6 and chunk[6] is not None:
                blob = _known(self._old, chunk[6])
                bits = np.frombuffer(blob, np.uint8, offset=checked(blob))
                is_there = np.unpackbits(bits, count=table.num_rows) == 0
                table = table.filter(pa.array(is_there))
            for number, part in self._parts(table):
                new, n_bytes = self._put(number, part)
                first, last = (
                    int(int64_values(one_chunk(part.column(time))).min())
                    for time in (FIRST_TIME, LAST_TIME)
                )
                found[number].append([new, part.num_rows, n_bytes, first, last, run, None])
        for own, of_group in zip(self._facts, found, strict=True):
            own["chunks"] = of_group

    def _slabs(self, slabs: list[Any]) -> list[list[Any]]:
        """The slabs of slices; the bounds of a chunk may be wider than what is in it."""
        found: list[list[Any]] = [[] for _ in self._facts]
        for end, n_merged, chunks in slabs:
            of_slab: list[list[Any]] = [[] for _ in self._facts]
            for name, _, _, first, last in chunks:
                for number, part in self._parts(decode_table(_known(self._old, name))):
                    new, n_bytes = self._put(number, part)
                    of_slab[number].append([new, part.num_rows, n_bytes, first, last])
            for number, own in enumerate(of_slab):
                if own:
                    found[number].append([end, n_merged // self._split.into, own])
        return found

    def _updates(self, updates: dict[str, Any]) -> None:
        """What was emitted of windows that can change; several parts may have a blob in common."""
        names = dict.fromkeys(name for _, _, of_part in updates["parts"] for name in of_part)
        new: list[dict[str, str]] = [{} for _ in self._facts]
        for name in names:
            for number, part in self._parts(decode_table(_known(self._old, name))):
                new[number][name], _ = self._put(number, part)
        for number, own in enumerate(self._facts):
            parts = [
                [after, until, [new[number][name] for name in of_part if name in new[number]]]
                for after, until, of_part in updates["parts"]
            ]
            own["updates"] = {**updates, "parts": [part for part in parts if part[2]]}

    def _parts(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """(which of the new key groups, its rows) for each that has rows."""
        columns = [table.column(name) for name in self._by]
        n_groups = self._split.n_groups * self._split.into
        number = bucket_of(columns, table.num_rows, n_groups) - self._group * self._split.into
        if len(number) and (number.min() < 0 or number.max() >= self._split.into):
            raise _damaged(f"key group {self._group} has keys of another one")
        for each in np.unique(number).tolist():
            yield each, table.filter(pa.array(number == each)).combine_chunks()

    def _put(self, number: int, table: pa.Table) -> tuple[str, int]:
        """Write a table: (the name of its blob, which no other has ever had; its size)."""
        name, blob = unique_name(), encode_state(table)
        self._new[number][name] = blob
        return name, len(blob)


def _known(blobs: Blobs, name: str) -> bytes:
    if name not in blobs:
        raise _damaged(f"it lacks the blob {name}")
    return blobs[name]


def _damaged(what: str) -> ExecutionError:
    return ExecutionError(
        f"the state in the checkpoint is damaged: {what}",
        hint="restore the checkpoint's directory from a copy",
    )
