"""The page of EXPLAIN in a browser."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.explain.document import QueryDocument, to_json
from planner.explain.window_texts import months_parameters, window_parameters
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.display.plan_page import plan_frame, plan_page
from tests.sqlwin.display.browser import CONTRAST, chromium, open_page

MINUTE = 60_000_000
WINDOWS: dict[str, tuple[AlignedWindow, dict[str, int]]] = {
    "tumble": (Tumble(10 * MINUTE, -3), {"size": 10 * MINUTE, "offset": -3}),
    "hop": (Hop(15 * MINUTE, 360 * MINUTE), {"slide": 15 * MINUTE, "size": 360 * MINUTE}),
    "paired hop": (Hop(7, 17, 2), {"slide": 7, "size": 17, "offset": 2}),
    "hop with gaps": (Hop(10, 4), {"slide": 10, "size": 4}),
    "cumulate": (Cumulate(3, 12, 5), {"step": 3, "max_size": 12, "offset": 5}),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as result:
        yield result


def use(window: AlignedWindow, parameters: dict[str, int]) -> dict[str, Any]:
    return {
        "operator": "p0",
        "kind": type(window).__name__.upper(),
        "parameters_us": parameters,
        "parameters_months": {},
        "time_column": "ts",
        "time_type": "timestamp_ntz",
        "slice_widths_us": [window.slice_width_us],
        "slices_per_window": window.slices_per_window,
        "copies": None,
        "text": [],
    }


def figures(rows_in: int | None, rows_out: int, **others: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("reduction", "blobs_out", "bytes_out", "seconds", "task_rows_in"))
    result = {"rows_in": rows_in, "rows_out": rows_out, "unit_out": "rows", "counters": {}}
    return {**result, **nothing, "peak_memory_bytes": None, **others}


def query(statement: str = "SELECT 1", **parts: Any) -> dict[str, Any]:
    """Return a plan of three operators over two sources."""

    def operator(name: str, n: int, *inputs: str) -> dict[str, Any]:
        attributes = {"select": ["a", "b", "SUM(c) AS d"], "where": ["x < 5"]}
        columns = [{"name": "a", "type": "int", "nullable": True}]
        text = f"{name}(select=[a])"
        return {
            "id": f"p{n}", "name": name, "attributes": attributes, "text": text,
            "inputs": list(inputs), "columns": columns,
        }  # fmt: skip

    tree = {
        "root": "p0",
        "operators": [
            operator("SparkSql", 0, "p1", "p2"),
            operator("GlobalWindowAggregate", 1),
            operator("TableSourceScan", 2),
        ],
    }
    rules = {
        "applied": [{"rule": "push_it_down", "summary": "Push it.", "node": "Filter"}],
        "refused": [
            {"rule": "fold_it", "summary": "Fold it.", "node": "Sort", "reason": "it is <large>"}
        ],
        "left_to_spark": [],
        "idle": [{"rule": "prune_it", "summary": "Prune it."}],
    }
    result = {**to_json(QueryDocument(statement, "text")), "rules": rules}
    return {**result, "trees": dict.fromkeys(("bound", "logical", "physical"), tree), **parts}


def write_page(directory: Path, *queries: dict[str, Any]) -> Path:
    path = directory / "plan.html"
    path.write_text(plan_page({"version": 2, "queries": queries}), encoding="utf-8")
    return path


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", WINDOWS)
def test_the_picture_knows_slices_and_windows_as_the_engine_does(
    browser: Any, tmp_path: Path, name: str
) -> None:
    window, parameters = WINDOWS[name]
    size = max(parameters.values())
    rng = random.Random(name)
    times = [rng.randrange(-4 * size, 4 * size) for _ in range(200)]
    page = write_page(tmp_path, query())
    with open_page(browser, page) as tab:
        result = tab.evaluate(
            """([kind, parameters, times]) => {
                const grid = windows.of(kind, parameters);
                return times.map((t) => [grid.sliceOf(t)[1], grid.windowsOf(t)]);
            }""",
            [type(window).__name__.upper(), parameters, times],
        )
    assigner = window.assigner()
    ends = assigner.slice_end(np.array(times, np.int64))
    assert [end for end, _ in result] == ends.tolist()
    rows, window_ends = assigner.window_ends(np.array(times, np.int64))
    starts = assigner.window_start(window_ends)
    expected: list[list[list[int]]] = [[] for _ in times]
    for row, start, end in zip(rows.tolist(), starts.tolist(), window_ends.tolist(), strict=True):
        expected[row].append([start, end])
    assert [item for _, item in result] == expected


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "window",
    [
        CalendarTumble(3, 1),
        CalendarHop(2, 5, 0, 7),
        CalendarCumulate(12, 4, 0, 1, -5),
        CalendarCumulate(1, step_us=24 * 60 * MINUTE),
        CalendarCumulate(3, step_us=10 * 24 * 60 * MINUTE, offset_months=1, offset_us=-5),
    ],
)
def test_the_picture_has_calendar_months(
    browser: Any, tmp_path: Path, window: AlignedWindow
) -> None:
    rng = random.Random(3)
    times = [rng.randrange(-20, 60) * 30 * 24 * 60 * MINUTE + rng.randrange(999) for _ in range(99)]
    parameters = {
        "kind": window.function,
        "parameters_us": window_parameters(window),
        "parameters_months": months_parameters(window),
    }
    with open_page(browser, write_page(tmp_path, query())) as tab:
        result = tab.evaluate(
            """([use, times]) => {
                const grid = windows.ofUse(use);
                return times.map((t) => [grid.sliceOf(t)[1], grid.windowsOf(t)]);
            }""",
            [parameters, times],
        )
    assigner = window.assigner()
    assert [end for end, _ in result] == assigner.slice_end(np.array(times, np.int64)).tolist()
    rows, ends = assigner.window_ends(np.array(times, np.int64))
    starts = assigner.window_start(ends)
    expected: list[list[list[int]]] = [[] for _ in times]
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        expected[row].append([start, end])
    assert [item for _, item in result] == expected


def test_sessions_of_the_picture_merge_rows_exactly_the_gap_apart(
    browser: Any, tmp_path: Path
) -> None:
    with open_page(browser, write_page(tmp_path, query())) as tab:
        assert tab.evaluate("windows.sessions([31, 0, 10, 20], 10)") == [[0, 30], [31, 41]]


@pytest.mark.long
def test_the_slider_moves_a_row_and_shows_its_windows(browser: Any, tmp_path: Path) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS["hop"])]))
    with open_page(browser, page) as tab:
        answers = []
        for value in (0, 500, 1000):
            tab.locator(".chosen input").fill(str(value))
            answers.append(tab.locator(".answer").inner_text())
            assert tab.locator(".window-bar.on").count() == 24
            assert tab.locator(".slice.on").count() == 1
        assert len(set(answers)) == 3
        assert all(
            re.search(r"into the slice \[\d\d:(00|15|30|45), .* 24 windows", a) for a in answers
        )
        tab.locator(".slice.on").hover()
        assert "in 24 windows" in tab.locator("#tip").inner_text()
        assert tab.locator(".window-bar.hot").count() == 24
        tab.locator(".window-bar.on").first.hover()
        assert "from 24 slices" in tab.locator("#tip").inner_text()
        # a tap moves the row to that position
        box = tab.locator(".timeline").bounding_box()
        tab.mouse.click(box["x"] + box["width"] * 0.45, box["y"] + 30)
        assert tab.locator(".answer").inner_text() != answers[-1]


@pytest.mark.variants(1)
@pytest.mark.parametrize("width", [1180, 400])
@pytest.mark.parametrize("kind", ["hop", "tumble", "hop with gaps"])
def test_the_thumb_of_the_slider_stands_below_the_row(
    browser: Any, tmp_path: Path, kind: str, width: int
) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS[kind])]))
    with open_page(browser, page, viewport={"width": width, "height": 900}) as tab:
        slider = tab.locator(".chosen input")
        thumb = 16
        for value in (0, 400, 500, 1000):
            slider.fill(str(value))
            box, row = slider.bounding_box(), tab.locator(".timeline .row").bounding_box()
            share = int(slider.input_value()) / 1000
            middle = box["x"] + thumb / 2 + share * (box["width"] - thumb)
            assert abs(middle - (row["x"] + row["width"] / 2)) < 1.5
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_each_window_of_a_hop_is_a_step_below_the_one_before(browser: Any, tmp_path: Path) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS["paired hop"])]))
    with open_page(browser, page) as tab:
        boxes = [bar.bounding_box() for bar in tab.locator(".window-bar").all()]
        places = sorted((box["x"], box["y"]) for box in boxes)
        tops = [y for _, y in places]
        assert len(set(tops)) == len(tops) > 3
        assert tops == sorted(tops)


@pytest.mark.long
def test_a_row_in_a_gap_is_in_no_window(browser: Any, tmp_path: Path) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS["hop with gaps"])]))
    with open_page(browser, page) as tab:
        window_counts = set()
        for value in range(0, 1001, 20):
            tab.locator(".chosen input").fill(str(value))
            window_counts.add("no window" in tab.locator(".answer").inner_text())
        assert window_counts == {True, False}


def test_the_graph_has_every_operator_and_its_figures_on_the_edges(
    browser: Any, tmp_path: Path
) -> None:
    analysis = {
        "seconds": 1.5,
        "rows_out": 7,
        "operators": {
            "p0": figures(12_349, 7),
            "p1": figures(9_000, 12_345, unit_out="windows", bytes_out=2048, seconds=0.25),
            "p2": figures(None, 4),
        },
        "stages": [],
        "spark_ui": None,
    }
    page = write_page(tmp_path, query(analysis=analysis))
    with open_page(browser, page) as tab:
        assert tab.locator(".operator .name").all_inner_texts() == [
            "GlobalWindowAggregate",
            "TableSourceScan",
            "SparkSql",
        ]
        edges = tab.locator(".edge span").all_inner_texts()
        assert edges == ["9,000 rows scanned", "12,345 windows · 2.0 KiB", "4 rows", "7 rows"]
        assert "250 ms" in tab.locator(".operator[data-id=p1] .figures").inner_text()
        # both inputs stand side by side above the join
        boxes = [tab.locator(f".operator[data-id=p{i}]").bounding_box() for i in range(3)]
        assert boxes[1]["x"] + boxes[1]["width"] <= boxes[2]["x"]
        assert boxes[1]["y"] + boxes[1]["height"] <= boxes[0]["y"]
        tab.get_by_role("button", name="As written").click()
        assert tab.locator(".edge span").count() == 0
        assert tab.locator(".operator").count() == 3


def test_a_shared_input_is_drawn_once(browser: Any, tmp_path: Path) -> None:
    join, left, right = query()["trees"]["physical"]["operators"]
    below = {**right, "id": "p3", "name": "Exchange", "inputs": ["p4"]}
    scan = {**right, "id": "p4", "inputs": []}
    readers = [join, {**left, "inputs": ["p3"]}, {**right, "name": "Calc", "inputs": ["p3"]}]
    tree = {"root": "p0", "operators": [*readers, below, scan]}
    page = write_page(tmp_path, query(trees=dict.fromkeys(("bound", "logical", "physical"), tree)))
    with open_page(browser, page) as tab:
        assert tab.locator(".operator:not(.reused) .name").all_inner_texts() == [
            "TableSourceScan",
            "Exchange",
            "GlobalWindowAggregate",
            "Calc",
            "SparkSql",
        ]
        reused = tab.locator(".operator.reused")
        assert reused.locator(".name").all_inner_texts() == ["Exchange"]
        reused.get_by_role("button").click()


def test_stages_have_the_skew_of_their_tasks_and_a_link_to_spark_s_ui(
    browser: Any, tmp_path: Path
) -> None:
    stage = {
        "id": 3, "operators": ["p0"], "tasks": 2, "seconds": 2.0, "median_seconds": 1.0,
        "slowest_seconds": 1.5, "skew": 1.5,
    }  # fmt: skip
    analysis = {
        "seconds": 1.5,
        "rows_out": 7,
        "operators": {"p0": figures(9, 7), "p1": figures(9, 9), "p2": figures(None, 4)},
        "stages": [stage],
        "spark_ui": "http://localhost:4040",
        "stream": None,
    }
    page = write_page(tmp_path, query(analysis=analysis))
    with open_page(browser, page, viewport={"width": 390, "height": 800}) as tab:
        rows = [r.split("\t") for r in tab.locator("table.stages tr").all_inner_texts()]
        assert [cell.strip() for cell in rows[1]] == ["SparkSql", "2", "2.00 s", "1.50 s", "1.5×"]
        link = tab.get_by_text("Spark UI")
        assert link.get_attribute("href") == "http://localhost:4040/SQL/"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.long
def test_rules_are_shown_with_their_reasons(browser: Any, tmp_path: Path) -> None:
    with open_page(browser, write_page(tmp_path, query())) as tab:
        rules = tab.locator(".rules").first.locator("li")
        assert rules.nth(0).locator(".sign").inner_text() == "✓"
        assert "push_it_down on Filter" in rules.nth(0).inner_text()
        assert "it is <large>" in rules.nth(1).locator(".reason").inner_text()
        assert not tab.get_by_text("prune_it").is_visible()
        tab.get_by_text("1 rule with nothing to do").click()
        assert tab.get_by_text("prune_it").is_visible()


@pytest.mark.long
def test_sql_cannot_break_out_of_the_page(browser: Any, tmp_path: Path) -> None:
    statement = "SELECT '</script><script>hacked = 1</script><!-- /*document*/ <b>' AS `</style>`"
    page = write_page(tmp_path, query(statement), to_json(QueryDocument(statement, statement)))
    with open_page(browser, page) as tab:
        assert tab.evaluate("typeof hacked") == "undefined"
        assert tab.locator(".statement").all_inner_texts() == [statement, statement]
        assert tab.locator("nav li").count() == 2


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1180])
def test_the_page_fits_the_screen_and_can_be_read(
    browser: Any, tmp_path: Path, theme: str, width: int
) -> None:
    uses = [use(*WINDOWS[name]) for name in ("hop", "cumulate", "tumble")]
    page = write_page(tmp_path, query("SELECT " + "a_long_name, " * 40 + "b", windows=uses))
    size = {"width": width, "height": 800}
    with open_page(browser, page, viewport=size, color_scheme=theme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        for place in ("body", ".dim", ".operator .name", ".attributes dt", ".rules .reason"):
            ratio = tab.locator(place).first.evaluate(CONTRAST)
            assert ratio >= 4.5, f"{place} has a contrast of {ratio:.1f} in the {theme} theme"
        paper = tab.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
        is_dark = int(paper.removeprefix("rgb(").split(",")[0]) < 128
        assert is_dark == (theme == "dark")
        assert tab.locator(".timeline").first.bounding_box()["width"] > 0.8 * width - 100


@pytest.mark.long
@pytest.mark.parametrize("name", ["hop", "paired hop", "cumulate"])
@pytest.mark.parametrize("width", [390, 1180])
def test_times_on_the_axis_do_not_touch(
    browser: Any, tmp_path: Path, name: str, width: int
) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS[name])]))
    with open_page(browser, page, viewport={"width": width, "height": 800}) as tab:
        boxes = [text.bounding_box() for text in tab.locator(".timeline text:not(.label)").all()]
        line = sorted((b["x"], b["x"] + b["width"]) for b in boxes if b["y"] == boxes[0]["y"])
        assert line
        assert all(end < begin for (_, end), (begin, _) in pairwise(line)), line


def test_names_of_operators_break_between_their_words(browser: Any, tmp_path: Path) -> None:
    with open_page(
        browser, write_page(tmp_path, query()), viewport={"width": 390, "height": 800}
    ) as tab:
        name = tab.locator(".operator[data-id=p1] .name")
        assert name.inner_text().split() == ["GlobalWindowAggregate"]
        assert name.evaluate("(e) => e.innerHTML") == "Global<wbr>Window<wbr>Aggregate<wbr>"


def test_a_printed_page_has_no_controls(browser: Any, tmp_path: Path) -> None:
    page = write_page(tmp_path, query(windows=[use(*WINDOWS["hop"])]))
    with open_page(browser, page) as tab:
        tab.emulate_media(media="print")
        assert not tab.locator(".choice").is_visible()
        assert not tab.locator(".chosen input").is_visible()
        assert tab.locator(".timeline").is_visible()
        assert tab.locator(".operator").first.is_visible()


def test_the_plan_text_needs_no_scripts(browser: Any, tmp_path: Path) -> None:
    page = write_page(tmp_path, {**query(), "text": "LogicalProject(select=[a < b])"})
    with open_page(browser, page, java_script_enabled=False) as tab:
        assert "LogicalProject(select=[a < b])" in tab.locator("noscript").inner_text()


@pytest.mark.long
def test_in_a_notebook_the_page_is_in_a_frame_of_its_own(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "notebook.html"
    frame = plan_frame({"version": 2, "queries": [query('a "b"')]})
    page.write_text(f"<style>* {{ color: red }}</style>{frame}")
    with open_page(browser, page) as tab:
        inside = tab.frame_locator("iframe")
        assert inside.locator(".operator").count() == 3
        assert inside.locator(".statement").inner_text() == 'a "b"'
