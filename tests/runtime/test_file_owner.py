"""Directories whose files run code are used only if no one else can have written them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import SetupError
from runtime.file_owner import check_only_we_write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "ck"
    (path / "state").mkdir(parents=True)
    (path / "state/1.delta").write_text("x")
    path.chmod(0o755)
    (path / "state").chmod(0o755)
    (path / "state/1.delta").chmod(0o644)
    return path


def check(directory: Path) -> None:
    check_only_we_write(str(directory), f"the checkpoint in {directory}")


def test_our_own_directory_and_a_new_one_are_used(directory: Path) -> None:
    check(directory)
    check(directory / "new")
    (directory / "state/link").symlink_to("1.delta")
    check(directory)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused(directory: Path, mode: int) -> None:
    directory.chmod(mode)
    with pytest.raises(SetupError, match="because others can write it") as raised:
        check(directory)
    assert raised.value.hint == f"if you trust its files: chmod -R go-w {directory}"


@pytest.mark.parametrize("name", ["state", "state/1.delta"])
def test_what_others_can_write_below_is_refused_if_they_can_reach_it(
    directory: Path, name: str
) -> None:
    (directory / name).chmod(0o777)
    with pytest.raises(SetupError, match=rf"others can write {name}\n"):
        check(directory)
    directory.chmod(0o700)
    check(directory)


def test_another_user_s_directory_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(SetupError, match="because it belongs to another user"):
        check(directory)
