"""Links between pages have targets, and every page is reachable from the start page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.goldens import ROOT

INDEX = "docs/index.md"
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
LINKED = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "queries/data/README.md"),
    *DOCUMENTS,
]
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_NAMED = re.compile(r"`(docs/[a-z0-9_.-]+)`")


def links(page: str) -> Iterator[tuple[str, str]]:
    """Yield the files in this repository that a page links to, each with its heading, which may be
    empty.
    """
    text = _CODE.sub("", (ROOT / page).read_text())
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        existing = (ROOT / page).parent / unquote(path) if path else ROOT / page
        yield existing.resolve().relative_to(ROOT).as_posix(), heading


def anchors(page: str) -> set[str]:
    """Return the anchors that GitHub derives from a page's headings."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = [re.sub(r"[`*]|\]\(.*?\)|\[", "", heading) for heading in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", LINKED)
def test_no_link_of_a_page_is_dead(page: str) -> None:
    dead = [
        f"{target}#{heading}" if heading else target
        for target, heading in links(page)
        if not (ROOT / target).exists() or (heading and heading not in anchors(target))
    ]
    assert dead == []


@pytest.mark.parametrize("page", LINKED)
def test_every_linked_document_exists(page: str) -> None:
    named = _NAMED.findall((ROOT / page).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_index_names_every_page_of_the_documents() -> None:
    assert {target for target, _ in links(INDEX)} >= set(DOCUMENTS) - {INDEX}


def test_every_page_is_reachable_from_the_readme() -> None:
    result, to_read = set[str](), ["README.md"]
    while to_read:
        page = to_read.pop()
        if page not in result and Path(page).suffix == ".md":
            result.add(page)
            to_read += [target for target, _ in links(page)]
    assert set(DOCUMENTS) - result == set()
    assert INDEX in {target for target, _ in links("README.md")}
