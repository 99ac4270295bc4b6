"""The monitoring page with real streams and batches."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlwin
from sqlwin.control import SessionControl
from tests.observing import wait_until

FLIGHTS = "CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = 'queries/data/flights.parquet');"
REQUESTS = """
CREATE TABLE requests (page INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.page.min' = '1',
      'fields.page.max' = '3');
"""
COUNTS = """
SELECT page, window_start, window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(at), INTERVAL '1' SECOND))
GROUP BY page, window_start, window_end
"""


class Page:
    """Data that the page fetches."""

    def __init__(self, session: sqlwin.Session) -> None:
        self._page = session.ui(0)

    def get(self, path: str) -> str:
        address, _, token = self._page.url.partition("/?")
        with urllib.request.urlopen(f"{address}/{path}?{token}", timeout=60) as answer:
            actual: str = answer.read().decode()
        return actual

    def state(self) -> dict[str, Any]:
        actual: dict[str, Any] = json.loads(self.get("api/state"))
        return actual

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first state for which a condition holds."""

        def state_that_holds() -> dict[str, Any] | None:
            state = self.state()
            return state if holds(state) else None

        state = wait_until(state_that_holds, every_s=0.1, explain=self.state)
        assert state is not None
        return state


@pytest.fixture
def page(fresh_session: sqlwin.Session) -> Iterator[Page]:
    yield Page(fresh_session)
    SessionControl(fresh_session).close_page()


@pytest.mark.long
def test_a_stream_into_files_is_watched_as_it_runs(
    fresh_session: sqlwin.Session, page: Page, tmp_path: Path
) -> None:
    fresh_session.execute(REQUESTS)
    sink = f"'connector' = 'filesystem', 'path' = '{tmp_path}/counts', 'format' = 'parquet'"
    fresh_session.execute(
        f"CREATE TABLE counts (page INT, w_start TIMESTAMP_LTZ(3), w_end TIMESTAMP_LTZ(3), n BIGINT) WITH ({sink})"
    )
    fresh_session.execute(f"INSERT INTO counts {COUNTS}")

    # rows written by tasks are fetched while the page is open
    def is_reported(actual: dict[str, Any]) -> bool:
        # Spark reports a micro-batch after its rows are written
        (stream,) = actual["streams"]
        return bool(stream["latest"]) and any(point["rows_out"] for point in stream["points"])

    state = page.until(is_reported)
    (stream,) = state["streams"]
    assert (stream["state"], stream["into"]) == ("running", "counts")
    assert stream["rows_in"] > 0 and stream["rows_out"] > 0
    (operator,) = stream["operators"]
    assert [source["name"] for source in operator["sources"]] == ["requests"]
    assert 0 < operator["sources"][0]["lag_seconds"] < 60
    assert 0 < stream["points"][-1]["rows_out"] <= stream["rows_out"]
    (latest,) = stream["latest"]
    assert (latest["into"], latest["columns"]) == ("counts", ["page", "w_start", "w_end", "n"])
    statement = next(s for s in state["statements"] if s["streams"])
    assert (statement["state"], statement["has_plan"]) == ("running", True)
    assert "GlobalWindowAggregate" in page.get(f"plan/{statement['session']}.{statement['number']}")
    metrics = page.get("metrics")
    assert 'sqlwin_stream_up{into="counts",name="counts"' in metrics
    fresh_session.execute("STOP STREAM counts")
    assert page.until(lambda state: state["streams"][0]["state"] == "stopped")
    # the page's own fetches are not in the result
    rows = fresh_session.spark.read.parquet(f"{tmp_path}/counts")
    assert rows.count() == fresh_session.streams.all()[0].run.n_rows
    assert rows.count() == rows.select("page", "w_start").distinct().count()


@pytest.mark.long
def test_rows_of_a_select_are_seen_too(fresh_session: sqlwin.Session, page: Page) -> None:
    fresh_session.execute(REQUESTS)
    (result,) = fresh_session.execute(COUNTS)
    batches = result.batches()
    first = next(batches)
    (stream,) = page.state()["streams"]
    shown = stream["latest"][0]["rows"]
    assert len(shown) >= first.num_rows
    assert stream["latest"][0]["columns"] == ["page", "window_start", "window_end", "n"]
    batches.close()  # type: ignore[attr-defined]
    state = page.until(lambda state: state["streams"][0]["state"] == "stopped")
    assert state["statements"][0]["state"] == "done"


@pytest.mark.long
def test_a_batch_is_seen_by_its_stages_and_its_plan(
    fresh_session: sqlwin.Session, page: Page
) -> None:
    fresh_session.execute(FLIGHTS)
    (result,) = fresh_session.execute(
        "SELECT origin, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE flights, "
        "DESCRIPTOR(sched_dep), INTERVAL '91' DAYS)) GROUP BY origin, window_start, window_end"
    )
    assert page.state()["statements"][0]["state"] == "planned"
    n_rows = len(result.rows)

    # a recent snapshot may be repeated, with the stages of planning
    def is_over(actual: dict[str, Any]) -> bool:
        newest = actual["statements"][0]
        return newest["state"] == "done" and len(newest["stages"]) >= 2

    statement = page.until(is_over)["statements"][0]
    assert (statement["state"], statement["rows"]) == ("done", n_rows)
    assert statement["rows_read"] == 336_776
    assert [span["name"] for span in statement["spans"]] == [
        "planning", "Spark's analysis", "computing rows",
    ]  # fmt: skip
    stages = statement["stages"]
    assert len(stages) >= 2 and {stage["state"] for stage in stages} == {"done"}
    for stage in stages:
        assert stage["tasks_done"] == stage["tasks"] > 0
        assert statement["begun"] - 1 <= stage["begun"] <= stage["ended"] <= statement["ended"] + 1
    # without the jobs of other statements
    fresh_session.execute("SELECT 1")[0].rows  # noqa: B018
    statements = page.until(lambda state: len(state["statements"]) == 3)["statements"]
    numbers = [{stage["id"] for stage in item["stages"]} for item in statements[:2]]
    assert not numbers[0] & numbers[1]
    plan = page.get(f"plan/{statement['session']}.{statement['number']}")
    document = json.loads(plan.partition('id="document">')[2].partition("</script>")[0])
    (query,) = document["queries"]
    # only EXPLAIN ANALYZE measures operators
    assert query["analysis"] is None and "GlobalWindowAggregate" in json.dumps(query)


def test_a_failure_keeps_its_message(fresh_session: sqlwin.Session, page: Page) -> None:
    with pytest.raises(sqlwin.SqlwinError):
        fresh_session.execute("SELECT nope FROM range(3)")
    (result,) = fresh_session.execute("SELECT 1 / (id - 1) FROM range(3)")
    with pytest.raises(sqlwin.SqlwinError) as caught:
        result.rows  # noqa: B018
    wrong, failed = reversed(page.state()["statements"])
    assert wrong["state"] == failed["state"] == "failed"
    assert "nope" in wrong["message"]
    assert failed["message"] == caught.value.message
