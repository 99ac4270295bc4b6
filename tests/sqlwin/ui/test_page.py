"""The monitoring page in a browser."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.frames.reports import report_of
from sqlwin.execution.activity import TimeSpan
from sqlwin.session import Session
from sqlwin.ui.server import serve
from sqlwin.ui.snapshot import Watched
from tests.sqlwin.display.browser import CONTRAST, chromium, open_page
from tests.sqlwin.ui.sessions import (
    SECOND,
    FakeJobs,
    finished_statement,
    progress,
    rows_of_windows,
    stage,
    stream,
    watched,
)

SCRIPT = "</script><script>hacked = 1</script><b>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as result:
        yield result


def busy_session(text: str = SCRIPT) -> Watched:
    """Return a session with a stream of two sources, a running batch, and finished statements.

    Args:
        text: Text in the stream's statement, and a key of its windows.
    """
    query = f"SELECT '{text}' AS k, window_start, window_end, n FROM minutes"
    item, _ = stream(sources=("bids", "asks"), statement=f"INSERT INTO totals {query}")
    now = time.time()
    for batch in range(40):
        at = now - 40 + batch
        mark = int((at - 4) * SECOND)
        asks = int((at - 4 - batch / 2) * SECOND)
        item.run.n_rows = 30 * batch
        size = (100 + batch * 7 % 50, 50_000 + 900 * (batch * 7 % 50))
        reported = progress(
            batch,
            1000 + 300 * (batch % 7),
            at=at,
            watermarks_us=(mark, asks),
            late=batch % 3,
            state=size,
            next_end_us=mark + 30 * SECOND,
        )
        reported["durationMs"]["addBatch"] += 20 * (batch % 5)
        item.history.take(report_of(reported))
    item.run.latest.take(
        "totals", rows_of_windows(int(now - 30) // 60 - 4, 4, ("apples", "pears", text))
    )
    jobs = FakeJobs()
    session = watched(item, jobs=jobs, spark_ui="http://127.0.0.1:4040")
    finished_statement(
        session, "CREATE TABLE bids (k STRING, ts TIMESTAMP(3), v INT) WITH ('connector' = 'kafka')"
    )
    finished_statement(
        session, f"INSERT INTO totals SELECT '{text}'", "insert", "stream 1 is running"
    ).record_stream(1)
    result = finished_statement(session, "SELECT k, COUNT(*) FROM bids GROUP BY k", "query", "")
    result.compute_rows(lambda: [1, 2, 3])
    spans = (
        TimeSpan("planning", now - 9, now - 8.6),
        TimeSpan("computing rows", now - 8.5, now - 2.1),
    )
    result.record = replace(result.record, begun=now - 9, ended=now - 2, spans=spans)
    jobs.found[result.record.tag] = (
        stage(0, "done", 8, 8, now - 8.5, 4.0),
        stage(1, "done", 4, 4, now - 4.4, 2.0),
    )
    failed = session.activity.begin("SELECT 1 / 0")
    failed.record_failure(ZeroDivisionError("division by zero"))
    runs = session.activity.begin("INSERT INTO archive SELECT * FROM bids")
    jobs.found[runs.record.tag] = (stage(7, "running", 20, 5, now - 0.5, 1.0),)
    return session


@contextmanager
def page_of(session: Watched) -> Iterator[str]:
    page = serve(session, 0)
    try:
        yield page.url
    finally:
        page.close()


@pytest.fixture(scope="module")
def busy_tab(browser: Any) -> Iterator[Any]:
    """Provide the page of a busy session, which several tests look at."""
    with page_of(busy_session()) as url, open_page(browser, url) as tab:
        yield tab


def wait_for_update(tab: Any) -> None:
    """Wait until the page shows a state that it has requested from now on."""
    # the first response may belong to an earlier request, and is shown when the second arrives
    for _ in range(2):
        with tab.expect_response(lambda response: "/api/state" in response.url):
            pass


def test_a_stream_shows_windows_watermarks_and_charts(busy_tab: Any) -> None:
    card = busy_tab.locator("[data-stream]")
    card.wait_for()
    assert card.locator("h3").inner_text() == "totals"
    assert card.locator(".badge").inner_text() == "running"
    assert "held back by `asks`" in card.locator(".waits").first.inner_text()
    result = dict(zip(
        card.locator(".facts dt").all_inner_texts(),
        card.locator(".facts dd").all_inner_texts(),
        strict=True,
    ))  # fmt: skip
    assert result["Rows read"] == f"{sum(1000 + 300 * (b % 7) for b in range(40)):,}"
    assert result["Emitted"] == "1,170" and result["Late"] == str(sum(b % 3 for b in range(40)))
    # one way of counting, and a word that tells the lag of now from that of the chart
    assert result["Micro-batches"].startswith("40 · last ")
    assert card.get_by_text("Time spent in 40 micro-batches").count() == 1
    assert "Behind now" in result and card.locator(".wide th").nth(2).inner_text() == "behind now"
    sources = [row.split("\t") for row in card.locator(".wide tbody tr").all_inner_texts()]
    assert [(row[0], row[3]) for row in sources] == [
        ("bids", ""),
        ("asks", "holds the watermark back"),
    ]
    titles = card.locator(".chart:visible figcaption b").all_inner_texts()
    assert titles == [
        "Rows read", "Rows emitted", "Behind at each micro-batch",
        "Micro-batches", "State", "Late and dropped",
    ]  # fmt: skip
    assert card.locator(".chart .line").count() >= 4 and card.locator(".chart .bar").count() > 40
    rows = [row.split("\t") for row in card.locator(".latest tbody tr").all_inner_texts()]
    assert len(rows) == 12
    assert rows[0][2] > rows[-1][2]
    # a line above each window but the first
    assert card.locator(".latest tr.next").count() == 3


def test_a_row_shows_the_statement_that_explains_it(
    browser: Any, fresh_session: Session, tmp_path: Path
) -> None:
    times = [dt.datetime(2026, 5, 1, 10, 0, second) for second in (1, 20, 59)]  # noqa: DTZ001
    keys = ["it's", None, "it's"]
    path = tmp_path / "bids.parquet"
    pq.write_table(pa.table({"ts": times, "k": keys, "v": [0.25, 2.0, 0.5]}), path)
    fresh_session.execute(
        "CREATE TABLE bids (ts TIMESTAMP(3), k STRING, v DOUBLE, WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')"
    )
    query = (
        "SELECT k, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE bids, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end"
    )
    item, _ = stream(statement=f"INSERT INTO totals {query} -- per minute\n;")
    (result,) = fresh_session.execute(query)
    rows = result.to_arrow().rename_columns(["k`s", "minute", "n", "total"])
    item.run.latest.take("totals", rows)
    with page_of(watched(item)) as url, open_page(browser, url) as tab:
        tab.locator("[data-stream]").wait_for()
        shown = tab.locator(".origin")
        assert shown.is_hidden()
        explained = {}
        for row in tab.locator(".latest tbody tr").all():
            row.locator("button").click()
            key, *_ = row.inner_text().split("\t")
            (text,) = fresh_session.execute(shown.inner_text())
            explained[key] = text.to_arrow()[0][0].as_py()
        tab.get_by_role("button", name="advice").click()
        assert shown.inner_text() == f"ADVISE {query}\n;"
    assert "2 of 3 rows" in explained["it's"] and "1 of 3 rows" in explained["NULL"]


def test_the_pointer_on_a_chart_says_when_and_how_much(busy_tab: Any) -> None:
    figure = busy_tab.locator(".chart").first
    figure.wait_for()
    before = figure.locator("figcaption").inner_text()
    figure.locator("svg").hover(position={"x": 60, "y": 50})
    assert ":" in busy_tab.locator("#tip").inner_text()
    assert figure.locator("figcaption").inner_text() != before
    busy_tab.mouse.move(1, 1)
    assert busy_tab.locator("#tip").is_hidden()


def test_a_batch_shows_its_stages_and_where_its_time_went(busy_tab: Any) -> None:
    running = busy_tab.locator("[data-statement]").first
    running.wait_for()
    assert running.locator(".badge").inner_text() == "running"
    share = running.locator(".progress i").evaluate("e => e.style.width")
    assert share == "25%"
    result = busy_tab.locator("[data-statement]", has_text="COUNT(*)")
    result.locator("summary").click()
    assert result.locator("h4").first.inner_text() == "Time spent: 7.00 s"
    names = result.locator(".gantt .name").all_inner_texts()
    assert {"planning", "stage 0", "stage 1"} <= set(names)
    cells = result.locator("table tbody tr").first.locator("td").all_inner_texts()
    assert [cells[0], cells[1], cells[2].strip()] == ["0 toArrow", "done", "8 / 8"]
    # open parts stay open when the page updates
    wait_for_update(busy_tab)
    assert result.locator(".gantt").is_visible()
    failed = busy_tab.locator("[data-statement]", has_text="1 / 0")
    failed.locator("summary").click()
    assert failed.locator(".message").inner_text() == "division by zero"


@pytest.mark.long
@pytest.mark.parametrize("width", [1180, 400])
def test_rows_not_fetched_yet_have_a_place(browser: Any, width: int) -> None:
    item, _ = stream()
    item.run.n_rows = 12
    item.history.take(report_of(progress(0, 100)))
    viewport = {"width": width, "height": 900}
    with page_of(watched(item)) as url, open_page(browser, url, viewport=viewport) as tab:
        tab.get_by_text("rows appear here when the next ones are emitted").wait_for()
        item.run.latest.take("totals", rows_of_windows(5, 2, ("a",)))
        tab.locator(".latest tbody tr").first.wait_for()
        assert tab.get_by_role("heading", name="Last emitted").count() == 1
        assert tab.get_by_text("rows appear here").count() == 0


@pytest.mark.long
def test_the_page_follows_the_stream(browser: Any) -> None:
    item, query = stream()
    item.history.take(report_of(progress(0, 100)))
    with page_of(watched(item)) as url, open_page(browser, url) as tab:
        tab.locator("[data-stream]").wait_for()
        assert tab.locator(".facts dd").first.inner_text() == "100"
        item.history.take(report_of(progress(1, 23)))
        query.isActive = False
        tab.locator(".badge.stopped").wait_for()
        assert tab.locator(".facts dd").first.inner_text() == "123"


@pytest.mark.long
def test_the_page_says_when_all_is_over(browser: Any) -> None:
    page = serve(watched(), 0)
    with open_page(browser, page.url) as tab:
        tab.get_by_text("No statement has run yet.").wait_for()
        assert tab.locator("#pulse").inner_text() == "live"
        page.close()
        tab.locator("#pulse.over").wait_for()
        assert tab.locator("#pulse").inner_text() == "ended: showing the last state"


def test_sql_of_users_is_escaped_on_the_page(busy_tab: Any) -> None:
    busy_tab.locator("[data-stream]").wait_for()
    busy_tab.locator(".stream details summary").click()
    assert SCRIPT in busy_tab.locator(".stream details pre").inner_text()
    assert busy_tab.evaluate("typeof hacked") == "undefined"


@pytest.mark.long
def test_sparks_own_page_is_linked_where_it_is_on(browser: Any, busy_tab: Any) -> None:
    link = busy_tab.get_by_role("link", name="Spark's UI")
    link.wait_for()
    assert link.get_attribute("href") == "http://127.0.0.1:4040"
    assert link.get_attribute("rel") == "noreferrer"
    with page_of(watched()) as url, open_page(browser, url) as tab:
        tab.get_by_text("Spark 4.3.0 local[2]").wait_for()
        assert tab.get_by_role("link").count() == 0


@pytest.mark.variants(1)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1180])
def test_the_page_fits_the_screen_and_can_be_read(browser: Any, theme: str, width: int) -> None:
    size = {"width": width, "height": 800}
    page = serve(busy_session(), 0)
    with open_page(browser, page.url, viewport=size, color_scheme=theme) as tab:
        tab.locator("[data-stream]").wait_for()
        tab.locator("[data-statement]", has_text="COUNT(*)").locator("summary").click()
        page.close()
        # nothing is redrawn from here on
        tab.locator("#pulse.over").wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        for place in (
            "#pulse", ".badge.running", ".badge.failed", ".waits", ".facts dt", ".latest td",
            ".latest th", ".legend li", ".item .said", ".gantt .name", ".holds", ".chart figcaption",
        ):  # fmt: skip
            ratio = tab.locator(place).first.evaluate(CONTRAST)
            assert ratio >= 4.5, f"{place} has a contrast of {ratio:.1f} in the {theme} theme"
