"""The docs as a site: what is checked is found, and what is made is complete."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import windlass
from tools import check_html, check_links, make_reference, make_site
from windlass import testing
from windlass.cli import SECTIONS

PAGES = {
    "here.md": (
        "# Here\n\n## Two words, `code`\n\n[there](sub/there.md#the-end) [self](#two-words-code)\n"
    ),
    "sub/there.md": "# There\n\n## The end\n\n[back](../here.md)\n",
}


def write(folder: Path, pages: dict[str, str]) -> list[Path]:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    check_links.anchors.cache_clear()
    return check_links.below([str(folder)])


def test_links_that_lead_somewhere_are_well(tmp_path: Path) -> None:
    assert list(check_links.broken(write(tmp_path, PAGES))) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[x](nowhere.md)", "no such file"),
        ("[x](sub/there.md#the-beginning)", "no such heading"),
        ("[x](#nothing)", "no such heading"),
        ("[x](/sub/there.md)", "relative"),
        ("[two\nlines](nowhere.md)", "no such file"),
    ],
)
def test_link_that_leads_nowhere_is_found(link: str, why: str, tmp_path: Path) -> None:
    pages = write(tmp_path, {**PAGES, "bad.md": f"# Bad\n\nText with {link}.\n"})
    (found,) = check_links.broken(pages)
    assert found.startswith(f"{tmp_path}/bad.md:3: ")
    assert why in found


def test_code_and_the_web_are_not_followed(tmp_path: Path) -> None:
    text = "# Code\n\n`[x](a.md)`\n\n```\n[x](b.md)\n```\n\n[web](https://example.org/c.md)\n"
    assert list(check_links.broken(write(tmp_path, {"code.md": text}))) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<a href="gone.html">', "no such file"),
        ('<a href="index.html#gone">', "no such heading"),
        ('<script src="https://example.org/a.js"></script>', "fetches"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "fetches"),
        ('<pre class="mermaid"></pre>', "library from elsewhere"),
    ],
)
def test_problem_of_a_built_page_is_found(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<h1 id="top"></h1><a href="#top">', "utf-8")
    assert list(check_html.problems(tmp_path)) == []
    (tmp_path / "bad.html").write_text(text, "utf-8")
    (found,) = check_html.problems(tmp_path)
    assert why in found


def test_site_is_built_with_all_pages_and_lists_them_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_site, "SITE", tmp_path)
    assert list(make_site.build()) == []
    html = tmp_path / "html"
    pages = sorted(path.stem for path in make_site.DOCS.glob("*.md"))
    assert [page for page in pages if not (html / f"{page}.html").exists()] == []
    listed = re.findall(r"\]\((.+?)\.md\)", (html / "llms.txt").read_text("utf-8"))
    assert set(pages) <= set(listed)
    assert all((html / f"{page}.md").exists() for page in listed)
    assert "## windlass worker" in (html / "llms-full.txt").read_text("utf-8").replace("###", "##")
    assert (html / "decisions" / "index.html").exists()


def test_page_that_nobody_listed_is_on_the_site(tmp_path: Path) -> None:
    pages = make_site.stage(tmp_path)
    (pages / "brand-new.md").write_text("# Brand new\n", "utf-8")
    assert make_site.sections(pages)["More"] == [pages / "brand-new.md"]


def test_pages_are_put_into_the_words_of_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(make_site.DOCS, docs)
    text = "# Odd\n\n1. One:\n\n   ```sh\n   ls\n   ```\n\n2. Two.\n\n| a |\n|---|\n| `x \\| y` |\n"
    (docs / "odd.md").write_text(text, "utf-8")
    monkeypatch.setattr(make_site, "DOCS", docs)
    monkeypatch.setattr(make_site, "SITE", tmp_path)
    assert list(make_site.build()) == []
    html = (tmp_path / "html" / "odd.html").read_text("utf-8")
    assert "<code>x | y</code>" in html
    assert html.count("<ol>") == 1


def test_broken_anchor_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(make_site.DOCS, docs)
    (docs / "bad.md").write_text("# Bad\n\n[x](jobs.md#nowhere)\n", "utf-8")
    monkeypatch.setattr(make_site, "DOCS", docs)
    monkeypatch.setattr(make_site, "SITE", tmp_path)
    assert any("anchor does not exist" in line for line in make_site.build())
    assert list(make_site.check()) == ["bad.md:3: jobs.md#nowhere: there is no such heading"]


def test_reference_has_every_export() -> None:
    page = make_reference.api_page()
    names = {*windlass.__all__, *testing.__all__} - {"adrain", "arun_job", "amake_run"}
    assert [name for name in sorted(names) if f"\n### {name}\n" not in page] == []


def test_reference_shows_a_call_and_its_twin_once() -> None:
    page = make_reference.api_page()
    assert "#### Windlass.enqueue_many" in page
    assert "#### Windlass.aenqueue_many" not in page
    assert "In async code: `await aenqueue_many(...)`." in page


def test_command_reference_has_every_command() -> None:
    page = make_reference.command_page()
    commands = [name for entries in SECTIONS.values() for name in entries]
    assert [name for name in commands if f"\n### windlass {name}\n" not in page] == []
    assert "#### windlass schedules backfill" in page


def test_everything_that_is_exported_says_what_it_is() -> None:
    for name in windlass.__all__:
        first = (inspect.getdoc(getattr(windlass, name)) or "").split("\n\n")[0]
        assert first, name
        assert first[0].isupper(), f"{name}: {first}"
        assert first.rstrip().endswith((".", ":")), f"{name}: {first}"


@pytest.mark.parametrize("page", [make_reference.api_page, make_reference.command_page])
def test_words_for_users_are_plain(page: Callable[[], str]) -> None:
    """A few turns of phrase that a newcomer reads twice; see the conventions for docs."""
    unclear = re.compile(r"\b(lest|of whom|is told|are told|else be|has not the|had or)\b")
    assert [line for line in page().splitlines() if unclear.search(line)] == []
