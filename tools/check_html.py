"""Find what is wrong with a built site: links that lead nowhere, things fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, and where it is told what.
_FETCHED = {
    ("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"),
    ("object", "data"), ("video", "src"),
}  # fmt: skip
_NAMED = {"canonical", "edit", "prev", "next"}


@dataclass
class _Page(HTMLParser):
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    mermaid: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        # The theme's script would fetch the library that draws these.
        self.mermaid |= "mermaid" in given.get("class", "").split()
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get("rel") in _NAMED:
            return
        self.fetched.extend(given[name] for kind, name in _FETCHED if kind == tag and name in given)


def problems(html: Path) -> Iterator[str]:
    """Yield one line for each problem of the site in a folder."""
    pages = {path.resolve(): _read(path) for path in sorted(html.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(html.resolve())
        if path.name == "404.html":
            continue  # shown at any address, so its links begin at the root
        if page.mermaid:
            yield f"{where}: a diagram that needs a library from elsewhere"
        for target in page.fetched:
            if urlsplit(target).netloc:
                yield f"{where}: fetches {target}"
        for target in {*page.links, *page.fetched}:
            why = _why_broken(path, target, pages)
            if why:
                yield f"{where}: {target}: {why}"


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _why_broken(path: Path, target: str, pages: dict[Path, _Page]) -> str | None:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return "there is no such file"
    if parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids:
        return None if parts.fragment == "__top" else "there is no such heading"
    return None
