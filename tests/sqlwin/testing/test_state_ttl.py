"""Cases of streams with a time-to-live of state, which passes with `wait`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sqlwin.testing.test_command import run

CASE = """
query: |
  SELECT /*+ STATE_TTL('t' = '10 s') */ k, COUNT(*) AS n FROM t GROUP BY k
cases:
  - name: a key expires
    tables:
      t:
        columns: {k: STRING, ts: TIMESTAMP(3)}
        watermark: ts - INTERVAL '1' SECOND
        rows:
          - [a, '00:00:01']
          - [b, '00:00:02']
          - wait: SECONDS s
          - [a, '00:00:03']
    expect:
      changes:
CHANGES
      batch:
        - [a, 2]
        - [b, 1]
"""
CHANGES = {
    9: "['-U', a, 1] ['+U', a, 2]",
    10: "['+I', a, 1]",
}


@pytest.mark.parametrize("seconds", CHANGES)
def test_processing_time_drops_keys(tmp_path: Path, seconds: int) -> None:
    rows = ["['+I', a, 1]", "['+I', b, 1]", *CHANGES[seconds].replace("] [", "]|[").split("|")]
    changes = "\n".join(f"        - {row}" for row in rows)
    path = tmp_path / "a.sqlwin.yaml"
    path.write_text(CASE.replace("SECONDS", str(seconds)).replace("CHANGES", changes))
    code, out, err = run(str(path), "--histories", "20")
    assert code == 0 and out.startswith("1 passed, 20 histories"), out + err
