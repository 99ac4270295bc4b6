"""Every type through every sink and back, in a zone with clock changes and in years after 9999.

Python's calendar ends with the year 9999. A day's window over 9999-12-31, a common value for "for
ever", ends after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sqlwin
from tests.marks import among

FLAT = {
    "b": "BOOLEAN",
    "y": "TINYINT",
    "s": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(20, 3)",
    "t": "STRING",
    "da": "DATE",
    "ts": "TIMESTAMP(6)",
    "at": "TIMESTAMP_LTZ(6)",
}
NESTED = {
    "days": "ARRAY<DATE>",
    "by": "MAP<STRING, TIMESTAMP(6)>",
    "r": "ROW<at TIMESTAMP_LTZ(6), x INT>",
    "bin": "BYTES",
}
# In Europe/Berlin 2026-03-29 02:30 does not exist and 2026-10-25 02:30 comes twice
ROWS = [
    "(true, 1Y, 2S, 3, 4L, 0.5F, 0.1D, 1.250BD, 'é, \"x\"', DATE '9999-12-31' + 1, "
    "TIMESTAMP '2026-03-29 02:30:00.000001', TIMESTAMP '2026-10-25 00:30:00Z', "
    "ARRAY(DATE '9999-12-31' + 1, NULL), MAP('k', TIMESTAMP '2026-03-29 02:30:00'), "
    "NAMED_STRUCT('at', TIMESTAMP '9999-12-31 23:59:59Z' + INTERVAL '1' SECOND, 'x', 1), X'00FF')",
    "(false, -1Y, -2S, -3, -4L, -0.5F, DOUBLE('NaN'), -1.250BD, 'NULL?', DATE '1582-10-04', "
    "TIMESTAMP '9999-12-31 23:59:59.999999' + INTERVAL '0.000001' SECOND, "
    "TIMESTAMP '9999-12-31 23:59:59.999999Z' + INTERVAL '0.000001' SECOND, "
    "ARRAY(DATE '0001-01-01'), MAP('k', TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' SECOND), "
    "NAMED_STRUCT('at', TIMESTAMP '2026-10-25 01:30:00Z', 'x', NULL), X'')",
    f"({', '.join(['NULL'] * (len(FLAT) + len(NESTED)))})",
]
SINKS = {
    "memory": "'connector' = 'memory'",
    "csv": "'connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = 'n/a', 'path' = ",
    "json": "'connector' = 'filesystem', 'format' = 'json', 'path' = ",
    "parquet": "'connector' = 'filesystem', 'format' = 'parquet', 'path' = ",
    "orc": "'connector' = 'filesystem', 'format' = 'orc', 'path' = ",
    "delta": "'connector' = 'delta', 'path' = ",
}
CASES = [(sink, mode) for sink in SINKS for mode in ("batch", "streaming")]


def table(name: str, types: dict[str, str], options: str, path: Path) -> str:
    columns = ", ".join(f"`{column}` {type_}" for column, type_ in types.items())
    place = f"'{path}'" if options.endswith("= ") else ""
    return f"CREATE TABLE {name} ({columns}) WITH ({options}{place})"


def rows(session: sqlwin.Session, sql: str) -> list[str]:
    """Return the rows as text: NaN is not equal to itself, and times after 9999 cannot be compared."""
    (result,) = session.execute(sql)
    return sorted(map(str, result.rows))


@pytest.mark.variants(1)
@pytest.mark.parametrize("case", among(CASES, long=CASES[7:]), ids="-".join)
def test_every_value_is_read_as_it_was_written(
    fresh_session: sqlwin.Session, tmp_path: Path, case: tuple[str, str]
) -> None:
    sink, mode = case
    types = FLAT if sink == "csv" else FLAT | NESTED
    fresh_session.execute(f"""
        SET 'table.local-time-zone' = 'Europe/Berlin';
        {table("source", FLAT | NESTED, SINKS["parquet"], tmp_path / "source")};
        INSERT INTO source SELECT * FROM VALUES {", ".join(ROWS)};
        {table("sink", types, SINKS[sink], tmp_path / "sink")}""")
    columns = ", ".join(f"`{name}`" for name in types)
    fresh_session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    (written,) = fresh_session.execute(f"INSERT INTO sink SELECT {columns} FROM source")
    if written.stream is not None:
        written.stream.wait()
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = rows(fresh_session, f"SELECT {columns} FROM source")
    assert "10000-01-01 00:00:00" in "".join(expected)
    assert rows(fresh_session, f"SELECT {columns} FROM sink") == expected


@pytest.mark.long
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_a_window_may_end_after_the_year_9999(
    fresh_session: sqlwin.Session, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh_session.execute(f"""
        {
        table("t", {"ts": "TIMESTAMP(3)"}, SINKS["json"], tmp_path / "t").replace(
            ") WITH", ", WATERMARK FOR ts AS ts) WITH"
        )
    };
        INSERT INTO t VALUES (TIMESTAMP '9999-12-31 12:00:00'), (TIMESTAMP '2026-01-01 00:00:00');
        CREATE TABLE p (ends TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
        SET 'execution.runtime-mode' = '{mode}'""")
    query = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' DAY)) GROUP BY window_start, window_end"
    )
    (written,) = fresh_session.execute(f"INSERT INTO p {query}")
    if written.stream is not None:
        written.stream.wait()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "+I[+10000-01-01T00:00, 1]",
        "+I[2026-01-02T00:00, 1]",
    ]
    (result,) = fresh_session.execute(query)
    ends: list[Any] = [str(row.window_end) for row in result.rows]
    assert sorted(ends) == ["10000-01-01 00:00:00", "2026-01-02 00:00:00"]
    if mode == "batch":
        assert set(result.to_pandas().n) == {1}
        result.show()
        assert "10000-01-01 00:00:00" in capsys.readouterr().out
