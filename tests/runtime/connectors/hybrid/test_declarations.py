"""Declarations of hybrid tables: the refused ones, and what their errors name."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.connectors.filesystem.splits import FileSplits
from runtime.connectors.hybrid.copies import CopySource
from runtime.connectors.hybrid.history import HistoryPlan
from runtime.connectors.hybrid.parts import Parts
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, ExecutionError, SetupError
from runtime.records import to_text
from runtime.refusal import Refused
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column, TableColumn, TableSpec, Watermark
from runtime.spec.text import FileSource
from tests.runtime.connectors.tables import table
from tests.unstarted import unstarted_spark

COLUMNS = "id BIGINT; ts TIMESTAMP_NTZ; v STRING"
FILES = table("filesystem", COLUMNS, path="/files", format="parquet")
TOPIC = table(
    "kafka",
    COLUMNS,
    topic="t",
    format="json",
    properties__bootstrap__servers="localhost:9",
)
OPTIONS = {"first": "history", "then": "live", "overlap": "1 min", "overlap.key": "id"}
WATERMARK = Watermark("ts", "ts - INTERVAL 5 SECONDS")


def hybrid(first: TableSpec = FILES, then: TableSpec = TOPIC, **changes: str | None) -> TableSpec:
    """Return a hybrid table, without the options that are None."""
    options = OPTIONS | {name.replace("__", "."): value for name, value in changes.items()}
    return TableSpec(
        "events",
        "hybrid",
        FILES.columns,
        tuple((name, value) for name, value in options.items() if value is not None),
        watermark=WATERMARK,
        parts=(replace(first, name="history"), replace(then, name="live")),
    )


def parts_of(spec: TableSpec) -> Parts:
    return open_table(spec).both  # type: ignore[attr-defined]


def with_columns(spec: TableSpec, columns: str) -> TableSpec:
    return replace(spec, columns=table("filesystem", columns).columns)


def with_options(spec: TableSpec, **options: str) -> TableSpec:
    return replace(spec, options=tuple({**spec.option_map, **options}.items()))


DELTA = table("delta", COLUMNS, path="/delta")
STORED = {"overlap": "stored-offsets", "overlap__key": None}
MONITORED = replace(FILES, options=(*FILES.options, ("source.monitor-interval", "1 s")))
WRONG = {
    "no overlap": (hybrid(overlap=None), "option 'overlap' is missing"),
    "a wrong overlap": (hybrid(overlap="some"), "invalid value 'some' for option 'overlap'"),
    "a long overlap": (hybrid(overlap="36501 d"), "invalid value '36501 d' for option 'overlap'"),
    "a nested key": (
        replace(
            hybrid(*(with_columns(t, f"{COLUMNS}; a ARRAY<INT>") for t in (FILES, TOPIC))),
            columns=table("filesystem", f"{COLUMNS}; a ARRAY<INT>").columns,
            options=(*{**OPTIONS, "overlap.key": "id;A"}.items(),),
        ),
        "the key of the overlap cannot have column `A` of type",
    ),
    "partitions": (
        replace(hybrid(), partitioned_by=("id",)),
        "table `events` is partitioned, but stores no rows itself",
    ),
    "changes": (
        hybrid(
            then=replace(TOPIC, options=tuple({**TOPIC.option_map, "format": "canal-json"}.items()))
        ),
        "`live` cannot be 'then': messages of format 'canal-json' are changes of rows",
    ),
    "no key": (hybrid(overlap__key=None), "'overlap' needs a key to drop the rows that both"),
    "an unknown key": (hybrid(overlap__key="id;k"), "the key of the overlap names column `k`"),
    "no start": (hybrid(overlap="allow"), "'overlap' = 'allow' does not say where `live` starts"),
    "offsets of files": (
        hybrid(**STORED),
        "'overlap' = 'stored-offsets' needs a table of Delta as 'first', not `history`",
    ),
    "offsets of many topics": (
        hybrid(DELTA, with_options(TOPIC, topic="t;u"), **STORED),
        "'overlap' = 'stored-offsets' needs a single topic of Kafka as 'then', not `live`",
    ),
    "offsets for files": (
        hybrid(DELTA, FILES, **STORED),
        "'overlap' = 'stored-offsets' needs a single topic of Kafka as 'then', not `live`",
    ),
    "offsets and a start": (
        hybrid(DELTA, with_options(TOPIC, **{"scan.startup.mode": "latest-offset"}), **STORED),
        "'overlap' = 'stored-offsets' needs no 'scan.startup.mode' of `live`",
    ),
    "an unbounded first": (hybrid(MONITORED), "`history` cannot be 'first': it is unbounded"),
    "a topic first": (hybrid(TOPIC), "`history` cannot be 'first': it is unbounded"),
    "another connector": (
        hybrid(then=table("datagen", COLUMNS)),
        "`live` cannot be 'then': connector 'datagen' cannot continue a table",
    ),
    "a missing column": (
        hybrid(with_columns(FILES, "id BIGINT; ts TIMESTAMP_NTZ")),
        "`history`, its 'first', has no column `v`",
    ),
    "another type": (
        hybrid(then=with_columns(TOPIC, COLUMNS.replace("id BIGINT", "id INT"))),
        "`live`, its 'then', has `id` as INT, not BIGINT",
    ),
    "another column": (
        hybrid(with_columns(FILES, f"{COLUMNS}; w INT")),
        "`history`, its 'first', has another column `w`",
    ),
    "no watermark": (replace(hybrid(), watermark=None), "table `events` has no watermark"),
    "a computed time": (
        replace(
            hybrid(),
            columns=(*FILES.columns, TableColumn("at", None, computed="CAST(v AS TIMESTAMP)")),
            watermark=Watermark("at", "at"),
        ),
        "the watermark must be on a TIMESTAMP column that both tables store, not on `at`",
    ),
    "a wrong part": (
        hybrid(replace(FILES, options=(*FILES.options, ("pth", "x")))),
        "unknown option 'pth'",
    ),
    "no parts": (replace(hybrid(), parts=()), "the tables that 'first' and 'then' name are unk"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_refused(name: str) -> None:
    spec, message = WRONG[name]
    with pytest.raises(CatalogError) as caught:
        open_table(spec).check()
    assert message in caught.value.message


def first_of(parts: Parts, *columns: Column) -> FileSource | CopySource:
    """Return what tasks read of the first table. `parts` reads all columns by default."""
    return parts.scans(unstarted_spark(), columns or parts.columns)[0]


def test_a_first_table_without_snapshots_is_refused() -> None:
    parts = parts_of(hybrid(table("datagen", COLUMNS, number_of_rows="5")))
    with pytest.raises(Refused, match="history: Spark reads tables of connector 'datagen'"):
        first_of(parts)


def test_a_first_table_that_tasks_do_not_read_as_files_is_copied(tmp_path) -> None:
    url = {"url": "postgresql:///d", "table_name": "t"}
    parts = parts_of(hybrid(table("postgres", COLUMNS, **url)))
    assert first_of(parts) == CopySource("postgres", "it is not a table of files")
    others = ScanSource("/files", (), (), others=(ScanFile("/files/0.orc"),))
    first = SimpleNamespace(spec=FILES, scan=lambda *_: others, has_snapshots=True)
    parts = replace(parts_of(hybrid()), first=first)
    assert first_of(parts) == CopySource("filesystem", "only Spark reads some of its files")
    (tmp_path / "v=a").mkdir()
    (tmp_path / "v=a" / "0.csv").write_text("1,2026-01-01 00:00:00\n")
    options = (("path", str(tmp_path)), ("format", "csv"))
    partitioned = replace(FILES, options=options, partitioned_by=("v",))
    source = first_of(parts_of(hybrid(partitioned)))
    assert source == CopySource("filesystem", "its files of text are partitioned")


def test_tasks_read_flat_columns_of_a_copy() -> None:
    parts = parts_of(hybrid(table("postgres", COLUMNS)))
    for column in (Column("tags", "array<int>"), Column("a.b", "int")):
        with pytest.raises(Refused, match=f"it is not a table of files, and column {column.name}"):
            first_of(parts, column)


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_history_without_files_is_named(file_format: str, tmp_path) -> None:
    files = replace(FILES, options=(("path", str(tmp_path)), ("format", file_format)))
    parts = parts_of(hybrid(files))
    with pytest.raises(Refused, match="history: there are no files"):
        parts.scans(unstarted_spark(), parts.columns)


def test_files_that_continue_a_table_need_a_checkpoint_on_a_disk() -> None:
    with pytest.raises(SetupError, match="continues with files only if they are on a disk"):
        FileSplits(unstarted_spark(), FILES).offsets("hdfs://host/checkpoint")


def test_right_declarations() -> None:
    open_table(hybrid()).check()
    open_table(replace(hybrid(overlap__key=None), primary_key=("ID",))).check()
    started = replace(TOPIC, options=(*TOPIC.options, ("scan.startup.mode", "earliest-offset")))
    open_table(hybrid(then=started, overlap="allow", overlap__key=None)).check()
    open_table(hybrid(DELTA, **STORED)).check()
    assert open_table(hybrid()).is_unbounded
    assert not open_table(hybrid(then=FILES)).is_unbounded


def test_the_topic_starts_at_the_overlap_unless_it_says_where() -> None:
    def start_ms(type_: str, at_us: int) -> str:
        columns = table("filesystem", COLUMNS.replace("TIMESTAMP_NTZ", type_)).columns
        parts = parts_of(replace(hybrid(), columns=columns))
        options = parts.then_from(at_us).spec.option_map
        assert options["scan.startup.mode"] == "timestamp"
        return options["scan.startup.timestamp-millis"]

    assert start_ms("TIMESTAMP", 5_999_999) == "5999"
    # a wall clock may be 14 hours ahead of UTC
    assert start_ms("TIMESTAMP_NTZ", 14 * 3_600_000_000 + 7_000) == "7"
    assert start_ms("TIMESTAMP_NTZ", 5_999_999) == "0"
    # no row of the first has a time, so all rows of the second count
    options = parts_of(hybrid()).then_from(None).spec.option_map
    assert options["scan.startup.mode"] == "earliest-offset"
    started = replace(TOPIC, options=(*TOPIC.options, ("scan.startup.mode", "latest-offset")))
    parts = parts_of(hybrid(then=started))
    assert parts.then_from(5_999_999) is parts.then
    parts = parts_of(hybrid(then=started, overlap="allow"))
    assert parts.then_from(None) is parts.then


@pytest.mark.parametrize("name", ["latestFirst", "source.path.regex-pattern", "clean-source"])
def test_options_of_sparks_file_source_are_refused(name: str) -> None:
    spec = replace(FILES, options=(*FILES.options, (name, "true")))
    with pytest.raises(CatalogError, match=f"option '{name}' is not supported for files that"):
        FileSplits(None, spec).offsets("/checkpoint")  # type: ignore[arg-type]


def test_parts_are_tables_of_the_session(fresh_session: sqlwin.Session, tmp_path) -> None:
    files = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    columns = "id BIGINT, ts TIMESTAMP(3)"
    fresh_session.execute(f"""
        CREATE TABLE history ({columns}) WITH ({files});
        CREATE TABLE live ({columns}, WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED)
        WITH ({files});
        CREATE VIEW shown AS SELECT * FROM history;
        CREATE TABLE `a.b` LIKE live""")
    hybrid_of = (
        "CREATE TABLE events WITH "
        "('connector' = 'hybrid', 'first' = '{}', 'then' = '{}', 'overlap' = '1 s')"
    )
    for first, then, message in (
        ("histori", "live", "table `histori` does not exist"),
        ("shown", "live", "table `events`: `shown` cannot be 'first': it is a view"),
        ("live", "history", "table `events` has no watermark"),
    ):
        with pytest.raises(sqlwin.SqlwinError) as caught:
            fresh_session.execute(hybrid_of.format(first, then))
        assert message in caught.value.message
    fresh_session.execute(f"{hybrid_of.format('history', 'a.b')}; DROP TABLE events")
    # with columns, watermark and key of `live`
    fresh_session.execute(hybrid_of.format("history", "live"))
    (rows,) = fresh_session.execute("SELECT * FROM events")
    assert list(rows.columns) == ["id", "ts"]
    with pytest.raises(sqlwin.SqlwinError, match="connector 'hybrid' is a source only"):
        fresh_session.execute("INSERT INTO events SELECT * FROM history")
    with pytest.raises(sqlwin.SqlwinError, match="a query cannot change 'first'"):
        fresh_session.execute("SELECT * FROM events /*+ OPTIONS('First' = 'live') */")
    # the definitions of the parts stay
    fresh_session.execute("DROP TABLE history; ALTER TABLE events RENAME TO both")
    fresh_session.execute("ALTER TABLE both SET ('overlap' = '2 s')")
    (rows,) = fresh_session.execute("SELECT * FROM both")
    assert list(rows.columns) == ["id", "ts"]
    with pytest.raises(sqlwin.SqlwinError, match="table `history` does not exist"):
        fresh_session.execute("ALTER TABLE both SET ('FIRST' = 'history')")


def test_lines_that_arrive_continue_a_table(tmp_path) -> None:
    (tmp_path / "0.csv").write_text("1,2026-01-01 00:00:00,a\n")
    options = (("path", str(tmp_path)), ("format", "csv"))
    files = replace(FILES, options=options)
    arriving = replace(FILES, options=(*options, ("source.monitor-interval", "1 s")))
    parts = parts_of(hybrid(files, arriving))
    assert parts.then.is_unbounded
    _, then = parts.scans(unstarted_spark(), parts.columns)
    assert [file.path for file in then.files] == [str(tmp_path / "0.csv")]


def test_a_plan_of_another_format_is_refused_by_name(tmp_path) -> None:
    path = tmp_path / "history.json"
    path.write_text(to_text(HistoryPlan(()), 1))
    splits = open_table(hybrid()).splits(unstarted_spark())
    with pytest.raises(ExecutionError) as caught:
        splits.stream(str(tmp_path))
    formats = "it has format 1, but this sqlwin reads format 3"
    assert caught.value.message == f"cannot resume from {path}: {formats}"
    path.write_text("{")
    with pytest.raises(ExecutionError, match=f"cannot resume from {path}: no JSON: "):
        splits.stream(str(tmp_path))


WINDOW = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
COUNTS = f"SELECT window_start, window_end, COUNT(*) AS n FROM {WINDOW} GROUP BY window_start, window_end"


@pytest.mark.long
def test_a_stream_says_why_it_cannot_read_a_table(fresh_session: sqlwin.Session, tmp_path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": [1], "ts": [dt.datetime(2026, 5, 1)]}), path)  # noqa: DTZ001
    columns = "id BIGINT, ts TIMESTAMP(6)"
    files = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'"
    topic = (
        "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:9', "
        "'scan.startup.mode' = 'earliest-offset', 'format' = 'json'"
    )
    of_hybrid = "WITH ('connector' = 'hybrid', 'first' = 'history', 'overlap' = 'allow', 'then' ="
    fresh_session.execute(f"""
        CREATE TABLE history ({columns}) WITH ({files});
        CREATE TABLE arriving ({columns}, WATERMARK FOR ts AS ts) WITH ({files});
        CREATE TABLE live ({columns}, WATERMARK FOR ts AS ts)
        WITH ({topic}, 'key.format' = 'json', 'key.fields' = 'id');
        CREATE TABLE events {of_hybrid} 'live');
        CREATE TABLE others {of_hybrid} 'arriving');
        SET 'execution.runtime-mode' = 'streaming'""")
    window_join = (
        f"SELECT a.n FROM ({COUNTS.format('others')}) a JOIN ({COUNTS.format('events')}) b "
        "ON a.window_start = b.window_start AND a.window_end = b.window_end"
    )
    message = "a stream cannot read `events`: live: Spark decodes the keys"
    for query in ("SELECT * FROM events", COUNTS.format("events"), window_join):
        check_refused(fresh_session, query, message, "events")
    now = "SELECT id, CURRENT_WATERMARK(ts) FROM others"
    message = "CURRENT_WATERMARK is not supported for `others`, whose watermark waits for the "
    check_refused(fresh_session, now, f"{message}history that is still to be read", "CURRENT_W")
    # tasks read the windows, and the group reads these
    above = f"SELECT n, COUNT(*) AS m FROM ({COUNTS.format('others')}) GROUP BY n"
    for query in (above, window_join.replace("events", "others"), COUNTS.format("others")):
        assert fresh_session.explain(query).count("others reads history (") >= 1


def check_refused(session: sqlwin.Session, query: str, message: str, place: str) -> None:
    """Check that a query is refused before it starts, at a place."""
    with pytest.raises(sqlwin.SqlwinError) as caught:
        session.execute(query)
    assert caught.value.message == message
    assert caught.value.position is not None
    at = query[caught.value.position.offset :]
    assert at.removeprefix("TABLE ").startswith(place), query
