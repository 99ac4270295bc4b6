"""Parse lines of JSON with Arrow, as far as its parser and Spark's certainly agree.

Arrow parses many times as fast as Python. It rejects lines in most notations of Spark's own, such
as strings in single quotes or texts where numbers are declared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray
from runtime.text.json_record import MAX_DIGITS, MAX_LEVELS
from runtime.text.lines import Lines

# Only Spark accepts halves of surrogate pairs, and only Arrow accepts Inf
_ONLY_ONE_ACCEPTS = (b"\\ud", b"\\uD", b"Inf")


def parse_objects(lines: Lines, fields: Sequence[pa.Field]) -> list[pa.Array] | None:
    """Return fields of lines that are objects, or None if Spark may read a line differently.

    Args:
        lines: Lines without blank ones, each one an object or a text that is rejected.
        fields: Names and types of the fields, each name once.
    """
    text = lines.data
    n_rows = len(lines.starts)
    if not n_rows or not fields or any(part in text for part in _ONLY_ONE_ACCEPTS):
        return None
    # Arrow reads one object after another, ignoring line ends. Every line must therefore start and
    # end like an object, which a fragment that continues in the next line cannot.
    characters = np.frombuffer(text, np.uint8)
    is_open: BoolArray = characters == ord("{")
    if not (is_open[lines.starts] & (characters[lines.ends - 1] == ord("}"))).all():
        return None
    is_open |= characters == ord("[")
    opened = np.add.reduceat(is_open, lines.starts, dtype=np.int32)
    if opened.max() > MAX_LEVELS or (lines.ends - lines.starts).max() > MAX_DIGITS:
        return None
    import pyarrow.json

    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != n_rows:
        return None
    columns = [column.combine_chunks() for column in table.columns]
    return columns if all(map(_are_certain, columns)) else None


def _are_certain(column: pa.Array) -> bool:
    """Return whether numbers have a single notation, unlike NaN and -0."""
    if not pa.types.is_floating(column.type):
        return True
    numbers = column.fill_null(1.0).to_numpy(zero_copy_only=False)
    return bool(np.isfinite(numbers).all() and not (np.signbit(numbers) & (numbers == 0)).any())
