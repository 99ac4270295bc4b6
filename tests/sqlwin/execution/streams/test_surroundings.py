"""A stream's identity does not depend on its place, the spelling of its SQL, or earlier statements.

Nothing runs here: streams are planned, and their identities compared. Processes with other cores
are tested in `tests/end_to_end/recovery/test_killed_operators.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.redaction import DEFAULT
from runtime.refusal import Refusal, tried
from runtime.spark.files import resolve
from runtime.streaming.identity import Identity, difference
from sqlwin import windows as w
from sqlwin.execution import statement_sets
from sqlwin.execution.lowered import LoweredStream
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.describe import identity_of
from sqlwin.execution.streams.options import stream_options

TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
HOP = "TABLE(HOP(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES))"
SESSION = "TABLE(SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECONDS))"


def totals(window: str, source: str = "r", aggregates: str = "COUNT(*) AS n, SUM(v) AS s") -> str:
    return (
        f"SELECT k, window_start, window_end, {aggregates} FROM {window.format(source)} "
        "WHERE v > 3 AND UPPER(t) <> 'Rest' GROUP BY k, window_start, window_end"
    )


ON = "a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k"
# By name; several INSERTs are a statement set
KINDS: dict[str, tuple[str, ...]] = {
    "windows": (totals(HOP, aggregates="AVG(v) AS a, COUNT(DISTINCT t) AS d, TWICE(SUM(v)) AS s"),),
    "session": (totals(SESSION),),
    "view": (totals(TUMBLE, "seen"),),
    "updates": (totals(TUMBLE, aggregates="MAX(v + c) AS m"),),
    "set": (totals(TUMBLE), totals(HOP, aggregates="MAX(t) AS m"), "SELECT k, v FROM q"),
    "groupings": (
        f"SELECT k, t, window_end, COUNT(*) AS n FROM {TUMBLE.format('r')} "
        "GROUP BY window_start, window_end, ROLLUP (k, t)",
    ),
    "rank": (
        f"SELECT * FROM {TUMBLE.format('r')} QUALIFY ROW_NUMBER() OVER (PARTITION BY "
        "window_start, window_end, k ORDER BY v DESC, ts) <= 2",
    ),
    "join": (f"SELECT a.k, a.n, b.s FROM ({totals(TUMBLE)}) a JOIN ({totals(TUMBLE, 'q')}) b ON {ON}",),
    "no state": ("SELECT k, v + c AS w FROM r WHERE v > 3 UNION ALL SELECT k, v FROM q",),
    "functions": ("SELECT k, n FROM made WHERE n > 1",),
}  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """Environment in which streams start.

    Attributes:
        settings: Settings.
        path: Returns the path of a table, relative to the current directory.
        directory: Current directory, below the test's.
        options: Options of tables, in order.
        ddl: Changes the text of table definitions.
        sql: Changes the text of queries.
        n_files: Number of files per table.
        is_used: Whether earlier statements ran in the session.
    """

    settings: dict[str, str] = field(default_factory=dict)
    path: str = "{directory}/data/{name}"
    directory: str = "."
    options: tuple[str, ...] = ("connector", "path", "format")
    ddl: Callable[[str], str] = str
    sql: Callable[[str], str] = str
    n_files: int = 1
    is_used: bool = False


def outside_literals(change: Callable[[str], str], text: str) -> str:
    parts = re.split(r"('[^']*')", text)
    return "".join(part if n % 2 else change(part) for n, part in enumerate(parts))


def change_case(sql: str) -> str:
    quoted = partial(re.sub, r"(?<![\w.`(])(k|v|t|ts)(?![\w.`(])", r"`\1`")
    tables = partial(re.sub, r"\b(FROM|TABLE|JOIN) (r|q|seen|made)\b", r"\1 `\2`")
    upper = partial(re.sub, r"\b(v|t|ts)\b(?! AS)", lambda match: match[0].upper())
    lower = partial(re.sub, r"\b(SUM|COUNT|UPPER|TWICE|MAX|AND|WHERE)\b", lambda f: f[0].lower())
    for change in (upper, lower, quoted, tables):
        sql = outside_literals(change, sql)
    return sql


ELSEWHERE = {
    "parallelism": Surroundings(
        {
            "spark.sql.shuffle.partitions": "11",
            "sqlwin.exchange.partitions": "5",
            "sqlwin.exchange.buckets": "40",
            "sqlwin.state.bucket-bytes": "1 mb",
        },
        n_files=7,
    ),
    "paths": Surroundings(path="../data/./{name}/", directory="deeper"),
    "uris": Surroundings(path="file://{directory}/data/{name}"),
    "definitions": Surroundings(
        options=("format", "path", "connector"),
        ddl=lambda ddl: (
            ddl.replace("'filesystem'", "'FileSystem'")
            .replace("'parquet'", "'PARQUET'")
            .replace("'path' =", "'Path' =")
            .replace("'format' =", "'FORMAT' =")
            .replace("TABLE r", "TABLE `R`")
            .replace("ts - INTERVAL '3' SECOND", "`TS`  -  INTERVAL '3' SECONDS")
            .replace("c AS v * 2", "C AS `V`*2")
        ),
    ),
    "spellings": Surroundings(sql=change_case),
    "comments": Surroundings(
        sql=lambda sql: sql.replace("SELECT ", "SELECT /* it's new */ ")
        .replace(" AND ", "\n  -- and\n AND /* more */ ")
        .replace("v > 3", "v > /* few */ 3")
    ),
    "qualified": Surroundings(
        sql=lambda sql: re.sub(r"(TABLE|FROM) ([rq])\b", r"\1 default_catalog.default_database.\2", sql)
    ),
    "used session": Surroundings(is_used=True),
    "rows by Spark": Surroundings(
        {"sqlwin.optimizer.disabled-rules": "push_local_aggregate_into_scan"}
    ),
}  # fmt: skip
# All changes at once
ALL = Surroundings(
    {**ELSEWHERE["parallelism"].settings, **ELSEWHERE["rows by Spark"].settings},
    path="../data/./{name}/",
    directory="deeper",
    options=("format", "path", "connector"),
    ddl=ELSEWHERE["definitions"].ddl,
    sql=lambda sql: ELSEWHERE["comments"].sql(change_case(ELSEWHERE["qualified"].sql(sql))),
    n_files=7,
    is_used=True,
)


@pytest.fixture
def identities(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Surroundings], dict[str, list[Identity]]]]:
    """Provide a function that returns the identities of all kinds of streams."""
    result: list[Identity] = []

    def start_stream(plans: Plans, lowered: LoweredStream, *_: Any) -> str:
        options, place = stream_options(plans.config), partial(resolve, plans.spark)
        result.append(identity_of(lowered, options, DEFAULT, place))
        return Refusal("not started")

    monkeypatch.setattr(statement_sets, "start_stream", start_stream)

    def in_surroundings(surroundings: Surroundings) -> dict[str, list[Identity]]:
        (tmp_path / surroundings.directory).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / surroundings.directory)
        own = spark.newSession()
        with sqlwin.connect(own, settings={"execution.runtime-mode": "streaming"}) as session:
            for name, value in surroundings.settings.items():
                session.execute(f"SET '{name}' = '{value}'")
            define(session, surroundings, tmp_path)
            kinds = {}
            for kind, queries in KINDS.items():
                result.clear()
                session.execute(statement(surroundings, kind, queries))
                kinds[kind] = list(result)
        return kinds

    yield in_surroundings


def define(session: sqlwin.Session, surroundings: Surroundings, directory: Path) -> None:
    """Define the tables `r` and `q`, the view `seen`, the windows `made`, the function `twice`."""
    for name in "rq":
        (directory / "data" / name).mkdir(parents=True, exist_ok=True)
        for number in range(surroundings.n_files):
            rows = pa.table(
                {
                    "k": pa.array([1, 2], pa.int64()),
                    "v": pa.array([3, 4], pa.int64()),
                    "t": ["a", "b"],
                    "ts": pa.array([number, number + 1], pa.timestamp("us")),
                }
            )
            pq.write_table(rows, directory / "data" / name / f"{number}.parquet")
        columns = {
            "connector": "filesystem",
            "path": surroundings.path.format(directory=directory, name=name),
            "format": "parquet",
        }
        options = ", ".join(f"'{option}' = '{columns[option]}'" for option in surroundings.options)
        session.execute(
            surroundings.ddl(
                f"CREATE TABLE {name} (k BIGINT, v BIGINT, t STRING, ts TIMESTAMP(6), c AS v * 2, "
                f"WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ({options})"
            )
        )
    rows = session.spark.readStream.schema("k bigint, ts timestamp_ntz")
    frame = rows.parquet(str(directory / "data/r"))
    if surroundings.is_used:
        session.execute(f"CREATE VIEW other AS SELECT * FROM ({totals(TUMBLE)})")
        session.execute(f"EXPLAIN {totals(HOP, 'q')}")
        session.execute("EXPLAIN SELECT k FROM other WHERE n > 1")
        windows_over(session, frame, "before")
    session.register_function("twice", lambda values: values, "bigint")
    session.execute(
        surroundings.sql("CREATE VIEW seen AS SELECT k, v, t, ts FROM r WHERE v IS NOT NULL")
    )
    windows_over(session, frame, "made")
    session.execute("CREATE TABLE o (n INT) WITH ('connector' = 'print')")
    for number in range(3):
        session.execute(f"CREATE TABLE o{number} (n INT) WITH ('connector' = 'blackhole')")


def windows_over(session: sqlwin.Session, rows: Any, name: str) -> None:
    count = w.WholeWindowFunction(lambda key, window, rows: [(len(rows),)])
    session.windows(
        rows,
        keys=["k"],
        time="ts",
        watermark="1 second",
        window=w.tumble("1 minute"),
        function=count,
        output="n bigint",
        name=name,
    )


def statement(surroundings: Surroundings, kind: str, queries: tuple[str, ...]) -> str:
    texts = [surroundings.sql(query) for query in queries]
    if len(texts) > 1:
        inserts = "; ".join(f"INSERT INTO o{number} {text}" for number, text in enumerate(texts))
        return f"EXECUTE STATEMENT SET BEGIN {inserts}; END"
    if kind != "updates":
        return f"INSERT INTO o {texts[0]}"
    early = "'table.exec.emit.early-fire.enabled'"
    return f"SET {early} = 'true'; INSERT INTO o {texts[0]}; RESET {early}"


def differences(
    before: dict[str, list[Identity]], after: dict[str, list[Identity]]
) -> dict[str, list[object]]:
    """Return by kind why streams could not resume."""
    result: dict[str, list[object]] = {}
    for kind, old in before.items():
        compared = [tried(difference, *pair) for pair in zip(old, after[kind], strict=True)]
        other = [
            item for item in compared if isinstance(item, Refusal) or any(o.changes for o in item)
        ]
        if other:
            result[kind] = other
    return result


@pytest.mark.long
def test_a_stream_started_in_another_place_is_the_same(
    identities: Callable[[Surroundings], dict[str, list[Identity]]],
) -> None:
    original = identities(Surroundings())
    assert [len(streams) for streams in original.values()] == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert differences(original, identities(ALL)) == {}


# all of them at once: see above
@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_surroundings_do_not_change_a_streams_identity(
    elsewhere: str, identities: Callable[[Surroundings], dict[str, list[Identity]]]
) -> None:
    assert differences(identities(Surroundings()), identities(ELSEWHERE[elsewhere])) == {}


OTHERS = {
    "condition": lambda text: text.replace("v > 3", "v > 4"),
    "literal": lambda text: text.replace("'Rest'", "'rest'"),
    "view": lambda text: text.replace("v IS NOT NULL", "v IS NOT NULL AND k > 1"),
    "computed column": lambda text: text.replace("c AS v * 2", "c AS v * 3"),
    "table": lambda text: text.replace("/data/q", "/data/r"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        # a condition after SESSION applies to complete sessions, and so does not change the state
        ("condition", {"windows", "view", "updates", "set", "join", "no state"}),
        ("literal", {"windows", "view", "updates", "set", "join"}),
        ("view", {"view"}),
        ("computed column", KINDS.keys() - {"functions"}),
        ("table", {"set", "join", "no state"}),
    ],
)
def test_a_stream_of_other_rows_is_another_one(
    other: str, kinds: set[str], identities: Callable[[Surroundings], dict[str, list[Identity]]]
) -> None:
    original = Surroundings()
    changed = replace(original, sql=OTHERS[other], ddl=OTHERS[other])
    assert differences(identities(original), identities(changed)).keys() == kinds


@pytest.mark.long
def test_a_stream_with_another_delay_is_the_same(
    identities: Callable[[Surroundings], dict[str, list[Identity]]],
) -> None:
    def longer(text: str) -> str:
        return text.replace("'3' SECOND", "'4' SECOND")

    original = Surroundings()
    changed = replace(original, sql=longer, ddl=longer)
    assert not differences(identities(original), identities(changed))
