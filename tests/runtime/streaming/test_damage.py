"""Missing and truncated files of Spark's part of a checkpoint are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.streaming.damage import check_spark_files, uncommitted_state

FILE = '{"path":"file:///in/a.parquet","timestamp":1795337414441,"batchId":0}'

ID = "aded9987-1c7d-44b5-ab1b-e058ab52649a"


def make_checkpoint(directory: Path, started: int, committed: int) -> Path:
    """Write Spark's part of a checkpoint after some micro-batches of a file source and another one."""
    spark = directory / "spark"
    texts = {"metadata": json.dumps({"id": ID})}
    for number in range(started + 1):
        offset = json.dumps({"logOffset": number})
        conf = '{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}'
        texts[f"offsets/{number}"] = f"v1\n{conf}\n{offset}\n17:4"
        is_whole = number % 10 == 9
        texts[f"sources/0/{number}{'.compact' if is_whole else ''}"] = f"v1\n{FILE}"
    for number in range(committed + 1):
        texts[f"commits/{number}"] = 'v1\n{"nextBatchWatermarkMs":0}'
        for task in (0, 1):
            kind = "zip" if number % 3 == 0 else "changelog"
            texts[f"state/0/{task}/{number + 1}.{kind}"] = "state"
    for name, text in texts.items():
        (spark / name).parent.mkdir(parents=True, exist_ok=True)
        (spark / name).write_text(text)
    return spark


def check(directory: Path) -> None:
    check_spark_files(LocalFiles(), str(directory), ID)


@pytest.mark.parametrize(("started", "committed"), [(0, -1), (0, 0), (1, 0), (12, 11), (12, 12)])
def test_a_whole_checkpoint_passes(started: int, committed: int, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, started, committed)
    check(tmp_path)


@pytest.mark.parametrize("committed", [-1, 0, 3])
def test_state_of_an_unfinished_micro_batch_is_detected(committed: int, tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, committed + 1, committed)
    again = committed + 2
    unread = [f"{again}.zip", f".{again}.zip.crc", f"{again}_4f-1.changelog", f"{again}.delta"]
    others = ["_metadata/v2/9", f"_stateSchema/default/{again}_0013", "SSTs/000009-6c09.sst"]
    below = spark / "state" / "0" / "1"
    for name in [*unread, *others]:
        (below / name).parent.mkdir(parents=True, exist_ok=True)
        (below / name).write_text("state")
    result = uncommitted_state(LocalFiles(), str(spark), committed)
    assert sorted(result) == sorted(str(below / name) for name in unread)


def test_state_copied_from_another_checkpoint_is_refused(tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, 12, 12)
    check_spark_files(LocalFiles(), str(tmp_path), ID)
    with pytest.raises(ExecutionError) as caught:
        check_spark_files(LocalFiles(), str(tmp_path), "1b1f3c4e")
    assert caught.value.message == (
        f"the checkpoint in {tmp_path} is damaged: {spark} belongs to another checkpoint"
    )


@pytest.mark.parametrize("name", ["", "metadata", "offsets"])
def test_a_stream_does_not_restart_if_files_are_missing(name: str, tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, 12, 12)
    shutil.rmtree(spark / "commits")
    LocalFiles().delete(str(spark / name))
    with pytest.raises(ExecutionError, match=f"{spark}/{name or 'metadata'} is missing"):
        check_spark_files(LocalFiles(), str(tmp_path), ID)


def test_a_checkpoint_that_never_began_passes(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark/metadata").write_text(json.dumps({"id": ID}))
    check(tmp_path)
    (tmp_path / "spark/offsets").mkdir(parents=True)
    check(tmp_path)


def test_files_removed_by_spark_are_not_missing(tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, 12, 12)
    for number in range(9):
        (spark / f"sources/0/{number}").unlink()
    for number in (0, 1, 2, 5, 7):
        (spark / f"offsets/{number}").unlink()
        (spark / f"commits/{number}").unlink()
    for number in range(1, 10):
        for task in (0, 1):
            next((spark / f"state/0/{task}").glob(f"{number}.*")).unlink()
    check(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["metadata", "offsets/11", "offsets/12", "commits/11", "commits/12", "sources/0/9.compact",
     "sources/0/10", "sources/0/12"],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbage"])
def test_a_damaged_file_is_named(name: str, damage: str, tmp_path: Path) -> None:
    path = make_checkpoint(tmp_path, 12, 12) / name
    whole = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            # also at the end of a line
            path.write_bytes(whole[: len(whole) - 2])
        case _:
            path.write_bytes(b"\x80\xff garbage" * 9)
    if name == "commits/12" and damage == "missing":
        # the micro-batch is computed again
        return check(tmp_path)
    if name.startswith("offsets") and damage == "cut":
        # written by a source other than files
        return check(tmp_path)
    with pytest.raises(ExecutionError) as caught:
        check(tmp_path)
    # then it is unknown whether the log was compacted there
    path = path.with_suffix("") if damage == "missing" else path
    expected = f"the checkpoint in {tmp_path} is damaged: {path} is "
    assert caught.value.message.startswith(expected)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "needed"),
    [("0/0/13.zip", True), ("0/1/13.zip", True), ("0/1/12.changelog", False)],
)
def test_missing_state_is_named(name: str, needed: bool, tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, 12, 12)
    (spark / "state" / name).unlink()
    if not needed:
        return check(tmp_path)
    with pytest.raises(ExecutionError, match=f"state/{name.rpartition('.')[0]}.* is missing"):
        check(tmp_path)


def test_a_gap_in_the_changes_is_named(tmp_path: Path) -> None:
    spark = make_checkpoint(tmp_path, 11, 11)
    (spark / "state/0/1/11.changelog").unlink()
    with pytest.raises(ExecutionError, match=r"state/0/1/11\.changelog is missing"):
        check(tmp_path)


def read_twice(directory: Path, *sources: str) -> Path:
    """Write a checkpoint after a micro-batch of tables by letter, one log each; `-` has no row."""
    spark = make_checkpoint(directory, 0, 0)
    lasts = {"r": 0, "q": 2}
    lines = [
        json.dumps({"logOffset": lasts[source]}) if source in lasts else "-" for source in sources
    ]
    (spark / "offsets/0").write_text("\n".join(["v1", "{}", *lines]))
    shutil.rmtree(spark / "sources")
    for number, source in enumerate(dict.fromkeys(sources)):
        (spark / f"sources/{number}").mkdir(parents=True)
        for entry in range(lasts.get(source, -1) + 1):
            (spark / f"sources/{number}/{entry}").write_text(f"v1\n{FILE}")
    return spark


@pytest.mark.parametrize("sources", ["r-r", "rr-", "rrq-", "rqr-", "qrqr-", "r-"])
def test_a_table_that_is_read_twice_has_one_log(sources: str, tmp_path: Path) -> None:
    spark = read_twice(tmp_path, *sources)
    check(tmp_path)
    last = sorted(spark.glob("sources/*/*"))[-1]
    last.unlink()
    with pytest.raises(ExecutionError, match="is missing"):
        check(tmp_path)
