"""`sqlwin functions`."""

from click.testing import CliRunner

from sqlwin.cli.app import main


def test_all_functions_are_listed():
    result = CliRunner().invoke(main, ["functions"])
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "CUMULATE windows that grow by the step up to the size, then start over" in lines
    assert "STDDEV_SAMP sample standard deviation (n - 1)" in lines
    assert "SESSION_END end of the window of GROUP BY (exclusive)" in lines


def test_a_function_is_explained_with_a_picture_and_an_example():
    result = CliRunner().invoke(main, ["functions", "hop"])
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])\n\n"
        "  Windows that begin at every slide and may overlap.\n"
    )
    assert "[───────────────────)" in result.stdout
    assert "FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES" in result.stdout


def test_an_unknown_function_is_an_error_that_names_the_nearest():
    result = CliRunner().invoke(main, ["functions", "cumulat"])
    assert result.exit_code == 1
    assert result.stderr == ("error: no help for function CUMULAT\n  did you mean CUMULATE?\n")
