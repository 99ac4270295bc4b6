"""Damaged CSV, JSON and Parquet files, and statements that read them."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.outcome import Outcome, judge, new_session

CELLS = (
    "", "NULL", "n/a", "1", "-0", "0x10", "1e999", "-1e-999", "NaN", "Infinity", "1_000", "1,5",
    "99999999999999999999999999", "2024-02-30", "0000-00-00 00:00:00", "9999-12-31 23:59:59.999999",
    "10000-01-01", "-292277-01-01", "2024-03-31T02:30:00+18:30", "1969-12-31 23:59:59.9999999",
    "true", "yes", '"', '"a""b"', "'", "a;b", "a\tb", "{", "[1, 2", "\\", "\\u0000", "é", "\u2028",
    "\U0001f600", "x" * 5_000,
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\n", b"\r\n", b'"', b",", b";", b"\x1a",
    b"{", b"}", b"[", b"]", b"\\", b":", b"\xef\xbb\xbf", b"\xff\xfe", b"1e999", b"\x1b", b" " * 70_000,
)  # fmt: skip
JSON_VALUES = (
    None, True, 0, -1, 10**30, 1.5, 1e308, "", "x", "2024-01-01", [], [1, "a"], {}, {"v": {"v": 1}},
    [[[]]], {"": 1}, {"V": 1, "v": 2}, "\ud800", float("nan"), float("inf"),
)  # fmt: skip
DECLARED = "ts TIMESTAMP(3), k STRING, v BIGINT, d DOUBLE"
READS = (
    "SELECT * FROM '{path}'",
    "SELECT COUNT(*) AS n FROM '{path}'",
    "DESCRIBE '{path}'",
    "SUMMARIZE '{path}'",
    "SELECT k, window_end, SUM(v) AS s, MAX(d) AS m FROM TUMBLE('{path}', ts, 1h) "
    "GROUP BY k, window_start, window_end",
    "CREATE TABLE t (" + DECLARED + ") WITH ('connector' = 'filesystem', 'path' = '{path}', "
    "'format' = '{format}'); SELECT k, window_end, SUM(v) AS s, MAX(d) AS m FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end",
    "CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '{path}'); SELECT * FROM t LIMIT 3",
    "CREATE TABLE t (v INT, nope DATE) WITH ('connector' = 'filesystem', 'path' = '{path}', "
    "'format' = '{format}'); SELECT v, nope FROM t WHERE v > 1",
    "SELECT k, v FROM '{path}' WHERE v > 1 AND ts > TIMESTAMP '2024-01-01 01:00:00' ORDER BY v",
)


def judge_file(seed: int, directory: Path) -> tuple[Path, str, Outcome]:
    """Read the damaged file of a seed. Return its path, the script and the outcome."""
    path, script = DamagedFiles(seed, directory).draw()
    outcome = judge(new_session(), script)
    path.unlink()
    # a value of Parquet has no line
    place = rf"{re.escape(str(path))}(, column `[^`]*`)?: '"
    if outcome.kind == "error" and ".parquet" not in path.name and re.match(place, outcome.text):
        return path, script, Outcome("fault", f"a value without a line: {outcome.text}")
    return path, script, outcome


class DamagedFiles:
    """Writes damaged files with a seed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = random.Random(seed)
        self.path = directory / f"f{seed}"

    def draw(self) -> tuple[Path, str]:
        """Write a file and return its path and a script that reads it."""
        format_ = self.random.choice(("csv", "json", "parquet"))
        make: Callable[[], bytes] = {
            "csv": self._csv,
            "json": self._json,
            "parquet": self._parquet,
        }[format_]
        content = self._damage(make())
        ending = format_
        if self.random.random() < 0.1:
            content, ending = gzip.compress(content, mtime=0), f"{format_}.gz"
            content = self._damage(content) if self.random.random() < 0.5 else content
        if self.random.random() < 0.05:
            ending = self.random.choice(("csv", "json", "parquet", "txt", "log", "tsv", "orc"))
        path = self.path.with_suffix(f".{ending}")
        path.write_bytes(content)
        read = self.random.choice(READS)
        return path, read.format(path=path, format=format_)

    def _rows(self) -> list[dict[str, object]]:
        begin = dt.datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock
        return [
            {
                "ts": begin + dt.timedelta(minutes=7 * i),
                "k": "abc"[i % 3],
                "v": i - 5,
                "d": i / 4,
            }
            for i in range(self.random.choice((0, 1, 3, 40)))
        ]

    def _csv(self) -> bytes:
        separator = self.random.choice((",", ",", ";", "\t", "|"))
        rows = [["ts", "k", "v", "d"]] if self.random.random() < 0.9 else []
        rows += [[str(value) for value in row.values()] for row in self._rows()]
        for _ in range(self.random.choice((0, 0, 1, 1, 3))):
            if rows:
                row = self.random.choice(rows)
                at = self.random.randrange(len(row) + 1)
                match self.random.randrange(4):
                    case 0:
                        row[at:at] = [self.random.choice(CELLS)]  # a ragged row
                    case 1 if row:
                        del row[min(at, len(row) - 1)]
                    case 2:
                        rows.insert(self.random.randrange(len(rows)), list(row))
                    case _ if at < len(row):
                        row[at] = self.random.choice(CELLS)
        end = self.random.choice(("\n", "\n", "\r\n", "\r"))
        text = end.join(separator.join(row) for row in rows) + self.random.choice((end, ""))
        encoding = self.random.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"))
        return text.encode(encoding, "replace")

    def _json(self) -> bytes:
        lines = []
        for row in self._rows():
            row["ts"] = str(row["ts"])
            if self.random.random() < 0.2:
                name = self.random.choice((*row, "new", ""))
                row[name] = self.random.choice(JSON_VALUES)
            line = json.dumps(row)
            if self.random.random() < 0.03:
                line = self.random.choice(
                    (line[:-3], line + line, f"[{line}]", "", "null", "1", line + ",")
                )
            lines.append(line)
        end = self.random.choice(("\n", "\n", "\r\n"))
        return end.join(lines).encode(self.random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16")))

    def _parquet(self) -> bytes:
        types: dict[str, list[pa.DataType]] = {
            "ts": [pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.date32(), pa.string()],
            "k": [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
            "v": [pa.int64(), pa.int32(), pa.int8(), pa.uint64(), pa.float64(), pa.string()],
            "d": [pa.float64(), pa.float32(), pa.decimal128(38, 10), pa.float16(), pa.list_(pa.float64())],
        }  # fmt: skip
        columns = {}
        for name, choices in types.items():
            type_ = self.random.choice([choices[0], choices[0], *choices])
            values = [row[name] for row in self._rows()]
            columns[name] = _array(values, type_)
        n_rows = min(map(len, columns.values()))
        table = pa.table({name: column[:n_rows] for name, column in columns.items()})
        out = io.BytesIO()
        pq.write_table(
            table,
            out,
            row_group_size=7,
            compression=self.random.choice(("snappy", "zstd", "none")),
            store_schema=self.random.random() < 0.5,
        )
        return out.getvalue()

    def _damage(self, content: bytes) -> bytes:
        """Cut, replace or repeat bytes; half of the files stay whole."""
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            at = self.random.randrange(len(content) + 1)
            # half of the places are near the end, where Parquet has its footer
            if self.random.random() < 0.5:
                at = max(0, len(content) - self.random.randrange(400))
            new = self.random.choice(BYTES)
            content = self.random.choice(
                (
                    content[:at],
                    content[at:],
                    content[:at] + new + content[at:],
                    content[:at] + new + content[at + len(new) :],
                    content[:at] + content[at + 5 :],
                    content[:at] * 2,
                    content + content,
                    b"",
                )
            )
        return content


def _array(values: list[object], type_: pa.DataType) -> pa.Array:
    if pa.types.is_list(type_):
        return pa.array([[value] for value in values], type_)
    if pa.types.is_string(type_) or pa.types.is_dictionary(type_):
        return pa.array([str(value) for value in values]).cast(type_)
    if pa.types.is_unsigned_integer(type_):
        return pa.array([abs(value) for value in values], type_)  # type: ignore[arg-type]
    if pa.types.is_binary(type_):
        return pa.array([str(value).encode() for value in values], type_)
    if pa.types.is_float16(type_):
        return pa.array(values, pa.float32()).cast(type_)
    if pa.types.is_decimal(type_) or pa.types.is_floating(type_) or pa.types.is_integer(type_):
        return pa.array(values).cast(type_)
    return pa.array(values, pa.timestamp("us")).cast(type_)
