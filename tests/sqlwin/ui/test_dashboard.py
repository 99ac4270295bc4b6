"""The Grafana dashboard uses existing metrics."""

from __future__ import annotations

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from runtime.frames.reports import report_of
from sqlwin.ui.metrics import metrics_text
from sqlwin.ui.snapshot import snapshot
from tests.goldens import ROOT
from tests.sqlwin.ui.sessions import progress, stream, watched

DASHBOARD = ROOT / "docs/monitoring.grafana.json"


def metric_samples() -> dict[str, set[str]]:
    """Return the names of samples in /metrics, with their labels."""
    item, _ = stream()
    item.history.take(report_of(progress(0)))
    text = metrics_text(snapshot([watched(item)])).decode()
    result: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            result.setdefault(sample.name, set()).update(sample.labels)
    return result


def test_the_dashboard_names_existing_metrics() -> None:
    text = DASHBOARD.read_text("utf-8")
    named = set(re.findall(r"sqlwin_[a-z_]+", text))
    metrics = metric_samples()
    assert named and named <= metrics.keys(), sorted(named - metrics.keys())
    # and it shows every metric of a stream
    streams = {name for name in metrics if name.startswith("sqlwin_stream_")}
    unused = {"sqlwin_stream_rows_per_second", "sqlwin_stream_watermark_timestamp_seconds"}
    assert streams - named - unused == set()


def test_legends_of_the_dashboard_are_labels_of_its_metrics() -> None:
    metrics = metric_samples()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            labels = set.union(*(metrics[n] for n in re.findall(r"sqlwin_[a-z_]+", target["expr"])))
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown <= labels, f"{panel['title']}: {target['expr']}"


def test_panels_do_not_overlap() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & occupied, panel["title"]
        assert at["x"] + at["w"] <= 24
        occupied |= cells


def test_the_metrics_page_names_every_metric() -> None:
    page = (ROOT / "docs/monitoring.md").read_text("utf-8")
    missing = {name for name in metric_samples() if f"`{name}`" not in page}
    assert not {name for name in missing if not name.endswith("_created")}, sorted(missing)
