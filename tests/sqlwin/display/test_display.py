"""Formats of values and results."""

import csv
import io
import json
import re
from datetime import date, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sqlwin.display import formats
from sqlwin.display.formats import write_csv, write_json, write_json_lines, write_markdown
from sqlwin.display.notation import csv_texts, display_texts, json_texts, unique_names
from sqlwin.display.progress import ProgressBar, StageCounts, TaskCounts, TimeLeft
from sqlwin.display.scalars import zone_of
from sqlwin.display.table import GAP, fit_columns, print_table, write_vertical
from tests.observing import wait_until

US = 1_000_000
NEW_YEAR = 1357017300 * US  # 2013-01-01 05:15:00


def stamps(*values, tz=None):
    return pa.array(values, pa.timestamp("us", tz=tz))


def write_text(writer, columns, *batches):
    parts = []
    n_rows = writer(columns, iter(batches), parts.append)
    assert n_rows == sum(batch.num_rows for batch in batches)
    return "".join(parts)


def batch(**columns):
    return pa.record_batch(list(columns.values()), names=list(columns))


# -- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "as_shown", "in_csv", "in_json"),
    [
        (
            stamps(NEW_YEAR, -1, None),
            ["2013-01-01 05:15:00", "1969-12-31 23:59:59.999999", None],
            ["2013-01-01T05:15:00", "1969-12-31T23:59:59.999999", None],
            ['"2013-01-01T05:15:00"', '"1969-12-31T23:59:59.999999"', "null"],
        ),
        (
            stamps(NEW_YEAR, NEW_YEAR + 500_000, tz="America/New_York"),
            ["2013-01-01 00:15:00", "2013-01-01 00:15:00.500"],
            ["2013-01-01T00:15:00-05:00", "2013-01-01T00:15:00.500-05:00"],
            ['"2013-01-01T00:15:00-05:00"', '"2013-01-01T00:15:00.500-05:00"'],
        ),
        (
            # The hour that occurs twice when summer time ends
            stamps(1351382400 * US, 1351386000 * US, tz="Europe/Berlin"),
            ["2012-10-28 02:00:00", "2012-10-28 02:00:00"],
            ["2012-10-28T02:00:00+02:00", "2012-10-28T02:00:00+01:00"],
            ['"2012-10-28T02:00:00+02:00"', '"2012-10-28T02:00:00+01:00"'],
        ),
        (
            pa.array([1.0, 0.1, 1e22, float("nan"), float("-inf"), None]),
            ["1.0", "0.1", "1e+22", "NaN", "-Infinity", None],
            ["1.0", "0.1", "1e+22", "NaN", "-Infinity", None],
            ["1.0", "0.1", "1e+22", '"NaN"', '"-Infinity"', "null"],
        ),
        (
            pa.array([Decimal("0.0000001"), Decimal("0"), Decimal("-12.5")], pa.decimal128(38, 7)),
            ["0.0000001", "0.0000000", "-12.5000000"],
            ["0.0000001", "0.0000000", "-12.5000000"],
            ["0.0000001", "0.0000000", "-12.5000000"],
        ),
        (
            pa.array([2**63 - 1, -(2**63), None]),
            ["9223372036854775807", "-9223372036854775808", None],
            ["9223372036854775807", "-9223372036854775808", None],
            ["9223372036854775807", "-9223372036854775808", "null"],
        ),
        (
            pa.array([True, False, None]),
            ["true", "false", None],
            ["true", "false", None],
            ["true", "false", "null"],
        ),
        (
            pa.array([b"\x00\xff", b"", None]),
            ["00FF", "", None],
            ["00FF", "", None],
            ['"AP8="', '""', "null"],
        ),
        (
            pa.array([date(2013, 1, 1), None]),
            ["2013-01-01", None],
            ["2013-01-01", None],
            ['"2013-01-01"', "null"],
        ),
        (
            pa.array([time(5, 15), time(5, 15, 0, 500_000)], pa.time64("us")),
            ["05:15:00", "05:15:00.500"],
            ["05:15:00", "05:15:00.500"],
            ['"05:15:00"', '"05:15:00.500"'],
        ),
        (
            pa.array([timedelta(1, 7384, 500_000), timedelta(0), timedelta(-1)]),
            ["1 02:03:04.500", "0 00:00:00", "-1 00:00:00"],
            ["P1DT2H3M4.500S", "PT0S", "-P1D"],
            ['"P1DT2H3M4.500S"', '"PT0S"', '"-P1D"'],
        ),
        (
            pa.array([["a", None, "it's"], [], None]),
            ["['a', NULL, 'it''s']", "[]", None],
            ['["a",null,"it\'s"]', "[]", None],
            ['["a",null,"it\'s"]', "[]", "null"],
        ),
        (
            pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int32())),
            ["{'k' -> 1, 'l' -> NULL}", "{}", None],
            ['{"k":1,"l":null}', "{}", None],
            ['{"k":1,"l":null}', "{}", "null"],
        ),
        (
            pa.array([[(1, [0.5])], [(2, None)]], pa.map_(pa.int32(), pa.list_(pa.float64()))),
            ["{1 -> [0.5]}", "{2 -> NULL}"],
            ['{"1":[0.5]}', '{"2":null}'],
            ['{"1":[0.5]}', '{"2":null}'],
        ),
        (
            pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None]),
            ["{x: 1, y: {z: 'a'}}", "{x: NULL, y: NULL}", None],
            ['{"x":1,"y":{"z":"a"}}', '{"x":null,"y":null}', None],
            ['{"x":1,"y":{"z":"a"}}', '{"x":null,"y":null}', "null"],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_value_has_one_text_as_shown_one_in_csv_and_one_in_json(array, as_shown, in_csv, in_json):
    # A slice of a longer array has its own offsets
    longer = pa.concat_arrays([array, array]).slice(len(array))
    for values in (array, longer):
        assert display_texts(values).to_pylist() == as_shown
        assert csv_texts(values).to_pylist() == in_csv
        assert json_texts(values).to_pylist() == in_json
    assert json_texts(array.slice(0, 0)).to_pylist() == []


def test_times_of_a_table_column_have_the_same_number_of_digits():
    texts = display_texts(stamps(0, 1_500, None, 2_000), uniform=True).to_pylist()
    assert texts == [
        "1970-01-01 00:00:00.000000",
        "1970-01-01 00:00:00.001500",
        None,
        "1970-01-01 00:00:00.002000",
    ]
    texts = display_texts(stamps(-1_000, 0), uniform=True).to_pylist()
    assert texts == ["1969-12-31 23:59:59.999", "1970-01-01 00:00:00.000"]


def test_years_that_python_cannot_hold_are_shown():
    far = stamps(253402300800 * US, -62167219200 * US - 1, tz="Europe/Berlin")
    assert csv_texts(far).to_pylist() == [
        "10000-01-01T01:00:00+01:00",
        "0000-01-01T00:53:27.999999+00:53:28",
    ]


@pytest.mark.parametrize("name", ["+01:00", "UTC+1", "GMT+01:00:00", "+0100"])
def test_zones_may_be_fixed_offsets_as_spark_spells_them(name):
    assert csv_texts(stamps(0, tz=name)).to_pylist() == ["1970-01-01T01:00:00+01:00"]


def test_an_unknown_zone_is_shown_in_utc_with_the_offset():
    assert zone_of("PST") is None
    assert display_texts(stamps(0, tz="PST")).to_pylist() == ["1970-01-01 00:00:00+00:00"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_double_reads_back_as_the_same_number(values):
    assert [float(text) for text in csv_texts(pa.array(values)).to_pylist()] == values


@given(st.lists(st.none() | st.lists(st.none() | st.text(), max_size=3), min_size=1))
def test_nested_text_reads_back_from_json(values):
    texts = json_texts(pa.array(values, pa.list_(pa.string()))).to_pylist()
    assert [json.loads(text) for text in texts] == values


def test_a_repeated_name_gets_a_number_that_no_other_name_has():
    assert unique_names(["a", "a", "b", "a"]) == ["a", "a_2", "b", "a_3"]
    assert unique_names(["a", "a", "a_2"]) == ["a", "a_3", "a_2"]


# -- formats -----------------------------------------------------------------------------------


def test_csv_distinguishes_null_from_the_empty_string():
    rows = batch(
        s=pa.array(['say "hi"', "a,b", "a\nb", "a\rb", "", None, " a "]), n=pa.array(range(7))
    )
    assert write_text(write_csv, ["s", "n"], rows) == (
        's,n\n"say ""hi""",0\n"a,b",1\n"a\nb",2\n"a\rb",3\n"",4\n,5\n a ,6\n'
    )


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_csv_reads_back(rows):
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    text = write_text(write_csv, ['"a"', "b,c"], pa.record_batch(columns, names=["x", "y"]))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [['"a"', "b,c"], *map(list, rows)]


def test_json_is_valid_for_any_batches():
    n_rows = 2 * formats.PIECE_ROWS + 1
    rows = batch(a=pa.array(range(n_rows)))
    empty = rows.slice(0, 0)
    expected = [{"a": i, "a_2": i} for i in range(n_rows)]
    twice = [pa.record_batch([b.column(0)] * 2, names=["a", "a"]) for b in (empty, rows, empty)]
    assert json.loads(write_text(write_json, ["a", "a"], *twice)) == expected
    assert write_text(write_json, ["a"]) == "[]\n"
    assert write_text(write_json, ["a"], empty) == "[]\n"
    lines = write_text(write_json_lines, ["a", "a"], *twice).splitlines()
    assert [json.loads(line) for line in lines] == expected


def test_markdown_escapes_cell_ends_and_markup():
    rows = batch(s=pa.array(["a|b\\c", "x\ny", "<b>", "*a* _b_ c_d", None]), n=pa.array([1] * 5))
    assert write_text(write_markdown, ["s", "n"], rows).splitlines() == [
        "| s | n |",
        "| --- | ---: |",
        r"| a\|b\\c | 1 |",
        "| x<br>y | 1 |",
        "| &lt;b&gt; | 1 |",
        r"| \*a\* \_b\_ c_d | 1 |",
        "| NULL | 1 |",
    ]


@pytest.mark.parametrize("writer", [write_csv, write_json, write_json_lines, write_markdown])
def test_a_result_is_written_batch_by_batch(writer):
    one = batch(n=pa.array(range(formats.PIECE_ROWS * 2)))
    log = []

    def batches():
        for _ in range(3):
            log.append("batch")
            yield one

    writer(["n"], batches(), lambda text: log.append("text"))
    # Two pieces of each batch are written before the next batch is requested
    _, first, second, third = " ".join(log).split("batch")
    assert min(part.count("text") for part in (first, second, third)) == 2


# -- tables ------------------------------------------------------------------------------------


def table(rows, width=None, columns=None, **options):
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=width is not None, color_system=None)
    shown = print_table(columns or rows.schema.names, [rows], console, **options)
    return stream.getvalue(), shown


def test_numbers_align_right_and_text_left_for_any_character_width():
    text, shown = table(
        batch(start=stamps(NEW_YEAR, None), name=pa.array(["日本", "NULL"]), n=pa.array([1, 200]))
    )
    assert shown == (2, False)
    assert text.splitlines() == [
        "start               │ name │   n",
        "────────────────────┼──────┼────",
        "2013-01-01 05:15:00 │ 日本 │   1",
        "NULL                │ NULL │ 200",
    ]


def test_null_is_dim_and_the_string_null_is_not():
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="standard")
    print_table(["s"], [batch(s=pa.array(["NULL", None]))], console)
    lines = stream.getvalue().splitlines()
    assert lines[-2] == "NULL"
    assert lines[-1] == "\x1b[2mNULL\x1b[0m"


def test_control_characters_do_not_reach_the_terminal():
    text, _ = table(batch(s=pa.array(["x", "a\nb\tc\x1b[31m\u202e"])), width=60)
    assert text.splitlines()[-1].strip() == r"a\nb\tc\x1b[31m\u202e"


def test_a_long_result_is_cut_and_says_so():
    rows = batch(n=pa.array(range(100)))
    text, shown = table(rows, max_rows=2)
    assert shown == (2, True)
    assert text.splitlines()[2:] == ["0", "1", "… more rows: use --max-rows or --output"]
    assert table(rows, max_rows=100)[1] == (100, False)
    assert table(rows, max_rows=None)[1] == (100, False)


def test_only_the_needed_rows_are_fetched():
    def batches():
        yield batch(n=pa.array([1, 2]))
        yield batch(n=pa.array([3]))
        raise AssertionError("asked for too much")

    assert print_table(["n"], batches(), Console(file=io.StringIO()), max_rows=2) == (2, True)


def test_a_result_without_rows_is_a_header():
    stream = io.StringIO()
    assert print_table(["a", "bc"], [], Console(file=stream)) == (0, False)
    assert stream.getvalue() == "a │ bc\n──┼───\n"


@pytest.mark.parametrize("width", [1, 5, 20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    rows = batch(
        window_start=stamps(NEW_YEAR, 0),
        text=pa.array(["日本語" * 30, "x" * 500]),
        number=pa.array([10**17, 1]),
        tags=pa.array([["a"] * 40, []]),
        price=pa.array([0.1, 2.5]),
    )
    text, _ = table(rows, width=width)
    body = [line for line in text.splitlines() if not re.match(r"… \d", line)]
    assert len(body) == 4
    assert max(cell_len(line) for line in body) <= width


def test_wide_columns_give_way_before_any_is_left_out():
    layout = fit_columns([19, 100, 8, 50], [19, 12, 8, 12], 70)
    assert layout.shown == (0, 1, 2, 3)
    assert layout.widths == (19, 17, 8, 17)
    assert sum(layout.widths) + 3 * GAP == 70


def test_columns_are_left_out_from_the_middle_and_named():
    rows = batch(**{name: pa.array([10**9]) for name in ("first", "b", "c", "d", "last")})
    text, _ = table(rows, width=36)
    assert text.splitlines() == [
        "     first │ … │       last",
        "───────────┼───┼───────────",
        "1000000000 │ … │ 1000000000",
        "… 3 more columns: b, c, d",
    ]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=12),
    st.integers(1, 200),
)
def test_the_columns_that_are_shown_always_fit(sizes, available):
    natural = [max(pair) for pair in sizes]
    floors = [min(pair) for pair in sizes]
    layout = fit_columns(natural, floors, available)
    gaps = len(layout.shown) - 1 + (layout.break_at is not None)
    mark = layout.break_at is not None
    assert layout.shown[0] == 0
    assert list(layout.shown) == sorted(set(layout.shown))
    if available >= 5:
        assert sum(layout.widths) + GAP * gaps + mark <= available
    if layout.break_at is None and len(natural) > 1:
        assert layout.shown == tuple(range(len(natural)))


AT_ONCE = {"delay_seconds": 0, "poll_seconds": 0.01}

# -- progress ----------------------------------------------------------------------------------


def test_the_bar_shows_tasks_while_waiting_and_is_erased_afterwards():
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=True)
    with ProgressBar(console, **AT_ONCE) as bar:
        bar.counts = lambda: TaskCounts(1, 3, 1_200, 4_000)

        def slow():
            wait_until(lambda: "4,000" in stream.getvalue())
            yield "row"

        assert list(bar.watch(slow(), "Running")) == ["row"]
        assert "Running" in stream.getvalue()
        assert "1,200/4,000 tasks  1/3 stages  0:00:00" in stream.getvalue()
        # The cursor is back, and the line is empty
        assert "\x1b[?25h" in stream.getvalue()
        assert stream.getvalue().rstrip("\r").endswith("\x1b[2K")


def test_the_bar_shows_rows_read_and_a_line_for_each_stage_where_several_run():
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True)
    running = (StageCounts(7, 1, 4), StageCounts(8, 0, 2))
    with ProgressBar(console, **AT_ONCE) as bar, bar.waiting("Running"):
        bar.counts = lambda: TaskCounts(1, 3, 5, 10, 3_400_000, running)
        wait_until(lambda: "stage 8" in stream.getvalue())
    assert "5/10 tasks  1/3 stages  3.4 M rows  0:00:00" in stream.getvalue()
    assert "1/4 tasks" in stream.getvalue()
    assert "stage 8" in stream.getvalue()


def test_the_time_left_follows_from_the_tasks_that_were_done():
    left = TimeLeft()
    assert left.seconds(TaskCounts(0, 1, 0, 100), 10.0) is None
    assert left.seconds(TaskCounts(0, 1, 1, 100), 15.0) is None  # too few tasks for an estimate
    assert left.seconds(TaskCounts(0, 1, 20, 100), 20.0) == 40.0
    # another stage begins, and the estimate restarts
    assert left.seconds(TaskCounts(1, 2, 100, 150), 30.0) is None
    assert left.seconds(TaskCounts(1, 2, 125, 150), 40.0) == 10.0


@pytest.mark.parametrize(("is_terminal", "enabled"), [(False, True), (True, False)])
def test_no_bar_is_drawn_in_a_pipe_or_if_it_is_not_wanted(is_terminal, enabled):
    stream, drawn = io.StringIO(), io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal)
    other_console = Console(file=drawn, width=120, force_terminal=True)
    counts = TaskCounts(1, 3, 5, 10)
    with ProgressBar(console, enabled=enabled, **AT_ONCE) as bar, bar.waiting("Running"):
        bar.counts = lambda: counts
        # a bar that starts later is drawn
        with ProgressBar(other_console, **AT_ONCE) as other, other.waiting("Running"):
            other.counts = lambda: counts
            wait_until(lambda: "5/10 tasks" in drawn.getvalue())
    assert stream.getvalue() == ""


@pytest.mark.parametrize("show", [print_table, write_vertical])
def test_a_long_line_is_complete_without_a_width(show):
    out = io.StringIO()
    batch = pa.RecordBatch.from_pydict({"c": ["x" * 5_000 + "\nend"]})
    show(["c"], [batch], Console(file=out, force_terminal=False))
    assert out.getvalue().count("x") == 5_000


def test_wide_characters_are_broken_where_the_terminal_would_break_them():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=40)
    value = "漢字" * 30 + " and so on, word by word, to the end\n\n  indented"
    write_vertical(["c"], [pa.RecordBatch.from_pydict({"c": [value]})], console)
    lines = out.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 40
    assert "".join(line.partition("│ ")[2] for line in lines[1:]).startswith("漢字" * 30)
    assert lines[-2:] == ["  │", "  │   indented"]


def test_a_single_value_of_several_lines_is_printed_to_be_copied():
    sql = "CREATE TABLE t (\n  a INT COMMENT 'a\x1b[31m'\n)"
    out = io.StringIO()
    shown = print_table(["create statement"], [batch(s=pa.array([sql]))], Console(file=out))
    assert shown == (1, False)
    assert out.getvalue() == sql.replace("\x1b", "\\x1b") + "\n"
    two = io.StringIO()
    print_table(["s"], [batch(s=pa.array(["a\nb", "c"]))], Console(file=two))
    assert "a\\nb" in two.getvalue()
