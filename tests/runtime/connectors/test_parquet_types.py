"""Every Arrow type as a column of a Parquet file: its value, or an error with its name."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import ErrorKind

MINUTE = dt.timedelta(minutes=1)
AT = dt.datetime(2026, 1, 1, 10)  # noqa: DTZ001  # a wall clock
INSTANT = AT.replace(tzinfo=dt.UTC)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS = int(INSTANT.timestamp())
LARGEST = 2**64 - 1
_UUID = b"0123456789abcdef"


def values() -> dict[str, tuple[pa.Array, Any]]:
    """Return a column of one value for each type, and the value in SQL."""
    numbers = {
        name: (pa.array([7], getattr(pa, name)()), 7)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
    }
    decimals = {
        f"decimal{bits}": (
            pa.array([Decimal("1.50")], getattr(pa, f"decimal{bits}")(9, 2)),
            Decimal("1.50"),
        )
        for bits in (32, 64, 128, 256)
    }
    times: dict[str, tuple[pa.Array, Any]] = {}
    for unit, factor in PER_SECOND.items():
        times[f"duration_{unit}"] = pa.array([60 * factor], pa.duration(unit)), MINUTE
        times[f"wall_{unit}"] = pa.array([SECONDS * factor], pa.timestamp(unit)), AT
        instants = pa.array([SECONDS * factor], pa.timestamp(unit, "Europe/Berlin"))
        times[f"instant_{unit}"] = instants, INSTANT
    texts = {
        name: (pa.array(["ab"], type_), "ab")
        for name, type_ in {
            "string": pa.string(),
            "large_string": pa.large_string(),
            "string_view": pa.string_view(),
            "dictionary": pa.dictionary(pa.int8(), pa.string()),
        }.items()
    }
    binaries = {
        f"binary{number}": (pa.array([b"ab"], type_), b"ab")
        for number, type_ in enumerate(
            (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
        )
    }
    lists = {
        f"list{number}": (pa.array([[1, 2]], type_), [1, 2])
        for number, type_ in enumerate(
            (pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.int32(), 2))
        )
    }
    of_durations = pa.struct([("a", pa.list_(pa.duration("ns"))), ("b", pa.timestamp("ns"))])
    nested = {
        "struct": (pa.array([{"x": LARGEST}], pa.struct([("x", pa.uint64())])), {"x": LARGEST}),
        "map": (pa.array([[("k", 60)]], pa.map_(pa.string(), pa.duration("s"))), [("k", MINUTE)]),
        "struct_of_lists": (
            pa.array([{"a": [60 * 10**9, None], "b": SECONDS * 10**9}], of_durations),
            {"a": [MINUTE, None], "b": AT},
        ),
    }
    others = {
        "uint64": (pa.array([LARGEST], pa.uint64()), LARGEST),
        "float": (pa.array([1.5], pa.float32()), 1.5),
        "double": (pa.array([1.5]), 1.5),
        "date32": (pa.array([AT.date()], pa.date32()), AT.date()),
        "date64": (pa.array([AT.date()], pa.date64()), AT.date()),
        "bool": (pa.array([True]), True),
        "null": (pa.nulls(1), None),
        "float16": (pa.array([1.5], pa.float32()).cast(pa.float16()), 1.5),
        "uuid": (pa.array([_UUID], pa.uuid()), _UUID),
        "json": (pa.array(["{}"], pa.json_()), "{}"),
    }
    return numbers | decimals | times | texts | binaries | lists | nested | others


@pytest.mark.long
@pytest.mark.parametrize("has_special", [True, False], ids=["special", "plain"])
def test_each_type_has_its_value(
    session: sqlwin.Session, tmp_path: Path, has_special: bool
) -> None:
    # one special column changes how Spark reads the whole file
    special = ("_ns", "duration", "float16", "uuid", "map", "struct_of_lists")
    columns = {
        name: column
        for name, column in values().items()
        if has_special or not any(mark in name for mark in special)
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: array for name, (array, _) in columns.items()}), path)
    (row,) = session.sql(f"SELECT * FROM '{path}'").collect()
    table = session.execute(f"SELECT * FROM '{path}'")[-1].to_arrow()
    assert len(row) == len(columns)
    (shown,) = table.to_pylist()
    assert shown == {name: value for name, (_, value) in columns.items()}


@pytest.mark.variants(2)
@pytest.mark.parametrize("unit", PER_SECOND)
def test_pandas_durations_have_their_value(
    session: sqlwin.Session, tmp_path: Path, unit: str
) -> None:
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame(
        {
            "ts": pd.to_datetime(["2026-01-01 10:00"]).as_unit("ns"),
            "us": pd.to_datetime(["2026-01-01 10:00"]).as_unit("us"),
            "d": pd.to_timedelta(["1min"]).as_unit(unit),
            "n": pd.Series([LARGEST], dtype="uint64"),
        }
    )
    frame.to_parquet(path)
    table = session.execute(f"SELECT ts, us, d, n FROM '{path}'")[-1].to_arrow()
    assert table.to_pylist() == [{"ts": AT, "us": AT, "d": MINUTE, "n": Decimal(LARGEST)}]


def test_durations_and_float16_at_their_limits(session: sqlwin.Session, tmp_path: Path) -> None:
    floats = [0.0, -0.0, -1.5, 65504.0, math.inf, -math.inf, 2.0**-24, 3 * 2.0**-24, 2.0**-14]
    nanos = [-1, -1_000, -1_001, None, 2**63 - 1, -(2**63) + 1, 999, 0, 1]
    path = tmp_path / "a.parquet"
    halves = pa.array(np.array(floats, np.float16))
    pq.write_table(pa.table({"h": halves, "d": pa.array(nanos, pa.duration("ns"))}), path)
    table = session.execute(f"SELECT h, d FROM '{path}'")[-1].to_arrow()
    assert list(map(str, table["h"].to_pylist())) == list(map(str, floats))
    micros = table["d"].cast(pa.int64()).to_pylist()
    assert micros == [None if n is None else n // 1_000 for n in nanos]


@pytest.mark.long
def test_a_column_without_a_type_in_sql_is_refused_when_it_is_used(
    session: sqlwin.Session, tmp_path: Path
) -> None:
    columns = {
        "clock": pa.array([1], pa.time64("us")),
        "wide": pa.array([Decimal(1)], pa.decimal256(60, 2)),
        "nested": pa.array([{"t": 1}], pa.struct([("t", pa.time32("ms"))])),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [7], **columns}), path)
    assert session.execute(f"SELECT id FROM '{path}'")[-1].to_arrow().to_pylist() == [{"id": 7}]
    for name, column in columns.items():
        with pytest.raises(sqlwin.SqlwinError) as caught:
            session.execute(f"SELECT {name} FROM '{path}'")[-1].to_arrow()
        assert caught.value.kind is ErrorKind.RAISED
        assert caught.value.message == (
            f"column `{name}` of {path} has Arrow type {column.type}, for which SQL has no type"
        )


def test_another_unit_in_another_file_is_refused_when_the_column_is_used(
    session: sqlwin.Session, tmp_path: Path
) -> None:
    for name, unit in (("a", "s"), ("b", "ms")):
        table = pa.table({"d": pa.array([1], pa.duration(unit)), "n": [1]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert session.sql(f"SELECT n FROM '{tmp_path}'").count() == 2
    with pytest.raises(sqlwin.SqlwinError) as caught:
        session.execute(f"SELECT d FROM '{tmp_path}'")[-1].to_arrow()
    assert caught.value.message == (
        f"column `d` is duration[s] in {tmp_path}/a.parquet, but duration[ms] in "
        f"{tmp_path}/b.parquet"
    )
