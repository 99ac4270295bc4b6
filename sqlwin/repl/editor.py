"""The person's own editor on a piece of SQL."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from runtime.errors import SetupError


def edited(text: str) -> str:
    """What is left of `text` when the editor is closed: `VISUAL`, `EDITOR`, or vi.

    Raises:
        SetupError: there is no such editor, or it failed.
    """
    with tempfile.TemporaryDirectory(prefix="sqlwin-") as directory:
        path = Path(directory) / "statement.sql"
        path.write_text(text.rstrip() + "\n" if text else "", "utf-8")
        return edited_file(path)


def edited_file(path: Path) -> str:
    """What a file holds when the editor is closed; the file is made if there is none.

    Raises:
        SetupError: there is no such editor, it failed, or the file is no text that can be changed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        path.touch()
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        raise SetupError(
            f"cannot run the editor {editor}: {error.strerror}",
            hint="export EDITOR=nano, or another one",
        ) from error
    if done.returncode:
        raise SetupError(f"the editor {editor} ended with {done.returncode}")
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read {path} as UTF-8 text", hint="save it as UTF-8") from error
