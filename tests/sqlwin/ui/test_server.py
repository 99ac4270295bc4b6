"""Access to the monitoring page, and its start and stop."""

from __future__ import annotations

import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from runtime.errors import SetupError
from runtime.frames.reports import report_of
from sqlwin.ui.server import TOKEN_VARIABLE, Watchers, application, is_this_machine, serve
from tests.observing import wait_until
from tests.sqlwin.ui.sessions import finished_statement, progress, rows_of_windows, stream, watched

TOKEN = "a token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client() -> Iterator[TestClient]:
    item, _ = stream()
    item.history.take(report_of(progress(0, 100, late=2)))
    item.run.latest.take("totals", rows_of_windows(0))
    session = watched(item)
    finished_statement(session, "SELECT 'x'")
    app = application(Watchers([session]), TOKEN)
    with TestClient(app, base_url="http://127.0.0.1:4050") as result:
        yield result


PATHS = ("/", "/api/state", "/metrics", "/plan/1.1", "/nothing")


@pytest.mark.parametrize("path", PATHS)
def test_requests_without_the_token_are_refused(client: TestClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": f"Basic {TOKEN}"}):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 403
        assert answer.text.startswith("the token is missing or wrong")
    assert client.get(f"{path}?token=a+tokem").status_code == 403
    assert client.get(f"{path}?token=").status_code == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example:4050", "127.0.0.1.evil.example", "", "localhost@x"])
def test_requests_for_another_host_name_are_refused(
    client: TestClient, path: str, host: str
) -> None:
    answer = client.get(path, headers={**HEADERS, "Host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:99", "[::1]:4050"])
def test_this_machine_may_have_any_port(host: str) -> None:
    # a port may be forwarded to it
    assert is_this_machine(host)


def test_the_page_is_self_contained(client: TestClient) -> None:
    answer = client.get("/?token=a+token")
    assert answer.status_code == 200
    assert "/*script*/" not in answer.text and "function streamCard" in answer.text
    assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


def test_the_state_is_the_snapshot(client: TestClient) -> None:
    result = client.get("/api/state", headers=HEADERS).json()
    (item,) = result["streams"]
    assert (item["name"], item["rows_in"], item["late"]) == ("totals", 100, 2)
    assert item["latest"][0]["rows"][0] == ["a", "1970-01-01 00:01:00", "1970-01-01 00:02:00", "10"]
    assert [s["text"] for s in result["statements"]] == ["SELECT 'x'"]
    assert result["is_over"] is False


def test_a_missing_page_is_404(client: TestClient) -> None:
    assert client.get("/plan/1.99", headers=HEADERS).status_code == 404
    assert client.get("/plan/77.1", headers=HEADERS).status_code == 404
    assert client.get("/nothing", headers=HEADERS).status_code == 404
    # the page cannot change anything
    assert client.post("/api/state", headers=HEADERS).status_code == 405


def test_metrics_are_prometheus(client: TestClient) -> None:
    answer = client.get("/metrics", headers=HEADERS)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {
        text_string_to_metric_family.name: text_string_to_metric_family
        for text_string_to_metric_family in text_string_to_metric_families(answer.text)
    }
    (rows,) = families["sqlwin_stream_rows_in"].samples
    assert (rows.name, rows.value) == ("sqlwin_stream_rows_in_total", 100.0)
    assert rows.labels["name"] == "totals"
    (late,) = families["sqlwin_stream_rows_late"].samples
    assert late.value == 2.0
    lag = families["sqlwin_stream_watermark_lag_seconds"].samples
    assert [
        (text_string_to_metric_family.labels["source"], text_string_to_metric_family.value > 0)
        for text_string_to_metric_family in lag
    ] == [("bids", True)]
    batches = {s.name: s.value for s in families["sqlwin_stream_batch_seconds"].samples}
    assert batches == {
        "sqlwin_stream_batch_seconds_count": 1.0,
        "sqlwin_stream_batch_seconds_sum": 0.5,
    }


def test_an_unexpected_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    session = replace(watched(), mask=lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    finished_statement(session, "SELECT 1")
    app = application(Watchers([session]), TOKEN)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as result:
        answer = result.get("/api/state", headers=HEADERS)
    assert answer.status_code == 500
    assert answer.text.startswith("internal error: ZeroDivisionError")


def test_looking_at_metrics_fetches_no_rows() -> None:
    item, _ = stream()
    with TestClient(
        application(Watchers([watched(item)]), TOKEN), base_url="http://localhost"
    ) as result:
        result.get("/metrics", headers=HEADERS)
        assert not item.run.latest.is_due("totals")
        result.get("/api/state", headers=HEADERS)
    # a fresh snapshot is reused; the next one is fetched
    assert not item.run.latest.is_due("totals")


def test_metrics_name_their_extra_and_the_page_does_without_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "sqlwin.ui.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = client.get("/metrics", headers=HEADERS)
    assert answer.status_code == 501
    assert "/metrics requires the package prometheus-client" in answer.text
    assert "pip install '.[metrics]' in a clone of sqlwin" in answer.text
    assert client.get("/api/state", headers=HEADERS).status_code == 200


# -- the server ------------------------------------------------------------------------------------


def state_at(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url.replace("/?", "/api/state?"), timeout=180) as answer:
        result: dict[str, object] = json.load(answer)
    return result


def test_sessions_share_a_server_until_the_last_one_leaves() -> None:
    first = serve(watched(), 0)
    second = serve(watched())
    assert first.url == second.url
    assert first.url.startswith(f"http://127.0.0.1:{first.port}/?token=")
    assert len(state_at(first.url)["sessions"]) == 2  # type: ignore[arg-type]
    second.close()
    assert len(state_at(first.url)["sessions"]) == 1  # type: ignore[arg-type]
    first.close()
    first.close()
    with pytest.raises(urllib.error.URLError):
        state_at(first.url)


def test_an_open_page_shows_the_end_of_the_session() -> None:
    session = watched()
    page = serve(session, 0)
    assert state_at(page.url)["is_over"] is False
    states: list[object] = []

    import threading

    def is_over() -> bool:
        states.append(state_at(page.url)["is_over"])
        return states[-1] is True

    looking = threading.Thread(target=wait_until, args=[is_over])
    looking.start()
    wait_until(lambda: states)
    page.close()
    looking.join()
    assert states[0] is False and states[-1] is True


def test_a_port_in_use_gets_a_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"127.0.0.1:{port}: address already in use") as caught:
            serve(watched(), port)
    assert "choose another port" in str(caught.value.hint)


def test_prometheus_may_have_a_token_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "of the environment")
    page = serve(watched(), 0)
    try:
        assert page.url.endswith("/?token=of%20the%20environment")
        request = urllib.request.Request(
            f"http://127.0.0.1:{page.port}/metrics",
            headers={"Authorization": "Bearer of the environment"},
        )
        with urllib.request.urlopen(request, timeout=180) as answer:
            assert b"sqlwin_statements" in answer.read()
    finally:
        page.close()


def test_the_page_in_a_notebook_is_a_link() -> None:
    page = serve(watched(), 0)
    try:
        assert f'href="{page.url}"' in page._repr_html_()
        assert repr(page) == f"<sqlwin page at {page.url}>"
    finally:
        page.close()
