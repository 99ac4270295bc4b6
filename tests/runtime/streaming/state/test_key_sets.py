"""Rows are selected by keys of any type; some rows of other keys may be included."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.streaming.state.key_sets import KeySet

COLUMNS: dict[str, Any] = {
    "int": lambda n: pa.array(n, pa.int32()),
    "string": lambda n: pa.array([f"k{each}" for each in n]),
    "dictionary": lambda n: pa.array([f"k{each}" for each in n]).dictionary_encode(),
    "binary": lambda n: pa.array([bytes([each % 256]) for each in n], pa.large_binary()),
    "double": lambda n: pa.array([-0.0 if each == 0 else each / 2 for each in n]),
    "decimal": lambda n: pa.array([Decimal(each) for each in n], pa.decimal128(20, 2)),
    "date": lambda n: pa.array([date(2026, 1, 1 + each % 28) for each in n]),
    "null": lambda n: pa.array([None if each % 3 == 0 else str(each) for each in n]),
}


@pytest.mark.parametrize(
    "types",
    [*([name] for name in COLUMNS), ["int", "string"], ["string", "null"], ["double", "decimal"]],
    ids="-".join,
)
def test_rows_of_the_selected_keys_are_returned(types: list[str]) -> None:
    random = np.random.default_rng(len(types))
    rows, some = random.integers(0, 900, 5000).tolist(), random.integers(0, 900, 20).tolist()
    names = [str(number) for number in range(len(types))]
    table = pa.table([COLUMNS[item](rows) for item in types], names)
    table = table.append_column("value", pa.array(range(5000)))
    keys = pa.table([COLUMNS[item](some) for item in types], names)
    expected_rows = set(zip(*(keys.column(name).to_pylist() for name in names), strict=True))
    own = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    expected = [number for number, key in enumerate(own) if key in expected_rows]
    result = KeySet([keys.slice(0, 5), keys.slice(5)], names).rows(table)
    assert set(expected) <= set(result.column("value").to_pylist())
    assert result.num_rows <= len(expected) + 20
    assert result.column("value").to_pylist() == sorted(result.column("value").to_pylist())
    assert KeySet([keys], names).rows(table.slice(0, 0)).num_rows == 0
