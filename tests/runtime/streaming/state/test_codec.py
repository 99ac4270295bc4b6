"""State is read back as it was written; state of another version is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from inspect import isclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import ExecutionError
from runtime.records import from_json, to_json
from runtime.spec.stream import FINAL_US
from runtime.streaming.state import metadata as metadata_module
from runtime.streaming.state.codec import (
    decode_bits,
    decode_metadata,
    encode_bits,
    encode_metadata,
    has_buckets,
)
from runtime.streaming.state.metadata import (
    BucketMetadata,
    ChangedRows,
    Chunk,
    GroupMetadata,
    Level,
    MarkedChunk,
    Part,
    RunningMetadata,
    SessionMetadata,
    Slab,
    SliceMetadata,
    Span,
    StateSignature,
    TotalsMetadata,
    UpdateMetadata,
    WindowMetadata,
)
from runtime.streaming.watermarks import SourceWatermark, Watermarks
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import Memory, Stream

KINDS = [
    kind
    for kind in vars(metadata_module).values()
    if isclass(kind) and kind.__module__ == metadata_module.__name__
]
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=5),
    bool: st.booleans(),
    type(None): st.none(),
}
SPANS = [Span(10, 20, 3, 5, 700, ("a", "b"))]
WATERMARKS = Watermarks(
    (SourceWatermark(5, 7, None, ((3, -9, None), (4, 8, 2))), SourceWatermark()), 5
)
SLICES = SliceMetadata(
    [Level(1, [Slab(30, 4, [Chunk("c", 4, 99, 10, 30)])])],
    {0: RunningMetadata(2, 1, SPANS, [], 6, 4, 2, SPANS[0]), 1: TotalsMetadata(2, 1, [], SPANS)},
    2,
)
UPDATES = UpdateMetadata(
    [[Part(0, 30, ("r",), 4)]], [(0, 30)], [ChangedRows([(0, 9)], 1, 2, "k")], 30, 1, 99, None, 0
)
METADATA = GroupMetadata(
    WATERMARKS, "run", 4, StateSignature("ck", 1), ("k",), 0, WindowMetadata(SLICES, UPDATES)
)
# The exact bytes in a checkpoint. If this test fails, increase the formats in `codec`.
WRITTEN = (
    '{"watermarks":{"sources":[{"watermark_us":5,"clock_us":7,"held_us":null,"splits":'
    '[[3,-9,null],[4,8,2]]},{"watermark_us":null,"clock_us":null,"held_us":null,"splits":[]}],'
    '"combined_us":5,"has_ended":false},"run":"run","closed_us":4,"signature":{"checkpoint":"ck",'
    '"operator":1},"by":["k"],"most_bytes":0,"contents":{"kind":"WindowMetadata","slices":{"levels":[[1,[[30,4,'
    '[["c",4,99,10,30]]]]]],"spans":{"0":{"kind":"RunningMetadata","n_results":2,"number":1,"spans":'
    '[[10,20,3,5,700,["a","b"]]],"patches":[],"last":6,"block":4,"stride":2,"middle":'
    '[10,20,3,5,700,["a","b"]]},"1":{"kind":"TotalsMetadata","n_results":2,"number":1,"spans":[],'
    '"patches":[[10,20,3,5,700,["a","b"]]]}},"generation":2},"updates":{"runs":[[[0,30,["r"],4]]],'
    '"changed":[[0,30]],"keys":[[[[0,9]],1,2,"k"]],"computed_us":30,"n_pending":1,'
    '"early_at_us":99,"late_at_us":null,"n_late":0}}}'
)


def anything(type_: Any) -> st.SearchStrategy[Any]:
    """Return values of an annotation. Sequences are short, because they are nested."""
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return st.one_of(*map(anything, args))
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*map(anything, args))
    if origin in (tuple, Sequence):
        return st.lists(anything(args[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(*map(anything, args), max_size=2)
    if type_ in SCALARS:
        return SCALARS[type_]
    fields = {name: anything(hint) for name, hint in get_type_hints(type_).items()}
    return st.builds(type_, **fields)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=10)
def test_every_record_of_state_is_read_as_it_was_written(kind: type[Any], data: Any) -> None:
    record = data.draw(anything(kind))
    assert from_json(kind, json.loads(json.dumps(to_json(record)))) == record


@given(anything(GroupMetadata))
@settings(max_examples=50)
def test_metadata_are_read_as_they_were_written(metadata: GroupMetadata) -> None:
    blob = encode_metadata(metadata)
    assert decode_metadata(blob) == metadata
    assert has_buckets(blob) == isinstance(metadata.contents, BucketMetadata)


@given(st.lists(st.booleans()))
def test_bits_are_read_as_they_were_written(bits: list[bool]) -> None:
    array = np.array(bits, np.bool_)
    assert decode_bits(encode_bits(array), len(bits)).tolist() == bits


def test_times_at_the_ends_of_int64_stay() -> None:
    marks = Watermarks((SourceWatermark(-FINAL_US),), FINAL_US, has_ended=True)
    metadata = GroupMetadata(marks, "", -(2**63), None, None, 0, SessionMetadata(()))
    assert decode_metadata(encode_metadata(metadata)) == metadata


def test_the_format_matches_the_version_of_state() -> None:
    blob = encode_metadata(METADATA)
    assert blob[1:].decode() == WRITTEN
    assert encode_metadata(decode_metadata(blob)) == blob


SESSION = GroupMetadata(
    Watermarks((SourceWatermark(),)), "", None, None, None, 0,
    SessionMetadata([MarkedChunk("s", 1, 2, 3, 4, "run", None)]),
)  # fmt: skip
CONTENTS = '{"kind":"SessionMetadata","chunks":[["s",1,2,3,4,"run",null]]}'


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        ('"most_bytes":0', '"most_bytes":0,"least_bytes":0', "unknown field `least_bytes`"),
        ('"most_bytes":0,', "", "field `most_bytes` is missing"),
        ('"most_bytes":0', '"most_bytes":"0"', '`most_bytes`: expected a whole number, not "0"'),
        ("SessionMetadata", "JoinMetadata", '`contents`: unknown kind "JoinMetadata"'),
        (',"run",null]', ',"run"]', "`contents.chunks`: expected an array of 7 values"),
        ('["s",1,', '["s",1.5,', "`contents.chunks`: expected a whole number, not 1.5"),
        ('"has_ended":false', '"has_ended":0', "`watermarks.has_ended`: expected true or false"),
    ],
)
def test_a_field_that_this_version_does_not_know_is_refused(
    was: str, now: str, problem: str
) -> None:
    text = encode_metadata(SESSION).decode()
    assert CONTENTS in text and was in text
    with pytest.raises(ExecutionError) as caught:
        decode_metadata(text.replace(was, now).encode())
    message = caught.value.message
    assert message.startswith(f"the state in the checkpoint cannot be read: {problem}")
    assert "\n" not in message
    assert "or another checkpoint directory" in (caught.value.hint or "")


@pytest.mark.parametrize("version", [2, 3, 4, 9])
def test_metadata_of_another_version_are_refused(version: int) -> None:
    blob = bytes([version]) + encode_metadata(SESSION)[1:]
    with pytest.raises(ExecutionError, match=f"state of version {version}, but this sqlwin reads"):
        decode_metadata(blob)


def test_metadata_of_another_operator_are_refused() -> None:
    store = Memory()
    store.put("metadata", encode_metadata(SESSION))
    with pytest.raises(ExecutionError, match="is damaged: it belongs to another operator"):
        Stream(Tumble(10_000), store=store).micro_batch([("a", 1, 1)], 2)
