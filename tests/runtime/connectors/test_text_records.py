"""Records of text that Spark reads in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from runtime.frames.reports import report_of
from runtime.streaming.source_reads import reads_of_sources
from runtime.streaming.status import Tally, stream_status


def create(session: sqlwin.Session, path: Path, options: str) -> None:
    session.execute(
        f"CREATE TABLE t (k STRING, n STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = 'csv', 'header' = 'true', {options})"
    )


def test_repeated_headers_are_dropped_in_every_part_of_a_file(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("k,n\na,1\n" * 30)
    create(
        fresh_session,
        tmp_path / "t.csv",
        "'csv.disable-quote-character' = 'true', 'csv.skip-repeated-headers' = 'true'",
    )
    conf, name = fresh_session.spark.conf, "spark.sql.files.maxPartitionBytes"
    before = conf.get(name)
    conf.set(name, "64b")
    try:
        (result,) = fresh_session.execute("SELECT DISTINCT k, n FROM t")
        assert result.to_arrow().to_pylist() == [{"k": "a", "n": "1"}]
    finally:
        conf.set(name, before)


def test_lines_are_not_skipped_with_a_delimiter_of_several_characters(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("made by hand\nk||n\na||1\n")
    create(
        fresh_session, tmp_path / "t.csv", "'csv.skip-lines' = '1', 'csv.field-delimiter' = '||'"
    )
    with pytest.raises(sqlwin.SqlwinError, match=r"the delimiter '\|\|' has several characters"):
        fresh_session.execute("SELECT k FROM t")


@pytest.mark.long
def test_a_stream_counts_records_and_not_files(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.csv").write_text("made by hand\nk,n\n" + f"{name},1\n" * 20)
    create(fresh_session, tmp_path / "in", "'csv.skip-lines' = '1'")
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    rows = fresh_session.sql("SELECT l.k FROM t AS l UNION ALL SELECT n FROM t")
    assert rows.isStreaming
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "kept"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    reads = reads_of_sources(rows)
    status = [stream_status([report_of(p)], [], Tally(0), reads) for p in query.recentProgress]
    assert sum(item.n_input_rows for item in status) == 40
