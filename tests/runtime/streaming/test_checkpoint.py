"""A checkpoint belongs to one query: it resumes that one and refuses others with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import ExecutionError, SetupError
from runtime.files import LocalFiles
from runtime.records import from_json, to_json
from runtime.redaction import DEFAULT
from runtime.spec.state_schema import (
    OperatorSchema,
    RowOrigin,
    StateAccumulator,
    StateKey,
    StateReader,
)
from runtime.streaming.checkpoint import (
    Checkpoint,
    begin_with,
    end_input,
    find_checkpoint,
    mark_ended,
    open_checkpoint,
)
from runtime.streaming.identity import Identity, difference, without_secrets
from runtime.streaming.members import check_members, check_no_member, mark_members
from runtime.windows.arguments import RowLength
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import RowGapSession, SessionWindow
from runtime.windows.tumble import Tumble

FILES = LocalFiles()
PLAN = (
    "GlobalWindowAggregate(groupBy=[k], window=[TUMBLE(size=[10 min])])\n+- Exchange\n   +- Scan(t)"
)
QUERY = Identity(PLAN, {"t": "connector filesystem\ncolumn k INT"}, {"zone": "UTC"}, form=(PLAN,))


def identity_of(plan: str) -> Identity:
    return replace(QUERY, plan=plan, form=(plan,))


def open_new(directory: Path, identity: Identity = QUERY, key_groups: int = 8) -> Checkpoint:
    return open_checkpoint(FILES, str(directory), identity, key_groups, 2)


def begin(directory: Path) -> None:
    """Log the offsets of a first micro-batch."""
    (directory / "spark/offsets").mkdir(parents=True, exist_ok=True)
    (directory / "spark/offsets/0").write_text('v1\n{"batchWatermarkMs":0}\n-')


def test_settings_apply_to_new_checkpoints_only(tmp_path: Path) -> None:
    first = open_new(tmp_path / "a" / "b", key_groups=8)
    again = open_new(tmp_path / "a" / "b", key_groups=64)
    assert (again.key_groups, again.partitions, again.writer) == (8, 2, first.writer)
    assert open_new(tmp_path / "other").writer != first.writer


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            identity_of(PLAN.replace("10 min", "5 min")),
            "its plan has changed: `GlobalWindowAggregate(groupBy=[k], window=[TUMBLE(size=[10 min])])` "
            "changed to `GlobalWindowAggregate(groupBy=[k], window=[TUMBLE(size=[5 min])])`",
        ),
        (
            replace(QUERY, settings={"zone": "Asia/Tokyo"}),
            "'zone' has changed from 'UTC' to 'Asia/Tokyo'",
        ),
        (
            replace(QUERY, tables={"t": "connector filesystem\ncolumn k BIGINT"}),
            "table `t` has changed: `column k INT` changed to `column k BIGINT`",
        ),
        (
            replace(QUERY, tables={"t": "connector filesystem\ncolumn k INT\ncolumn v INT"}),
            "table `t` has changed: added `column v INT`",
        ),
        (
            identity_of(PLAN.removesuffix("Scan(t)") + "Filter\n      +- Scan(t)"),
            "its plan has changed: added `Filter`",
        ),
    ],
)
def test_a_changed_query_is_refused_with_the_difference(
    changed: Identity, reason: str, tmp_path: Path
) -> None:
    open_new(tmp_path / "c")
    begin(tmp_path / "c")
    with pytest.raises(ExecutionError) as caught:
        open_new(tmp_path / "c", changed)
    assert (
        caught.value.message == f"the query does not match its checkpoint in {tmp_path}/c: {reason}"
    )
    assert "execution.checkpointing.dir" in str(caught.value.hint)
    assert difference(QUERY, QUERY) == ()


def test_an_unused_checkpoint_accepts_a_changed_query(tmp_path: Path) -> None:
    first = open_new(tmp_path)
    (tmp_path / "spark/sources/0").mkdir(parents=True)
    (tmp_path / "spark/sources/0/0").write_text("v1")
    changed = replace(QUERY, settings={})
    again = open_new(tmp_path, changed, key_groups=64)
    assert (again.key_groups, again.writer == first.writer) == (64, False)
    assert [path.name for path in (tmp_path / "spark").rglob("*")] == ["metadata"]
    begin(tmp_path)
    with pytest.raises(ExecutionError, match="does not match its checkpoint"):
        open_new(tmp_path)
    assert open_new(tmp_path, changed).writer == again.writer


@pytest.mark.parametrize("name", ["file/below", "file"])
def test_an_unusable_directory_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError) as caught:
        open_new(tmp_path / name)
    assert caught.value.message.startswith(f"cannot store the checkpoint in {tmp_path}/{name}: ")
    assert "Errno" not in caught.value.message
    assert caught.value.hint


def test_offsets_that_a_killed_run_did_not_finish_writing_do_not_stop_the_next_one(
    tmp_path: Path,
) -> None:
    open_new(tmp_path)
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir()
    for name in (".0.53b1.tmp", "..0.53b1.tmp.crc"):
        (offsets / name).touch()
    open_new(tmp_path)
    assert list(offsets.iterdir()) == []

    # files of a later micro-batch are left to Spark
    begin(tmp_path)
    (offsets / ".1.53b1.tmp").touch()
    open_new(tmp_path)
    assert sorted(path.name for path in offsets.iterdir()) == [".1.53b1.tmp", "0"]


def test_a_checkpoint_without_our_file_is_refused(tmp_path: Path) -> None:
    begin(tmp_path / "c")
    with pytest.raises(ExecutionError, match="is not a checkpoint of sqlwin: sqlwin"):
        open_new(tmp_path / "c")
    (tmp_path / "c" / "sqlwin.json").write_text("{")
    with pytest.raises(ExecutionError, match="cannot read"):
        open_new(tmp_path / "c")


@pytest.mark.parametrize("version", [1, 2, 3, "x", None])
def test_a_checkpoint_of_another_format_is_refused_in_a_line(
    version: object, tmp_path: Path
) -> None:
    open_new(tmp_path)
    path = tmp_path / "sqlwin.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "version": version}))
    with pytest.raises(ExecutionError) as caught:
        open_new(tmp_path)
    assert caught.value.message == (f"{path} has format {version}, but this sqlwin reads format 4")
    assert "use the sqlwin version that wrote it" in str(caught.value.hint)
    # the content of 0.1, whatever the other fields
    path.write_text('{"version": 1, "identity": {"plan": "p"}, "key_groups": 8}')
    with pytest.raises(ExecutionError, match="has format 1, but this sqlwin reads format 4"):
        open_new(tmp_path)
    path.write_text(before)
    open_new(tmp_path)


def test_stored_descriptions_are_read_as_written(tmp_path: Path) -> None:
    operator = OperatorSchema(
        Tumble(60_000_000),
        ("ts", "timestamp_ntz"),
        "$slice_end",
        (StateKey("k", "k % 2", "bigint"),),
        (StateAccumulator(("t$0",), "sum", ("v",), "v > 3", "SUM(v)", "s", type="bigint"),),
        (StateReader("out", Tumble(60_000_000), Tumble(1_000)),),
        RowOrigin({"table": "r"}, ("k > 1",)),
        2,
        {"v": "bigint"},
    )
    identity = replace(QUERY, operators=(operator,), sources=("t",))
    open_new(tmp_path, identity)
    assert stored_identity(tmp_path) == identity


def test_contents_of_a_checkpoint_belong_to_it(tmp_path: Path) -> None:
    first, other = open_new(tmp_path / "a"), open_new(tmp_path / "b")
    assert first.owner.token != other.owner.token
    assert open_new(tmp_path / "a").owner == first.owner
    begin(tmp_path / "a")
    begin(tmp_path / "b")
    shutil.copytree(tmp_path / "b/spark", tmp_path / "a/spark", dirs_exist_ok=True)
    with pytest.raises(ExecutionError, match=f"{tmp_path}/a/spark belongs to another checkpoint"):
        open_new(tmp_path / "a")
    # not if the whole checkpoint was moved or restored from a copy
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    assert open_new(tmp_path / "c").owner.token == other.owner.token


def test_a_checkpoint_without_sparks_files_does_not_restart(tmp_path: Path) -> None:
    open_new(tmp_path)
    begin(tmp_path)
    shutil.rmtree(tmp_path / "spark")
    for identity in (QUERY, replace(QUERY, settings={})):
        with pytest.raises(ExecutionError, match="spark/metadata is missing"):
            open_new(tmp_path, identity)


def test_a_run_that_was_killed_at_its_very_start_leaves_no_obstacle(tmp_path: Path) -> None:
    first = open_new(tmp_path)
    (tmp_path / "sqlwin.json").unlink()
    assert open_new(tmp_path).writer != first.writer


def test_the_end_of_input_is_recorded_as_a_file(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path / "c")
    assert list(Path(checkpoint.end_of_input).iterdir()) == []
    end_input(FILES, checkpoint)
    (mark,) = Path(checkpoint.end_of_input).glob("*.json")
    assert mark.read_text().endswith("}\n")
    assert not open_new(tmp_path / "c").has_ended
    mark_ended(FILES, checkpoint, QUERY)
    assert open_new(tmp_path / "c").has_ended


def test_inserts_that_share_a_checkpoint_begin_in_no_other_one(tmp_path: Path) -> None:
    hours, days, weeks = (f"{tmp_path}/{name}" for name in ("hours", "days", "weeks"))
    check_members(FILES, hours, [hours, days])
    open_new(Path(hours))
    mark_members(FILES, hours, [hours, days])
    # the same set resumes; none of its INSERTs resumes alone or with others
    check_members(FILES, hours, [hours, days])
    check_no_member(FILES, hours)
    with pytest.raises(ExecutionError, match=r"days is part of the checkpoint in .*hours, shared"):
        check_no_member(FILES, days)
    with pytest.raises(ExecutionError, match=r"days is part of the checkpoint in .*hours, shared"):
        check_members(FILES, weeks, [weeks, days])
    with pytest.raises(ExecutionError, match=r"hours would start over in .*weeks"):
        check_members(FILES, weeks, [weeks, hours])
    # a removed directory does not matter
    FILES.delete(hours)
    check_no_member(FILES, days)


def test_an_insert_with_a_checkpoint_of_its_own_joins_no_others(tmp_path: Path) -> None:
    hours, days = f"{tmp_path}/hours", f"{tmp_path}/days"
    open_new(Path(days))
    with pytest.raises(ExecutionError, match=r"days would start over in .*hours") as caught:
        check_members(FILES, hours, [hours, days])
    assert "share_window_slices" in str(caught.value.hint)


SECRETS = """connector spark
column k INT
'url' = 'jdbc:postgresql://u:first@h/db?sslpassword=first'
'password' = 'first'
'properties.sasl.jaas.config' = 'Plain required
 username="u"
 password="first";'
'dbtable' = 'rows'"""


def with_table(text: str) -> Identity:
    return replace(QUERY, tables={"t": text})


def test_secrets_are_not_stored_and_may_change(tmp_path: Path) -> None:
    stored = without_secrets(with_table(SECRETS), DEFAULT)
    assert stored.tables["t"].splitlines()[2:] == [
        "'url' = 'jdbc:postgresql://u:******@h/db?sslpassword=******'",
        "'dbtable' = 'rows'",
    ]
    assert without_secrets(with_table(SECRETS.replace("first", "second")), DEFAULT) == stored
    assert without_secrets(stored, DEFAULT) == stored
    moved = without_secrets(with_table(SECRETS.replace("rows", "others")), DEFAULT)
    begin(Path(open_new(tmp_path / "a", stored).directory))
    with pytest.raises(
        ExecutionError, match="`'dbtable' = 'rows'` changed to `'dbtable' = 'others'`"
    ):
        open_new(tmp_path / "a", moved)


def test_an_old_checkpoint_loses_its_secrets_when_it_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "sqlwin.json"
    first = open_new(tmp_path / "a", with_table(SECRETS))
    assert "first" in path.read_text()
    begin(tmp_path / "a")
    path.chmod(0o644)
    changed = without_secrets(with_table(SECRETS.replace("first", "another")), DEFAULT)
    again = open_new(tmp_path / "a", changed)
    begin_with(FILES, again, changed)
    assert again.writer == first.writer
    assert "first" not in path.read_text()
    assert "another" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_checkpoint_is_private_to_its_owner(tmp_path: Path) -> None:
    open_new(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b" / "sqlwin.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 != 0o700


def test_an_end_mark_that_was_never_read_is_removed_and_one_that_was_stays(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path)
    begin(tmp_path)
    mark = Path(checkpoint.end_of_input) / "end.json"
    log = tmp_path / "spark/sources/1/0"
    log.parent.mkdir(parents=True)
    end_input(FILES, checkpoint)
    log.write_text('v1\n{"path":"file:///in/a.parquet","timestamp":1,"batchId":0}')
    open_new(tmp_path)
    assert not mark.exists()
    named = f'v1\n{{"path":"file://{mark}","timestamp":1,"batchId":0}}'
    end_input(FILES, checkpoint)
    log.write_text(named)
    open_new(tmp_path)
    assert not mark.exists(), "named, and no micro-batch was planned with it"
    end_input(FILES, checkpoint)
    log.write_text(named)
    (tmp_path / "spark/offsets/0").write_text('v1\n{"batchWatermarkMs":0}\n-\n{"logOffset":0}')
    open_new(tmp_path)
    assert mark.exists()


# The same state as QUERY's, as another release describes it
REWORDED = replace(QUERY, plan=PLAN.replace("groupBy", "keys"))


def commit(directory: Path, batch: int) -> None:
    """Log that a micro-batch has ended."""
    begin(directory)
    (directory / "spark/commits").mkdir(exist_ok=True)
    (directory / f"spark/commits/{batch}").write_text("v1\n{}")


def stored_identity(directory: Path) -> Identity:
    return find_checkpoint(FILES, str(directory))[1]


def test_opening_a_checkpoint_does_not_change_it(tmp_path: Path) -> None:
    open_new(tmp_path, with_table(SECRETS))
    commit(tmp_path, 0)
    before = (tmp_path / "sqlwin.json").read_bytes()
    open_new(tmp_path, without_secrets(with_table(SECRETS), DEFAULT))
    assert (tmp_path / "sqlwin.json").read_bytes() == before
    assert stored_identity(tmp_path) == with_table(SECRETS)


def test_new_sql_takes_effect_with_its_first_committed_micro_batch(
    tmp_path: Path,
) -> None:
    checkpoint = open_new(tmp_path)
    commit(tmp_path, 4)
    begin_with(FILES, checkpoint, REWORDED)
    # killed here, or while micro-batch 5 runs, the state is still micro-batch 4's
    assert stored_identity(tmp_path) == QUERY
    (tmp_path / "spark/offsets/5").write_text("v1")
    assert stored_identity(tmp_path) == QUERY
    commit(tmp_path, 5)
    assert stored_identity(tmp_path) == REWORDED
    # as is the case when a run resumes it
    begin_with(FILES, checkpoint, REWORDED)
    assert json.loads((tmp_path / "sqlwin.json").read_text())["next"] is None
    assert stored_identity(tmp_path) == REWORDED


def test_a_killed_start_is_forgotten_when_the_old_sql_resumes(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path)
    commit(tmp_path, 4)
    begin_with(FILES, checkpoint, REWORDED)
    begin_with(FILES, checkpoint, QUERY)
    commit(tmp_path, 5)
    assert stored_identity(tmp_path) == QUERY


def test_files_of_a_failed_start_are_restored(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path)
    commit(tmp_path, 4)
    path = tmp_path / "sqlwin.json"
    before = path.read_bytes()
    put_back = begin_with(FILES, checkpoint, REWORDED)
    assert path.read_bytes() != before
    put_back()
    assert path.read_bytes() == before
    # not if the failure came after the commit
    put_back = begin_with(FILES, checkpoint, REWORDED)
    commit(tmp_path, 5)
    put_back()
    assert stored_identity(tmp_path) == REWORDED


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path)
    commit(tmp_path, 4)

    class Full(LocalFiles):
        def write_text(self, path: str, text: str) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(SetupError, match=f"cannot store the checkpoint in {tmp_path}: No space"):
        begin_with(Full(), checkpoint, REWORDED)


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        ('"key_groups": 8', '"key_groups": 8, "color": 1', "unknown field `color`"),
        ('"key_groups": 8,', "", "field `key_groups` is missing"),
        ('"key_groups": 8', '"key_groups": "8"', '`key_groups`: expected a whole number, not "8"'),
        ('"plan": ', '"plans": ', "`identity`: unknown field `plans`"),
    ],
)
def test_a_field_that_this_version_does_not_know_is_refused_in_a_line(
    was: str, now: str, problem: str, tmp_path: Path
) -> None:
    open_new(tmp_path)
    path = tmp_path / "sqlwin.json"
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, now))
    with pytest.raises(ExecutionError) as caught:
        open_new(tmp_path)
    assert caught.value.message == f"cannot read {path}: {problem}"


any_window = st.sampled_from(
    [
        Tumble(7, 3),
        Hop(1, 5),
        Cumulate(1, 6),
        SessionWindow(5, ("k",)),
        RowGapSession(0, ("k",), of_rows=RowLength("v * INTERVAL '1' SECOND", 1)),
        CalendarCumulate(1, 2),
    ]
)
texts = st.text(max_size=4)
operators = st.builds(
    OperatorSchema,
    window=any_window,
    time=st.tuples(texts, texts),
    slice_end=texts,
    keys=st.lists(st.builds(StateKey, texts, texts, texts), max_size=2).map(tuple),
    accumulators=st.lists(
        st.builds(
            StateAccumulator,
            columns=st.lists(texts, max_size=2).map(tuple),
            kind=texts,
            args=st.lists(texts, max_size=2).map(tuple),
            condition=st.none() | texts,
            name=texts,
            source=st.none() | texts,
            type=texts,
        ),
        max_size=2,
    ).map(tuple),
    readers=st.lists(
        st.builds(StateReader, texts, st.just(Hop(1, 5)), st.just(Tumble(1))), max_size=2
    ).map(tuple),
    rows=st.builds(RowOrigin, st.none() | st.just({"table": "r"}), st.just(("k > 1",)), st.none()),
    generation=st.integers(0, 9),
    types=st.dictionaries(texts, texts, max_size=2),
)


@given(st.lists(operators, max_size=2).map(tuple), st.dictionaries(texts, texts, max_size=2))
@settings(max_examples=30, deadline=None)
def test_any_description_of_a_stream_is_read_as_it_was_written(
    operators: tuple[OperatorSchema, ...], tables: dict[str, str]
) -> None:
    with TemporaryDirectory() as directory:
        identity = replace(QUERY, operators=operators, tables=tables)
        open_new(Path(directory), identity)
        assert stored_identity(Path(directory)) == identity


def test_sessions_of_earlier_checkpoints_are_read() -> None:
    window = SessionWindow(5, ("k",))
    assert to_json(window) == {"gap_us": 5, "partition": ("k",)}
    assert from_json(SessionWindow, {"gap_us": 5, "partition": ["k"]}) == window
