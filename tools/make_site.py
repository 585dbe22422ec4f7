"""Build the docs as a site, in build/site/html: `make docs`.

    make_site.py            stage the pages, build, check what was built
    make_site.py --check    stage the pages in a temporary folder and check their links: seconds

The pages in docs/ are plain Markdown that can be read where they lie. A stage, a copy of them, adds
what only a site has: the reference from the docstrings, the examples and other files of the
repository as pages, the navigation. Everything happens here: neither the build nor a page fetches
anything from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

if not __package__:  # run as a program
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import make_reference
from tools.check_html import problems
from tools.check_links import below, broken, without_fences

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
# Files of the repository that are pages of the site as well.
BROUGHT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benchmarks.md",
}
_LINK = re.compile(
    r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?![a-z]+:)(?P<target>[^()#\s]*)(?P<anchor>#[^()\s]*)?\)"
)
SUMMARY = (
    "Windlass is durable jobs for Python: a library that keeps jobs in one SQLite file or in the "
    "PostgreSQL that you already run, and loses none of them."
)


def stage(target: Path) -> Path:
    """Write the pages of the site, and its configuration, below a folder; return the pages'."""
    pages = target / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.toml"))
    for source, name in BROUGHT.items():
        (pages / name).write_text((ROOT / source).read_text("utf-8"), "utf-8")
    for example in sorted((ROOT / "examples").glob("*.py")):
        _write_example(example, pages / "examples" / f"{example.stem}.md")
    made = {
        "reference.md": make_reference.api_page,
        "command-reference.md": make_reference.command_page,
    }
    for name, make in made.items():
        page = pages / name
        text = page.read_text("utf-8")
        before, found, rest = text.partition(make_reference.BEGIN)
        _, closed, after = rest.partition(make_reference.END)
        if not (found and closed):
            raise SystemExit(f"docs/{name} has lost the comments around its place")
        page.write_text(f"{before}{make()}{after}", "utf-8")
    _write_decisions(pages / "decisions")
    for page in sorted(pages.rglob("*.md")):
        page.write_text(_adapted(_at_home(page.read_text("utf-8"), page, pages)), "utf-8")
    (target / "zensical.toml").write_text(_configuration(pages), "utf-8")
    return pages


def _write_example(example: Path, page: Path) -> None:
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"# {example.name}\n\n```python\n{example.read_text('utf-8')}```\n", "utf-8")


def _write_decisions(folder: Path) -> None:
    """A list of the decisions: they are for those who look for them."""
    lines = [
        f"- [{title_of(page)}]({page.name})\n"
        for page in sorted(folder.glob("*.md"))
        if page.name != "index.md"
    ]
    intro = "Why something is as it is, what else was tried, and what it costs.\n"
    (folder / "index.md").write_text(f"# Decisions\n\n{intro}\n{''.join(lines)}", "utf-8")


def _at_home(text: str, page: Path, pages: Path) -> str:
    """The page with its links to other files of the repository leading to their pages here."""
    up = os.path.relpath(pages, page.parent)

    brought = page.name in BROUGHT.values() and page.parent == pages

    def led(link: re.Match[str]) -> str:
        target = link["target"]
        if brought:
            target = target.removeprefix("docs/")
        if target.rstrip("/").endswith("decisions"):
            target = f"{target.rstrip('/')}/index.md"
        if found := re.fullmatch(r"(?:\.\./)*examples/(\w+)\.py", target):
            target = f"{up}/examples/{found[1]}.md"
        for source, name in BROUGHT.items():
            if target.endswith(source):
                target = f"{up}/{name}"
        if brought and target and not target.endswith(".md"):
            return link["text"]  # a file that is no page: it is in the repository
        target = os.path.normpath(target) if target else ""
        return f"[{link['text']}]({target}{link['anchor'] or ''})"

    return _LINK.sub(led, text)


def _adapted(text: str) -> str:
    """The page in the words of Python-Markdown, where these differ from those of GitHub.

    What belongs to a numbered item is indented by four, not by three. In code in a table `|` is
    not escaped.
    """
    lines, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("   "):
            line = f" {line}"
        elif not fenced and line.startswith("|"):
            line = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join([*lines, ""])


def title_of(page: Path) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    if not found:
        raise SystemExit(f"{page} has no heading")
    return found[1].replace("`", "")


def sections(pages: Path) -> dict[str, list[Path]]:
    """Every page of the first level, by section."""
    told = tomllib.loads((DOCS / "navigation.toml").read_text("utf-8"))["section"]
    found = {
        one["title"]: [page for name in one["pages"] if (page := pages / f"{name}.md").exists()]
        for one in told
    }
    listed = {page for group in found.values() for page in group}
    more = [page for page in sorted(pages.glob("*.md")) if page not in listed]
    return {title: group for title, group in {**found, "More": more}.items() if group}


def _configuration(pages: Path) -> str:
    short = tomllib.loads((DOCS / "navigation.toml").read_text("utf-8"))["titles"]
    nav = []
    for title, group in sections(pages).items():
        listed = [{short.get(page.stem, title_of(page)): page.name} for page in group]
        if title == "Inside":  # one line for all of them: they are for those who look for them
            listed.append({"Decisions": "decisions/index.md"})
        nav.append({title: listed})
    text = (DOCS / "zensical.toml").read_text("utf-8")
    if "\nnav = []\n" not in text:
        raise SystemExit("docs/zensical.toml has lost the line `nav = []`")
    return text.replace("\nnav = []\n", f"\nnav = {_toml(nav)}\n")


def _toml(value: object) -> str:
    """Lists, tables and strings in TOML, whose strings are those of JSON."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(key)} = {_toml(of)}' for key, of in value.items())}}}"
    return json.dumps(value)


def summary_of(page: Path) -> str:
    """The first sentence of a page."""
    text = f"\n{without_fences(page.read_text('utf-8'))}".partition("\n# ")[2]
    for block in re.split(r"\n\s*\n", text)[1:]:
        if block and block.strip()[:1] not in "#|->`<":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.!?]) (?=[A-Z`])", plain)[0]
    return ""


def write_llms(pages: Path, html: Path) -> None:
    """The site for programs that read: a list of the pages, and all of them in one file."""
    index, whole = [f"# Windlass\n\n> {SUMMARY}\n"], []
    for title, group in sections(pages).items():
        index.append(f"\n## {title}\n\n")
        for page in group:
            shutil.copy(page, html / page.name)
            summary = summary_of(page)
            index.append(f"- [{title_of(page)}]({page.name}){f': {summary}' if summary else ''}\n")
            if title != "Inside":
                whole.append(page.read_text("utf-8"))
    (html / "llms.txt").write_text("".join(index), "utf-8")
    (html / "llms-full.txt").write_text("\n\n".join(whole), "utf-8")


def check() -> Iterator[str]:
    """Yield what is wrong with the links of the staged pages."""
    with tempfile.TemporaryDirectory() as folder:
        pages = stage(Path(folder))
        for line in broken(below([str(pages)])):
            yield line.removeprefix(f"{pages}/")


def build() -> Iterator[str]:
    """Build the site; yield what is wrong with it."""
    SITE.mkdir(parents=True, exist_ok=True)
    pages = stage(SITE)
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=SITE, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout + done.stderr
        return
    html = SITE / "html"
    write_llms(pages, html)
    yield from problems(html)


def main() -> int:
    """Build or check; return the exit code."""
    checking = "--check" in sys.argv
    found = list(check() if checking else build())
    for line in found:
        print(line)
    if not found:
        done = "The pages of the site link to what exists."
        print(done if checking else f"{SITE}/html/index.html")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
