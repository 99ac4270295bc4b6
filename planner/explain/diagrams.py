"""The physical plan as a diagram, in the languages of Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from planner.explain.analysis import counted, size_text
from planner.explain.document import Document, OperatorEntry, QueryDocument, Tree

# Longer attributes make boxes that nobody can read
_MOST_CHARACTERS = 60
_MOST_ATTRIBUTES = 4


def mermaid(document: Document) -> str:
    """A Mermaid flowchart, data flowing downwards; a subgraph for each statement."""
    lines = ["flowchart TD"]
    queries = [(query, query.trees.physical) for query in document.queries if query.trees]
    for number, (query, tree) in enumerate(queries, 1):
        inside = "    " if len(queries) == 1 else "        "
        if len(queries) > 1:
            lines.append(f'    subgraph q{number}["{_mermaid(_title(query, number))}"]')
        for each in tree.operators:
            label = "<br>".join(_mermaid(line) for line in _label(each))
            lines.append(f'{inside}q{number}_{each.id}["{label}"]')
        for source, target, label in _edges(query, tree):
            arrow = f'-- "{_mermaid(label)}" -->' if label else "-->"
            lines.append(f"{inside}q{number}_{source} {arrow} q{number}_{target}")
        if len(queries) > 1:
            lines.append("    end")
    return "\n".join(lines) + "\n"


def dot(document: Document) -> str:
    """A Graphviz digraph, data flowing downwards; a cluster for each statement."""
    lines = [
        "digraph plan {",
        '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    queries = [(query, query.trees.physical) for query in document.queries if query.trees]
    for number, (query, tree) in enumerate(queries, 1):
        inside = "  " if len(queries) == 1 else "    "
        if len(queries) > 1:
            title = _quoted(_title(query, number))
            lines += [f"  subgraph cluster_q{number} {{", f"    label={title};"]
        for each in tree.operators:
            label = "\n".join(_label(each))
            lines.append(f"{inside}q{number}_{each.id} [label={_quoted(label)}];")
        for source, target, text in _edges(query, tree):
            label = f" [label={_quoted(text)}]" if text else ""
            lines.append(f"{inside}q{number}_{source} -> q{number}_{target}{label};")
        if len(queries) > 1:
            lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _edges(query: QueryDocument, tree: Tree) -> Iterator[tuple[str, str, str]]:
    """(from, to, what flows) of every edge of the physical plan."""
    for each in tree.operators:
        for source in each.inputs:
            yield source, each.id, _flow(query, source)


def _flow(query: QueryDocument, source: str) -> str:
    """What an operator gave to the one above: `9,812 partials, 187.4 KiB`; maybe nothing."""
    measured = query.analysis.operators.get(source) if query.analysis else None
    if measured is None:
        return ""
    parts = []
    if measured.rows_out is not None:
        parts.append(counted(measured.rows_out, measured.unit_out))
    if measured.bytes_out is not None:
        parts.append(size_text(measured.bytes_out))
    return ", ".join(parts)


def _label(operator: OperatorEntry) -> list[str]:
    attributes = list(operator.attributes.items())
    lines = [operator.name]
    for key, values in attributes[:_MOST_ATTRIBUTES]:
        lines.append(_short(f"{key}: {', '.join(values)}"))
    return lines


def _title(query: QueryDocument, number: int) -> str:
    return f"{number}: {_short(' '.join(query.statement.split()))}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


_MERMAID = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"}


def _mermaid(text: str) -> str:
    return "".join(_MERMAID.get(character, character) for character in text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
