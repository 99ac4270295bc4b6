"""SQL that changes on a restart: a stream resumes from its state, or says why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import ExecutionError, SqlwinError
from tests.marks import among

TUMBLE = "TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
HOP = "HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '{}' MINUTES)"
CUMULATE = "CUMULATE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '30' MINUTES)"
SESSION = "SESSION(TABLE r PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{}' MINUTES)"


def query(window: str, select: str = "COUNT(*) AS n, SUM(v) AS total", having: str = "") -> str:
    return (
        f"SELECT k, window_start, window_end, {select} FROM TABLE({window}) "
        f"GROUP BY k, window_start, window_end {having}"
    )


@pytest.fixture
def restarts(fresh_session: sqlwin.Session, tmp_path: Path) -> Iterator[Restarts]:
    yield Restarts(fresh_session, tmp_path)
    fresh_session.streams.stop_all()


class Restarts:
    """A table `r` that gets one more file with each run of a stream over the same checkpoint."""

    def __init__(self, session: sqlwin.Session, directory: Path) -> None:
        self.session = session
        self.directory = directory
        (directory / "in").mkdir()
        self._n_files = 0
        session.execute(f"""SET 'execution.runtime-mode' = 'streaming';
            SET 'sqlwin.state.key-groups' = '2'; SET 'sqlwin.exchange.partitions' = '1';
            SET 'pipeline.name' = 'kept';
            SET 'execution.checkpointing.dir' = '{directory}/ck';
            CREATE TABLE r (k BIGINT, v BIGINT, x DOUBLE, ts TIMESTAMP(6), WATERMARK FOR ts AS ts)
            WITH ('connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
                  'max-files-per-trigger' = '1')""")

    def run(self, sql: str, *, ends: bool = False) -> list[tuple[object, ...]]:
        """Run with five more minutes of input and return the emitted rows."""
        seconds = range(self._n_files * 300, self._n_files * 300 + 300, 7)
        table = pa.table(
            {
                "k": [second % 3 for second in seconds],
                "v": pa.array(seconds, pa.int64()),
                "x": [second / 4 for second in seconds],
                "ts": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us")),
            }
        )
        pq.write_table(table, self.directory / "in" / f"{self._n_files}.parquet")
        self._n_files += 1
        end = "close" if ends else "hold"
        self.session.execute(f"SET 'sqlwin.end-of-input' = '{end}-windows'")
        name = f"out{self._n_files}"
        self.session.execute(f"CREATE TABLE {name} WITH ('connector' = 'memory') AS {sql}")
        return self._sorted(f"SELECT * FROM {name}")

    def expected(self, sql: str, after: int, begins: int = -(10**6)) -> list[tuple[object, ...]]:
        """Return a batch's windows that end after one second and begin at or after another."""
        self.session.execute("SET 'execution.runtime-mode' = 'batch'")
        result = self._sorted(
            f"SELECT * FROM ({sql}) w WHERE window_end > TIMESTAMP_NTZ'1970-01-01' + INTERVAL "
            f"'{after}' SECOND AND window_start >= TIMESTAMP_NTZ'1970-01-01' + INTERVAL "
            f"'{begins}' SECOND"
        )
        self.session.execute("SET 'execution.runtime-mode' = 'streaming'")
        return result

    def _sorted(self, sql: str) -> list[tuple[object, ...]]:
        return sorted((tuple(row) for row in self.session.execute(sql)[-1].rows), key=str)


# name: (before, after, second at or after which the second run's windows begin)
ALLOWED = {
    "having": (query(TUMBLE), query(TUMBLE, having="HAVING SUM(v) > 2000"), None),
    "names": (query(TUMBLE), query(TUMBLE, "SUM(v) AS n, COUNT(*) AS total"), None),
    "average": (
        query(TUMBLE, "COUNT(v) AS c, SUM(v) AS total"),
        query(TUMBLE, "AVG(v) AS mean, SUM(v) AS total"),
        None,
    ),
    "dropped": (
        query(HOP.format(4), "COUNT(*) AS n, SUM(v) AS t, STDDEV_POP(x) AS s"),
        query(HOP.format(4), "SUM(v) AS t"),
        None,
    ),
    "rank": (
        query(TUMBLE),
        f"SELECT k, window_start, window_end, n, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
        f"window_start, window_end ORDER BY total DESC) AS place FROM ({query(TUMBLE)})) WHERE place <= 2",
        None,
    ),
    "tumble to hop": (query(TUMBLE), query(HOP.format(3)), 240),
    "hop to tumble": (query(HOP.format(4)), query(TUMBLE), None),
    "wider hop": (query(HOP.format(3)), query(HOP.format(5)), 180),
    "tumble to cumulate": (query(TUMBLE), query(CUMULATE), 240),
    "longer steps and fewer aggregates": (
        query(HOP.format(3), "COUNT(*) AS n, SUM(v) AS t, MAX(x) AS m"),
        query(HOP.format(6), "MAX(x) AS m", having="HAVING COUNT(*) > 1"),
        180,
    ),
    "sum of doubles": (
        query(TUMBLE, "SUM(v) AS total, COUNT(v) AS c"),
        query(TUMBLE, "SUM(v) AS total, AVG(v) AS mean"),
        None,
    ),
    "written otherwise": (
        query(TUMBLE),
        f"SELECT a AS k, window_start, window_end, n, total FROM (SELECT k AS a, window_start, window_end, "
        f"COUNT(*) AS n, SUM(v) AS total FROM TABLE({TUMBLE}) GROUP BY window_end, window_start, k) w",
        None,
    ),
    "conditions in another order": (
        query(TUMBLE).replace("GROUP BY", "WHERE v > 3 AND x > 1 GROUP BY"),
        query(TUMBLE).replace("GROUP BY", "WHERE x > 1 AND v > 3 GROUP BY"),
        None,
    ),
    "narrower hop": (query(HOP.format(5)), query(HOP.format(2)), None),
    "hop to cumulate": (query(HOP.format(3)), query(CUMULATE), 180),
    "session": (
        query(SESSION.format(2), "COUNT(*) AS n, MAX(v) AS m"),
        query(SESSION.format(2), "MAX(v) AS largest"),
        None,
    ),
}


@pytest.mark.parametrize(
    "case",
    among(
        ALLOWED,
        long=["names", "wider hop"],
        slow=[c for c in ALLOWED if c not in ("names", "wider hop")],
    ),
)
def test_a_stream_resumes_with_other_sql(case: str, restarts: Restarts) -> None:
    before, after, begins = ALLOWED[case]
    restarts.run(before)
    second = restarts.run(after)
    # twice more with the same SQL
    third = restarts.run(after, ends=True)
    if "SESSION" in after:
        assert second == [] and third == restarts.expected(after, 0)
        return
    rows = sorted(second + third, key=str)
    if begins is not None:
        start = restarts.expected(after, 0, begins)
        emitted = [row for row in rows if row in start]
        assert emitted == start
        # incomplete windows are emitted, too, each once
        assert len({(row[0], row[2]) for row in rows}) == len(rows) > len(start)
    else:
        assert rows == restarts.expected(after, 295)


REFUSED = {
    "keys": (
        query(TUMBLE),
        query(TUMBLE).replace("SELECT k", "SELECT k + 1 AS k").replace("BY k", "BY k + 1"),
        "the keys of operator 0 have changed from k to k + 1",
    ),
    "filter": (
        query(TUMBLE),
        query(TUMBLE).replace("GROUP BY", "WHERE v > 3 GROUP BY"),
        "operator 0 had the conditions none, but now has v > 3",
    ),
    "rows of other sql": (
        query(TUMBLE),
        query(TUMBLE.replace("TABLE r", "(SELECT * FROM r WHERE v > 3)")),
        "operator 0 read `r`, but now reads `SELECT * FROM r WHERE v > 3`",
    ),
    "aggregate": (
        query(TUMBLE),
        query(TUMBLE, "MIN(v) AS n, SUM(v) AS total"),
        "the state of operator 0 has COUNT(*), SUM(v), from which MIN(v) cannot be computed",
    ),
    "slices": (
        query(TUMBLE),
        query(TUMBLE.replace("'1'", "'2'")),
        "operator 0 had the window TUMBLE(size=1 min), but now has TUMBLE(size=2 min): its windows do "
        "not consist of the stored slices, which are 1 min wide",
    ),
    "finer slices": (
        query(TUMBLE),
        query(TUMBLE.replace("'1' MINUTE", "'30' SECOND")),
        "operator 0 had the window TUMBLE(size=1 min), but now has TUMBLE(size=30 s): its windows do "
        "not consist of the stored slices, which are 1 min wide",
    ),
    "finer slide": (
        query(HOP.format(4)),
        query(HOP.format(4).replace("'1' MINUTE", "'30' SECOND")),
        "operator 0 had the window HOP(slide=1 min, size=4 min), but now has HOP(slide=30 s, "
        "size=4 min): its windows do not consist of the stored slices, which are 1 min wide",
    ),
    "gaps": (
        query(HOP.format(1).replace("'1' MINUTE", "'2' MINUTE", 1)),
        query(TUMBLE),
        "operator 0 had the window HOP(slide=2 min, size=1 min), but now has TUMBLE(size=1 min): rows "
        "between its windows were not stored",
    ),
    "sessions": (
        query(SESSION.format(2)),
        query(TUMBLE),
        "operator 0 had the window SESSION(gap=2 min), but now has TUMBLE(size=1 min): sessions have no slices",
    ),
    "fewer keys": (
        query(TUMBLE),
        query(TUMBLE).replace("SELECT k, ", "SELECT ").replace("BY k, ", "BY "),
        "the keys of operator 0 have changed from k to none",
    ),
    "fewer conditions": (
        query(TUMBLE).replace("GROUP BY", "WHERE v > 3 GROUP BY"),
        query(TUMBLE),
        "operator 0 had the conditions v > 3, but now has none",
    ),
    "distinct": (
        query(TUMBLE, "COUNT(v) AS n"),
        query(TUMBLE, "COUNT(DISTINCT v) AS n"),
        "the state of operator 0 has COUNT(v), from which COUNT(DISTINCT v) cannot be computed",
    ),
    "cumulate": (
        query(CUMULATE),
        query(TUMBLE),
        "operator 0 had the window CUMULATE(step=1 min, size=30 min), but now has TUMBLE(size=1 min): "
        "a closed window of CUMULATE is a single slice",
    ),
    "gap": (
        query(SESSION.format(2)),
        query(SESSION.format(3)),
        "operator 0 had the window SESSION(gap=2 min), but now has SESSION(gap=3 min): sessions have no slices",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    among(
        REFUSED,
        long=["filter", "slices", "aggregate"],
        slow=[c for c in REFUSED if c not in ("keys", "filter", "slices", "aggregate")],
    ),
)
def test_changes_that_the_state_cannot_serve_are_refused(case: str, restarts: Restarts) -> None:
    before, after, message = REFUSED[case]
    restarts.run(before)
    kept = (restarts.directory / "ck/kept/sqlwin.json").read_text()
    with pytest.raises(ExecutionError) as caught:
        restarts.run(after)
    assert caught.value.message.endswith(f"/ck/kept: {message}")
    assert "allowed changes: " in str(caught.value.hint)
    assert (restarts.directory / "ck/kept/sqlwin.json").read_text() == kept


def start_in_vain(restarts: Restarts, sql: str) -> None:
    """Start a stream that fails at the last step, because its rows do not fit the table."""
    restarts.session.execute(
        "CREATE TABLE IF NOT EXISTS narrow (k BIGINT) WITH ('connector' = 'memory')"
    )
    with pytest.raises(SqlwinError, match="narrow"):
        restarts.session.execute(f"INSERT INTO narrow {sql}")


@pytest.mark.long
def test_a_start_that_fails_leaves_the_checkpoint_to_the_sql_before(restarts: Restarts) -> None:
    before, after = query(HOP.format(2)), query(HOP.format(3), "SUM(v) AS total")
    first = restarts.run(before)
    path = restarts.directory / "ck/kept/sqlwin.json"
    kept = path.read_bytes()
    start_in_vain(restarts, after)
    assert path.read_bytes() == kept
    # the state keeps COUNT(*)
    rows = first + restarts.run(before, ends=True)
    assert sorted(rows, key=str) == restarts.expected(before, 0)


@pytest.mark.slow
def test_a_start_that_fails_does_not_undo_the_one_before(restarts: Restarts) -> None:
    before, after = query(HOP.format(3)), query(HOP.format(2), "SUM(v) AS total")
    restarts.run(before)
    second = restarts.run(after)
    start_in_vain(restarts, query(HOP.format(4), "SUM(v) AS total"))
    rows = sorted(second + restarts.run(after, ends=True), key=str)
    assert rows == restarts.expected(after, 299)


@pytest.mark.slow
def test_an_option_that_changes_no_row_may_change(restarts: Restarts) -> None:
    sql = query(TUMBLE)
    first = restarts.run(sql)
    hinted = sql.replace("TABLE r", "TABLE r /*+ OPTIONS('max-files-per-trigger' = '2') */")
    rows = sorted(first + restarts.run(hinted, ends=True), key=str)
    assert rows == restarts.expected(sql, 0)


@pytest.mark.long
def test_a_restart_notes_its_changes_and_explain_predicts_them(restarts: Restarts) -> None:
    session, where = restarts.session, f"{restarts.directory}/ck/kept"
    session.execute(
        "CREATE TABLE s (k BIGINT, a TIMESTAMP(6), b TIMESTAMP(6), n BIGINT, total BIGINT) "
        "WITH ('connector' = 'blackhole')"
    )

    def outlook(sql: str) -> str:
        explained = session.execute(f"EXPLAIN INSERT INTO s {sql}")[-1].text
        return explained.partition("== Checkpoint ==\n")[2].strip()

    assert outlook(query(TUMBLE)) == f"{where}: new"
    restarts.run(query(TUMBLE))
    wider, changed = (
        query(HOP.format(3)),
        "TUMBLE(size=1 min) changed to HOP(slide=1 min, size=3 min)",
    )
    assert outlook(query(TUMBLE)) == f"{where}: the stream resumes"
    assert outlook(wider) == f"{where}: the stream resumes with changed SQL: {changed}"
    refused = outlook(query(TUMBLE, "MIN(v), SUM(v)"))
    assert refused.startswith(
        f"{where}: refused, because it belongs to another query: "
        "the state of operator 0 has COUNT(*)"
    )
    session.execute("SET 'sqlwin.end-of-input' = 'hold-windows'")
    notes = session.execute(f"INSERT INTO s {wider}")[-1].notes
    assert f"the checkpoint resumes with changed SQL: {changed}" in notes
    assert (
        "rows before 1970-01-01 00:04:00 are no longer stored: the first complete window ends at "
        "1970-01-01 00:07:00"
    ) in notes
