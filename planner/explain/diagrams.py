"""Diagrams of the physical plan, for Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from planner.explain.document import Document, OperatorEntry, QueryDocument, Tree
from runtime.spec.figures import count_text, size_text

# Longer attributes make the boxes unreadable
_MAX_CHARACTERS = 60
_MAX_ATTRIBUTES = 4
_NEWLINE = "\n"


class _Mermaid:
    """Mermaid syntax of groups, operators and edges."""

    head: tuple[str, ...] = ("flowchart TD",)
    tail: tuple[str, ...] = ()
    indent = "    "
    end = "end"

    @staticmethod
    def group(name: str, title: str) -> list[str]:
        return [f'subgraph {name}["{_escape(title)}"]']

    @staticmethod
    def box(name: str, lines: list[str]) -> str:
        return f'{name}["{"<br>".join(map(_escape, lines))}"]'

    @staticmethod
    def arrow(source: str, target: str, flow: str) -> str:
        arrow = f'-- "{_escape(flow)}" -->' if flow else "-->"
        return f"{source} {arrow} {target}"


class _Dot(_Mermaid):
    """Graphviz syntax of groups, operators and edges."""

    head = (
        "digraph plan {",
        '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=10];',
    )
    tail = ("}",)
    indent = "  "
    end = "}"

    @staticmethod
    def group(name: str, title: str) -> list[str]:
        return [f"subgraph cluster_{name} {{", f"  label={_quote(title)};"]

    @staticmethod
    def box(name: str, lines: list[str]) -> str:
        return f"{name} [label={_quote(_NEWLINE.join(lines))}];"

    @staticmethod
    def arrow(source: str, target: str, flow: str) -> str:
        label = f" [label={_quote(flow)}]" if flow else ""
        return f"{source} -> {target}{label};"


def mermaid(document: Document) -> str:
    """Return a top-down Mermaid flowchart with a subgraph per statement."""
    return _diagram(document, _Mermaid)


def dot(document: Document) -> str:
    """Return a top-down Graphviz digraph with a cluster per statement."""
    return _diagram(document, _Dot)


def _diagram(document: Document, language: type[_Mermaid]) -> str:
    lines = list(language.head)
    queries = [(query, query.trees.physical) for query in document.queries if query.trees]
    for number, (query, tree) in enumerate(queries, 1):
        name = f"q{number}"
        drawn = [
            *(language.box(f"{name}_{entry.id}", _label(entry)) for entry in tree.operators),
            *(
                language.arrow(f"{name}_{source}", f"{name}_{target}", flow)
                for source, target, flow in _edges(query, tree)
            ),
        ]
        if len(queries) > 1:
            group = language.group(name, _title(query, number))
            drawn = [*group, *(language.indent + line for line in drawn), language.end]
        lines += [language.indent + line for line in drawn]
    return "\n".join([*lines, *language.tail]) + "\n"


def _edges(query: QueryDocument, tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Yield (from, to, label) of every edge of the physical plan."""
    for entry in tree.operators:
        for source in entry.inputs:
            yield source, entry.id, _flow(query, source)


def _flow(query: QueryDocument, source: str) -> str:
    """Return the measured output of an operator, such as `9,812 partials, 187.4 KiB`, or ""."""
    measured = query.analysis.operators.get(source) if query.analysis else None
    if measured is None:
        return ""
    parts = []
    if measured.rows_out is not None:
        parts.append(count_text(measured.rows_out, measured.unit_out))
    if measured.bytes_out is not None:
        parts.append(size_text(measured.bytes_out))
    return ", ".join(parts)


def _label(operator: OperatorEntry) -> list[str]:
    attributes = list(operator.attributes.items())
    lines = [operator.name]
    for key, values in attributes[:_MAX_ATTRIBUTES]:
        lines.append(_short(f"{key}: {', '.join(values)}"))
    return lines


def _title(query: QueryDocument, number: int) -> str:
    return f"{number}: {_short(' '.join(query.statement.split()))}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


_ESCAPES = str.maketrans(
    {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"}
)


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
