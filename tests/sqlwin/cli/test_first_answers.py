"""First answers from a shell: without Java, and without modules that they do not need.

Importing modules is nearly all of the time of such a command, so the modules are the budget.
`python -m tests.bench.start` measures the seconds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.goldens import ROOT

# Prints the names of the loaded modules as the last line of standard error
_PROGRAM = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from sqlwin.cli.app import main
main(sys.argv[1:], prog_name="sqlwin")
"""
WITHOUT_JAVA = {**os.environ, "PYTHONPATH": str(ROOT), "SQLWIN_ENGINE": "off"}
WITHOUT_JAVA |= {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}

# Modules that start with these names serve other statements and other places
SPARK = {"pyspark", "py4j", "grpc", "runtime.engines.spark_batch.execute", "runtime.results"}
STREAMS = {"planner.lowering.stream", "planner.explain.streams", "runtime.streaming"}
STREAMS |= {"runtime.plan.streams", "runtime.spec.state_schema", "runtime.sinks"}
FAR = {
    "runtime.lake",
    "runtime.connectors.kafka",
    "runtime.connectors.lake",
    "runtime.materialized.store",
}
SHOWN_ELSEWHERE = {"prompt_toolkit", "sqlwin.repl.app", "sqlwin.ui", "sqlwin.help", "IPython"}
SHOWN_ELSEWHERE |= {"sqlwin.display.charts", "sqlwin.display.html_table", "sqlwin.notebook"}
HEAVY = {"pandas", "polars", "pyarrow.dataset", "rich.progress", "rich.live", "asyncio", "unittest"}
HEAVY |= {"http.client"}
# Other programs and protocols
OUTSIDE = {"sqlwin.dbapi", "sqlwin.lsp", "sqlwin.server"}
OUTSIDE |= {"sqlalchemy", "pygls", "lsprotocol", "pg_mimic", "opentelemetry", "openlineage"}
NOT_AT_START = SPARK | STREAMS | FAR | SHOWN_ELSEWHERE | HEAVY | OUTSIDE
# For files only
FILES = {"pyarrow.fs", "pyarrow.parquet", "runtime.connectors.filesystem"}
PLANS = {"planner.explain.document", "sqlwin.execution.explain", "sqlwin.display.plan_page"}
WRITING = {"runtime.connectors.filesystem.read", "runtime.connectors.filesystem.write"}
# For tables of CSV, JSON and text
TEXTS = {"runtime.detection.delimited", "runtime.detection.log_lines", "runtime.detection.objects"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `sqlwin` without Java."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=ROOT,
        env=WITHOUT_JAVA,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("arguments", "answer", "unneeded"),
    [
        (
            ("run", "-e", "SELECT 6 * 7 AS answer"),
            "answer\n42\n",
            NOT_AT_START | PLANS | FILES,
        ),
        (
            ("run", "queries/quickstart.sql"),
            "origin,window_start",
            NOT_AT_START | PLANS | WRITING | TEXTS,
        ),
        (
            ("explain", "queries/quickstart.sql"),
            "ArrowScanLocalWindowAggregate",
            NOT_AT_START | WRITING | TEXTS | {"sqlwin.execution.analyze", "runtime.frames.meter"},
        ),
    ],
    ids=["SELECT", "quickstart", "explain"],
)
def test_a_first_answer_loads_only_what_it_needs(
    arguments: tuple[str, ...], answer: str, unneeded: set[str]
) -> None:
    completed = run(*arguments)
    assert completed.returncode == 0, completed.stderr
    assert answer in completed.stdout
    *messages, modules = completed.stderr.splitlines()
    assert not any("Spark" in message for message in messages)
    loaded = [
        module
        for module in json.loads(modules)
        if any(module == name or module.startswith(f"{name}.") for name in unneeded)
    ]
    assert not loaded, "import them where a statement needs them"


@pytest.mark.long
def test_the_first_block_of_the_readme_needs_no_java() -> None:
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    commands = [line.split() for line in block[1].splitlines() if line.startswith("sqlwin ")]
    assert commands, "the first block runs a query"
    for _, *arguments in commands:
        completed = run(*arguments)
        assert completed.returncode == 0, completed.stderr
        assert "mean_delay" in completed.stdout


def test_collections_of_garbage_are_rare_until_the_first_one() -> None:
    code = (
        "import gc, sqlwin.cli.app as app\n"
        "try: app.main(['functions', 'HOP'])\n"
        "except SystemExit: pass\n"
        "before = gc.get_threshold()[0]\n"
        "gc.collect()\n"
        "print(before, gc.get_threshold()[0])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], env=WITHOUT_JAVA, cwd=ROOT, capture_output=True, text=True
    )
    before, after = map(int, completed.stdout.splitlines()[-1].split())
    assert before > after, "one collection of the modules would take longer than a small query"
