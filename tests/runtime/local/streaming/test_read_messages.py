"""The local stage of a stream that consumes messages itself, from a broker."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from runtime.connectors.kafka.offsets import Range, Reading
from runtime.connectors.kafka.scan import KafkaSplits, scan
from runtime.local.messages import is_undecoded
from runtime.local.streaming.messages import MESSAGE_SCHEMA, NoRows, SourceProgress
from runtime.local.streaming.scan import ScanTask
from runtime.refusal import Refusal, tried
from runtime.spec.source import WATERMARK_SPLIT, SplitTable
from runtime.spec.table import Column, TableColumn, TableSpec
from tests.runtime.connectors.kafka.broker import Broker, broker
from tests.runtime.local.streaming.test_scan import (
    COLUMNS,
    DELAY_US,
    GROUPS,
    HOP,
    TS,
    VALUE,
    plan_of,
    received_from,
    split_rows,
    step_of,
)

__all__ = ["broker"]
# Spark determines the types of a table's columns
pytestmark = pytest.mark.usefixtures("spark")


def table_of(address: str = "host:9092", **more: str) -> TableSpec:
    columns = [TableColumn(c.name, c.type) for c in COLUMNS]
    columns.append(TableColumn("part", "int", metadata="partition"))
    columns.append(TableColumn("at", "timestamp", metadata="timestamp"))
    options = {
        "topic": "one;read", "format": "json", "properties.bootstrap.servers": address,
        **more,
    }  # fmt: skip
    return TableSpec("t", "kafka", tuple(columns), tuple(options.items()))


def splits_of(table: TableSpec) -> KafkaSplits:
    return KafkaSplits(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate(), table)


def messages_step(table: TableSpec):
    """Return the step of `step_of` over messages."""
    step = step_of(HOP)
    old = step.source
    source = replace(old.source, table=table)
    return replace(step, source=replace(old, source=source, follows_splits=True))


def message(us: int, key: str, value: object) -> bytes:
    return json.dumps({"ts": f"1970-01-01 00:00:00.{us:06}", "k": key, "v": value}).encode()


def test_messages_that_arrow_cannot_decode_follow_in_a_second_pass(broker: Broker) -> None:
    broker.send("read", [message(10, "a", 1), message(13, "b", 5), message(14, "b", 2)], 0)
    broker.send("read", [message(31, "a", 3)], 1)
    broker.send("read", [message(21, "a", 7), message(22, "a", "x")], 2)
    step = messages_step(table_of(broker.address))
    plan = plan_of(step)
    reader = splits_of(table_of(broker.address)).reader(COLUMNS, is_stream=True)
    ranges = [Range("read", p, 0, n) for p, n in ((0, 3), (1, 1), (2, 2))]
    batches = ScanTask(plan, step, reader).run([split_rows(*((r.text(), 0, None) for r in ranges))])
    decoded_batches: list[pa.RecordBatch] = []
    left: list[pa.RecordBatch] = []
    for batch in batches:
        (left if is_undecoded(batch) else decoded_batches).append(batch)
    partials, control, n_read = received_from(decoded_batches)
    assert n_read == 6
    assert sum(item["n"] for group in partials.values() for item in group.values()) == 3
    # partition numbers over both topics; a filter moves no watermark
    expected = [
        SourceProgress(0, 14 - DELAY_US, 10 - DELAY_US, 3, 1),
        SourceProgress(0, 31 - DELAY_US, 31 - DELAY_US, 1, 3),
    ]
    assert control == {group: expected for group in GROUPS}
    (rest,) = left
    assert rest.column("value").to_pylist() == [message(21, "a", 7), message(22, "a", "x")]
    assert rest.select(["partition", "offset", WATERMARK_SPLIT]).to_pylist() == [
        {"partition": 2, "offset": offset, WATERMARK_SPLIT: 5} for offset in (0, 1)
    ]
    # as Spark sends it: the first pass's messages together with decoded ones
    decoded = {
        "ts": pa.array([21], pa.timestamp("us")), "k": ["a"], "v": pa.array([7], pa.int64()),
        WATERMARK_SPLIT: pa.array([5], pa.int32()),
        **{f"${n}": pa.nulls(1, f.type) for n, f in enumerate(MESSAGE_SCHEMA)},
    }  # fmt: skip
    passed = {f"${n}": c for n, c in enumerate(decoded_batches[0].columns)}
    empty = {
        c.name: pa.nulls(decoded_batches[0].num_rows, decoded_type(decoded[c.name]))
        for c in COLUMNS
    }
    split = {WATERMARK_SPLIT: pa.nulls(decoded_batches[0].num_rows, pa.int32())}
    second = ScanTask(plan, step, reader).second(
        [pa.record_batch({**empty, **split, **passed}), pa.record_batch(decoded)]
    )
    first_again, *more = second
    assert first_again.equals(decoded_batches[0])
    partials, control, n_read = received_from(more)
    assert [item for group in partials.values() for item in group.values()] == [
        {"n": 1, "total": 7, "$rows": 1}
    ]
    assert control == {g: [SourceProgress(0, 21 - DELAY_US, 21 - DELAY_US, 1, 5)] for g in GROUPS}
    # the first pass has woken all key groups
    only_passed = pa.record_batch({**empty, **split, **passed})
    assert [
        b.equals(decoded_batches[0]) for b in ScanTask(plan, step, reader).second([only_passed])
    ] == [True]
    assert {type(m) for m in received_from(ScanTask(plan, step, reader).run([]))[1][3]} == {NoRows}


def decoded_type(values: object) -> pa.DataType:
    return values.type if isinstance(values, pa.Array) else pa.string()


@pytest.mark.parametrize(
    ("columns", "more", "reason"),
    [
        (COLUMNS, {}, None),
        ((TS, Column("part", "int"), Column("at", "timestamp")), {}, None),
        (COLUMNS, {"late-rows": "x"}, "late rows go to x with all columns of the table"),
        (COLUMNS, {"key.format": "json", "key.fields": "k"}, "Spark decodes the keys"),
        (COLUMNS, {"key.format": "raw", "key.fields": "k"}, None),
        (COLUMNS, {"timeZone": "UTC"}, "Spark decodes column ts"),
        ((Column("at", "timestamp"),), {"timeZone": "UTC"}, None),
        ((Column("at", "timestamp"),), {"format": "raw"}, None),
        (
            (Column("at", "timestamp"),),
            {"timeZone": "UTC", "json.ignore-parse-errors": "true"},
            "Spark decodes the values",
        ),
        ((Column("part", "bigint"),), {}, "Spark decodes column part"),
    ],
)
def test_messages_are_read_without_spark_or_give_the_reason(
    spark: SparkSession, columns, more, reason
) -> None:
    table = table_of(**more)
    expected = SplitTable(table, "one, read", tuple(columns), is_exclusive=True)
    outcome = tried(scan, spark, table, columns)
    assert outcome == (expected if reason is None else Refusal(reason))


def test_unused_values_are_not_decoded() -> None:
    columns = (Column("part", "int"),)
    reading = splits_of(table_of()).reader(columns, is_stream=False).reading
    assert reading.decoding is None and reading.wanted == (("part", "partition"),)
    # except if broken messages are skipped, because they must be found
    tolerant_table = table_of(**{"json.ignore-parse-errors": "true"})
    tolerant = splits_of(tolerant_table).reader(columns, is_stream=False).reading
    assert tolerant.decoding is not None and Reading.of(tolerant.text()) == tolerant
    both = splits_of(table_of()).reader((VALUE, *columns), is_stream=False).reading
    assert both.wanted == (("v", 2), ("part", "partition"))
