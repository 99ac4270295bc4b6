"""The workflow runs every part of .ci/run, and the parts are those that .ci/run runs by default."""

import re

import yaml

from tests.goldens import ROOT


def test_the_workflow_runs_each_part_of_the_script() -> None:
    script = (ROOT / ".ci/run").read_text()
    by_default = re.search(r"parts=\(([a-z+ ]+)\)", script)
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    side_by_side = jobs["checks"]["strategy"]["matrix"]["part"]
    commands = [step.get("run", "") for step in jobs["packages"]["steps"]]
    assert by_default is not None
    parts = re.split("[ +]", by_default[1])
    assert [*side_by_side, "packages"] == parts
    assert ".ci/packages dist" in commands
    assert re.findall(r"^    ([a-z]+)\) ", script, re.MULTILINE) == parts
