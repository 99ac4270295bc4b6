"""Navigation of the site by docs/index.md, and pages of the project that are not in docs/."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
# Pages outside docs/ and their names in the site
_PROJECT = {
    name: f"project/{name.lower()}"
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
}
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Make the navigation of the tables in docs/index.md: one section for each heading."""
    _, *parts = _SECTION.split((ROOT / "docs/index.md").read_text())
    sections: list[Any] = [{"Overview": "index.md"}, {"At a glance": _PROJECT["README.md"]}]
    seen = {"index.md", _PROJECT["README.md"]}
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        places = (_in_site("docs/index.md", target) for _, target in _LINK.findall(text))
        pages = dict.fromkeys(place.partition("#")[0] for place in places if place)
        sections.append({heading: [page for page in pages if page and page not in seen]})
        seen |= pages.keys()
    config.nav = sections
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs/."""
    for name, place in _PROJECT.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to pages of the site. Of links to other files the text remains."""
    by_place = {place: name for name, place in _PROJECT.items()}
    source = by_place.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    here = posixpath.dirname(page.file.src_uri) or "."

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        place = _in_site(source, target)
        if place is None:
            return text
        path, sharp, anchor = place.partition("#")
        return f"[{text}]({posixpath.relpath(path, here)}{sharp}{anchor})"

    return _LINK.sub(link, markdown)


def _in_site(source: str, target: str) -> str | None:
    """Return the place in the site of a link in a file of the repository, or None.

    A link into the repository whose file does not exist keeps its path, so that MkDocs warns.
    """
    path, sharp, anchor = target.partition("#")
    in_repository = os.path.normpath(posixpath.join(posixpath.dirname(source), path))
    if in_repository in _PROJECT:
        return f"{_PROJECT[in_repository]}{sharp}{anchor}"
    if in_repository.startswith("docs/") or not (ROOT / in_repository).exists():
        return f"{in_repository.removeprefix('docs/')}{sharp}{anchor}"
    return None
