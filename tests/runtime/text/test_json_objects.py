"""Lines of JSON have the same fields whether Arrow or Python parses them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.scan.ranges import FileRange
from runtime.spec.scan import ScanFile
from runtime.spec.text import TextColumn
from runtime.text import json_fields as module
from runtime.text.fields import BrokenRecordError
from runtime.text.json_objects import parse_objects
from runtime.text.lines import Lines, pieces_of, read_lines

TYPES = (
    "string tinyint smallint int bigint float double decimal(10,2) boolean timestamp_ntz".split()
)
COLUMNS = [
    TextColumn(f"c{place}", type_, key=f"k{place}", is_cast=type_ == "timestamp_ntz")
    for place, type_ in enumerate(TYPES)
]
VALUES = (
    "null true false 0 -0 -0.0 1 127 128 255 256 -128 -129 1.0 1.5 1.005 1.50 1e2 1e-5 1e400 1e-400 01 "
    "+1 .5 1. NaN Infinity -Infinity +INF Inf -Inf nan 16777217 99999999.99 999999999.99 "
    '12345678901234567890 "1" "1.5" " 1.5" "1,000" "+1" "1e2" "NaN" "" "a" "é😀" "\\u0041" "\\ud800" '
    '"\\ud83d\\ude00" \'a\' "\\\'" "\\x" {} [] {"k0":1} [1,{"k1":[]}] [Inf] [1,] tru'
).split(" ")


FITTING = {
    "string": '"a"',
    "boolean": "true",
    "double": "1.5",
    "float": "16777217",
    "decimal(10,2)": "1.5",
    "timestamp_ntz": '"2024-01-31 10:00:00"',
}


def random_value(name: str, randomness: random.Random) -> str:
    if name[0] == "k" and randomness.random() < 0.7:
        return FITTING.get(TYPES[int(name[1:])], "1")
    return randomness.choice(VALUES)


def random_line(randomness: random.Random) -> str:
    names = [f"k{place}" for place in range(len(TYPES))] + ["other", "K0", "\\u006b1"] * 2
    chosen = randomness.sample(names, randomness.randint(0, 3)) or ["k0"]
    if randomness.random() < 0.05:
        chosen.append(chosen[0])
    line = ",".join(f'"{name}":{random_value(name, randomness)}' for name in chosen)
    ends = [("{", "}")] * 12 + [("[{", "}]"), ("{", "} x"), ("{", ""), (" {", "}\t"), ("", "}")]
    before, after = randomness.choice(ends)
    return f"{before}{line}{after}"


def lines_of(path: Path, data: bytes) -> Lines:
    path.write_bytes(data)
    return read_lines(FileRange(ScanFile(str(path), n_bytes=len(data)), 0, len(data)))


def parsed(lines: Lines) -> str:
    try:
        fields = module.json_fields(lines, COLUMNS, COLUMNS[0])
    except BrokenRecordError as error:
        return error.record
    arrays = fields.texts | fields.values
    return f"{fields.n_rows} {[(name, arrays[name].to_pylist()) for name in sorted(arrays)]}"


@pytest.mark.parametrize("seed", range(2))
def test_both_parsers_give_the_same_fields(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    randomness = random.Random(seed)
    texts = [
        "\n".join(random_line(randomness) for _ in range(randomness.choice((1, 1, 1, 2))))
        for _ in range(500)
    ]
    read = [lines_of(tmp_path / "a.json", text.encode()) for text in texts]
    n_by_arrow = 0

    def counting(lines: Lines, fields: list[pa.Field]) -> list[pa.Array] | None:
        nonlocal n_by_arrow
        found = parse_objects(lines, fields)
        n_by_arrow += found is not None
        return found

    monkeypatch.setattr(module, "parse_objects", counting)
    actual = [parsed(lines) for lines in read]
    assert n_by_arrow > 100, "Arrow parses common lines"
    monkeypatch.setattr(module, "parse_objects", lambda *_: None)
    for text, lines, fields in zip(texts, read, actual, strict=True):
        assert fields == parsed(lines), text


def test_deep_and_long_lines_are_left_to_python(tmp_path: Path) -> None:
    deep = '{"a":' + "[" * 1001 + "]" * 1001 + "}"
    long = json.dumps({"a": "9" * 100_001})
    for line in (deep, long):
        lines = lines_of(tmp_path / "a.json", f'{{"a":1}}\n{line}\n'.encode())
        assert parse_objects(lines, [pa.field("b", pa.int64())]) is None


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "last without an end"])
def test_each_line_is_in_one_part(end: str, last: str, tmp_path: Path) -> None:
    expected = ["", "a", "bc" * 9, "", "é", "d" * 40, "e"]
    data = "".join(f"{line}{end}" for line in expected).encode() + last.encode()
    expected += [last] if last else []
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    file = ScanFile(str(path), n_bytes=len(data))
    for n_bytes in (*range(1, 9), 50, 1000):
        parts = [read_lines(p) for p in pieces_of(FileRange(file, 0, len(data)), n_bytes)]
        actual = [lines.text(i) for lines in parts for i in range(len(lines.starts))]
        assert actual == expected, n_bytes
