"""The picture of the page of what runs: `python -m tests.docs.live_page docs/monitoring.png`.

A stream over two tables runs for a while, and a batch beside it.
"""

from __future__ import annotations

import sys
import time

import sqlwin
from tests.sqlwin.display.browser import chromium, opened

SECONDS = 25
SCRIPT = """
CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = 'queries/data/flights.parquet');
CREATE TABLE web (page INT, took_ms INT, created TIMESTAMP_LTZ(3), late INT,
  at AS created - CASE WHEN late = 1 THEN INTERVAL '40' SECONDS ELSE INTERVAL '0' SECONDS END,
  WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '900', 'fields.page.min' = '1', 'fields.page.max' = '3',
  'fields.took_ms.min' = '1', 'fields.took_ms.max' = '900', 'fields.late.min' = '1', 'fields.late.max' = '300');
CREATE TABLE app (page INT, took_ms INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '6' SECONDS)
WITH ('connector' = 'datagen', 'rows-per-second' = '300', 'fields.page.min' = '1', 'fields.page.max' = '3',
  'fields.took_ms.min' = '1', 'fields.took_ms.max' = '400');
CREATE VIEW requests AS
  SELECT 'web' AS origin, page, took_ms, at FROM web UNION ALL SELECT 'app', page, took_ms, at FROM app;
CREATE TABLE dashboard (window_start TIMESTAMP_LTZ(3), window_end TIMESTAMP_LTZ(3), origin STRING, page INT,
  requests BIGINT, mean_ms DOUBLE, worst_ms INT) WITH ('connector' = 'memory');
INSERT INTO dashboard
SELECT window_start, window_end, origin, page, COUNT(*), ROUND(AVG(took_ms), 1), MAX(took_ms)
FROM TABLE(HOP(TABLE requests, DESCRIPTOR(at), INTERVAL '5' SECONDS, INTERVAL '30' SECONDS))
GROUP BY origin, page, window_start, window_end;
"""
BATCH = """
SELECT origin, window_start, window_end, COUNT(*) AS departures, ROUND(AVG(dep_delay), 1) AS mean_delay
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '15' MINUTES, INTERVAL '6' HOURS))
GROUP BY origin, window_start, window_end
ORDER BY mean_delay DESC LIMIT 10
"""


def main(path: str) -> None:
    """Run both, look at them, and keep what was seen."""
    with sqlwin.connect(master="local[2]") as session, chromium() as browser:
        page = session.ui(0)
        size = {"width": 1060, "height": 900}
        with opened(browser, page.url, viewport=size, color_scheme="light") as tab:
            session.execute(SCRIPT)
            time.sleep(SECONDS)
            (result,) = session.execute(BATCH)
            print(len(result.rows), "rows of the batch")
            time.sleep(4)
            tab.locator("[data-statement]", has_text="LIMIT 10").locator("summary").click()
            tab.wait_for_timeout(1500)
            tab.screenshot(path=path, full_page=True)
        page.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
