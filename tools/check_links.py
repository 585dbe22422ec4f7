"""Fail when a Markdown page links to a file or a heading that does not exist.

    check_links.py README.md docs        check files, and every page below a folder

Links are read as they are shown in a repository: relative to the page, headings by the anchors that
GitHub gives them. Links into the web are not followed: a check must not depend on a network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ ]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\))?)>?[^()]*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ID = re.compile(r"""<a [^>]*\b(?:id|name)=["']([^"']+)["']""")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def without_fences(text: str) -> str:
    """The page without its code blocks and comments, with the same number of lines."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    return _COMMENT.sub(blank, _FENCE.sub(blank, text))


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, without punctuation, a dash for each space."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Every anchor of a page."""
    text = without_fences(page.read_text("utf-8"))
    found: set[str] = set(_ID.findall(text))
    for heading in _HEADING.findall(text):
        name, number = slug(heading), 1
        while name in found:
            name, number = f"{slug(heading)}-{number}", number + 1
        found.add(name)
    return frozenset(found)


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Every link of a page, with its line."""
    text = without_fences(page.read_text("utf-8"))
    plain = _CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), text)
    for link in _LINK.finditer(plain):
        yield plain.count("\n", 0, link.start()) + 1, link[1]


def broken(pages: Iterable[Path]) -> Iterator[str]:
    """Yield one line for each link that leads nowhere."""
    for page in pages:
        for line, target in links(page):
            why = _why_broken(page, target)
            if why:
                yield f"{page}:{line}: {target}: {why}"


def _why_broken(page: Path, target: str) -> str | None:
    if _SCHEME.match(target) or target.startswith("//"):
        return None
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return "links between pages are relative"
    file = page.parent / unquote(path) if path else page
    if not file.exists():
        return "there is no such file"
    if anchor and (file.suffix != ".md" or unquote(anchor) not in anchors(file.resolve())):
        return "there is no such heading"
    return None


def below(roots: Iterable[str]) -> list[Path]:
    """The pages that are named, and those below the folders that are named."""
    return [
        page
        for root in map(Path, roots)
        for page in (sorted(root.rglob("*.md")) if root.is_dir() else [root])
    ]


def main(roots: list[str]) -> int:
    """Check all pages; return the exit code."""
    pages = below(roots)
    found = list(broken(pages))
    for line in found:
        print(line)
    if not found:
        print(f"The links of {len(pages)} pages lead somewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
