"""`sqlwin run` on a stream: rows as they arrive, Ctrl-C, and resuming."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

# Only reached when something hangs
SECONDS = 300
START = ["-m", "sqlwin.cli.app", "run", "--master", "local[2]"]
CONF = [
    "--conf", "spark.driver.memory=1g",
    "--conf", "spark.sql.shuffle.partitions=2",
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
]  # fmt: skip
TICKS = """
    CREATE TABLE ticks (id INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'datagen', 'rows-per-second' = '500', 'fields.id.min' = '1');
"""


def test_ctrl_c_stops_a_stream_after_its_micro_batch_and_says_how_to_resume(
    tmp_path: Path,
) -> None:
    script = f"""
        {TICKS}
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE kept (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/kept',
          'format' = 'json');
        INSERT INTO kept SELECT id FROM ticks;
    """
    child = pexpect.spawn(
        sys.executable, [*START, *CONF, "-e", script], encoding="utf-8", dimensions=(30, 150)
    )
    child.expect(r"running until Ctrl-C: stream 1 \(`kept`\)", timeout=SECONDS)
    child.expect(r"kept: [\d,]+ rows/s · batch \d+", timeout=SECONDS)
    child.sendintr()
    child.expect("stopping after this micro-batch", timeout=SECONDS)
    child.expect(r"stream 1 \(`kept`\) stopped", timeout=SECONDS)
    child.expect("to resume from", timeout=SECONDS)
    child.expect(pexpect.EOF, timeout=SECONDS)
    child.close()
    assert child.exitstatus == 130
    assert list((tmp_path / "kept").glob("part-*.json"))
    assert not list((tmp_path / "kept").glob(".sqlwin-*/part*"))


def test_rows_of_a_stream_reach_a_pipe_as_they_come() -> None:
    script = f"{TICKS} SELECT id, at FROM ticks WHERE id > 0"
    process = subprocess.Popen(
        [sys.executable, *START, *CONF, "-e", script, "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "id,at\n"
    first = process.stdout.readline()
    assert re.fullmatch(r"\d+,20\d\d-.*\n", first), first
    # a later micro-batch has rows of another second
    second_of = lambda line: re.split("[,.]", line)[1]  # noqa: E731
    while second_of(process.stdout.readline()) == second_of(first):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, errors
    assert "stopped" in errors
    assert "execution.checkpointing.dir" in errors
