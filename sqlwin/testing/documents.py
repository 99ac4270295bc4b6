"""YAML documents with the line of every value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SqlwinError, packages_of

with packages_of("testing", "a test file"):
    import yaml

Scalar = str | int | float | bool | None

# Longer numbers fit no SQL type
_MAX_DIGITS = 1_000
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN", "NaN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
}


class CaseFileError(SqlwinError):
    """A test file is not valid."""


@dataclass(frozen=True)
class Located:
    """A value in a test file.

    Attributes:
        value: Scalar, list or dict of located values.
        line: Line in the file, from 1.
        start: Index of its first character in the text.
        end: Index after its last character.
        column: Column of its first character, from 0.
    """

    value: Scalar | list[Located] | dict[str, Located]
    line: int
    start: int = 0
    end: int = 0
    column: int = 0

    @property
    def plain(self) -> object:
        """The value without places."""
        match self.value:
            case list() as items:
                return [item.plain for item in items]
            case dict() as members:
                return {key: member.plain for key, member in members.items()}
            case scalar:
                return scalar


def read_document(path: Path, text: str) -> Located:
    """Return the content of a YAML file.

    Words, numbers and NULL follow YAML 1.2: `10:00`, `2024-01-01` and `no` are texts.

    Raises:
        CaseFileError: It is not valid YAML.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise CaseFileError(f"{path}:{line}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise CaseFileError(f"{path}: {str(error).splitlines()[0]}") from error
    if node is None:
        raise CaseFileError(f"{path}:1: the file is empty", hint="it needs `cases`")
    return _located(path, node)


def _located(path: Path, node: yaml.Node, within: frozenset[int] = frozenset()) -> Located:
    """Return a node with the places of its values. `within` has the `id` of each node around it."""
    if id(node) in within:
        raise CaseFileError(f"{path}:{node.start_mark.line + 1}: an alias contains itself")
    within |= {id(node)}
    value: Scalar | list[Located] | dict[str, Located]
    match node:
        case yaml.MappingNode():
            value = {}
            for key, member in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise CaseFileError(f"{path}:{line}: a key must be a text")
                if key.value in value:
                    raise CaseFileError(f"{path}:{line}: the key '{key.value}' is given twice")
                value[key.value] = _located(path, member, within)
        case yaml.SequenceNode():
            value = [_located(path, item, within) for item in node.value]
        case _:
            value = _scalar(node.value) if node.style is None else node.value
    start, end = node.start_mark, node.end_mark
    return Located(value, start.line + 1, start.index, end.index, start.column)


def _scalar(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) < _MAX_DIGITS:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
