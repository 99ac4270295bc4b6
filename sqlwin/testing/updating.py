"""Rewrite the expectations of a test file with the actual values: `sqlwin test --update`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runtime.simulator.compare import Row
from sqlwin.testing.cells import cell_text
from sqlwin.testing.documents import Located
from sqlwin.testing.running import CaseResult


def update_file(path: Path, results: Sequence[CaseResult]) -> bool:
    """Rewrite the expectations of failed cases in a file; return whether anything changed.

    Expected rows are replaced whole. Other lines stay as they are, comments included.

    Args:
        path: Test file.
        results: Results of cases of the file.
    """
    text = path.read_text(encoding="utf-8-sig")
    edits: list[tuple[int, int, str]] = []
    for result in results:
        if not result.failures:
            continue
        members = result.case.located.value
        assert isinstance(members, dict), "checked by the schema"
        for key, member in members.items():
            new = _new_text(key, member, result, text)
            if new is not None:
                edits.append((member.start, member.end, new))
    for start, end, new in sorted(edits, reverse=True):
        # a block in YAML ends at the next token, behind the line break and comments
        kept = text[start:end]
        tail = kept[len(kept.rstrip()) :]
        text = f"{text[:start]}{new}{tail}{text[end:]}"
    if edits:
        path.write_text(text, encoding="utf-8")
    return bool(edits)


def _new_text(key: str, member: Located, result: CaseResult, text: str) -> str | None:
    """Return the new text of an expectation, None if it stays."""
    if key not in result.values:
        return None
    value = result.values[key]
    if key == "error":
        return cell_text(value) if not isinstance(member.value, dict) else None
    if key == "refused":
        return cell_text(value)
    if key == "dropped":
        return str(value)
    assert isinstance(value, list)
    rows: list[Row] = [row[1] if isinstance(row, tuple) else row for row in value]
    if not rows:
        return "[]"
    texts = [f"[{', '.join(map(cell_text, row.values()))}]" for row in rows]
    if text[result.case.located.start] == "{":
        # a block cannot stand in braces
        return f"[{', '.join(texts)}]"
    lines = [f"- {row}" for row in texts]
    line_start = text.rfind("\n", 0, member.start) + 1
    is_block = text[line_start : member.start].strip() == ""
    indent = member.column if is_block else _indent_of(text, line_start) + 2
    joined = ("\n" + " " * indent).join(lines)
    return joined if is_block else "\n" + " " * indent + joined


def _indent_of(text: str, line_start: int) -> int:
    line = text[line_start:].partition("\n")[0]
    return len(line) - len(line.lstrip())
