"""One file: what is a handler, where a finding is, which comments silence it, what never fails."""

import ast
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.pages import blocks, pages
from tests.lint import (
    test_changing,
    test_effects,
    test_same_name,
    test_swallowed,
    test_unawaited,
)
from tests.lint.kit import found, handler
from windlass.lint import RULES, check_paths, check_source
from windlass.lint.check import check_source as check_whole

ROOT = Path(__file__).parents[2]
PAGE = "docs/check.md"
STEP = '    ctx.step("a", f)\n'
TABLES = (test_changing, test_effects, test_same_name, test_swallowed, test_unawaited)
SNIPPETS = [code for table in TABLES for code in [*table.WRONG.values(), *table.RIGHT.values()]]


def test_a_finding_has_its_place_and_says_what_to_do() -> None:
    code = (
        'from windlass import Context\n\n\nasync def pay(ctx: Context):\n    "ä"; ctx.sleep("3d")\n'
    )
    (finding,) = check_source(code.encode(), "shop/tasks.py")

    assert (finding.file, finding.line, finding.column) == ("shop/tasks.py", 5, 10)
    assert finding.message == (
        "`ctx.sleep(…)` is never awaited, so it does nothing: write `await ctx.sleep(…)`."
    )


def test_every_message_is_one_sentence_with_advice() -> None:
    findings = [f for code in SNIPPETS for f in check_source(code.encode(), "tasks.py")]

    assert {finding.code for finding in findings} == RULES.keys() - {"syntax"}
    for finding in findings:
        assert finding.message.endswith("."), finding
        assert ": " in finding.message, finding
        assert "\n" not in finding.message


@pytest.mark.parametrize(
    ("head", "is_job_file", "count"),
    [
        ("@app.job\nasync def pay(ctx):\n", False, 1),
        ("@shop.router.job(queue='x')\nasync def pay(ctx):\n", False, 1),
        ("@pay.on_failure\nasync def refund(ctx, failed):\n", False, 1),
        ("async def run(ctx):\n", True, 1),
        ("async def run(ctx):\n", False, 0),
        ("import windlass\nasync def run(ctx):\n", False, 1),
        ("import windlass as w\nasync def helper(c, ctx: w.Context):\n", False, 1),
        ("from windlass import Context as C\nasync def helper(ctx: C):\n", False, 1),
        ("from windlass import Context\nasync def helper(order, ctx: 'Context'):\n", False, 1),
        ("import windlass\nasync def helper(ctx: 'windlass.Context'):\n", False, 1),
        ("from shop import Context\nasync def helper(ctx: 'Context'):\n", False, 0),
        ("from shop import Context\nasync def helper(ctx: Context):\n", False, 0),
        ("async def helper(ctx):\n", False, 0),
        ("@group.command\nasync def command(ctx):\n", True, 0),
        ("@app.job\nasync def pay(order, ctx):\n", False, 0),
        ("@app.job\ndef pay(ctx):\n", False, 0),
    ],
)
def test_what_has_a_context(head: str, is_job_file: bool, count: int) -> None:
    assert len(found(head + STEP, is_job_file=is_job_file)) == count


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("# windlass: ignore[unawaited]", True),
        ("# noqa  # windlass: ignore[effect, unawaited]", True),
        ("#windlass:ignore[unawaited]", True),
        ("# windlass: ignore[effect]", False),
        ("# windlass: ignore", False),
        ('; "# windlass: ignore[unawaited]"', False),
    ],
)
def test_comments_silence_what_they_name(comment: str, silent: bool) -> None:
    code = handler(f'ctx.step("a", f)  {comment}')
    assert bool(found(code)) is not silent


def test_a_comment_may_be_on_any_line_of_the_call() -> None:
    call = 'ctx.step(\n    "a",\n    f,\n){comment}\n'
    silenced = call.format(comment="  # windlass: ignore[unawaited]")

    assert found(handler(call.format(comment="")))
    assert not found(handler(silenced))
    assert found(handler(call.format(comment="\nx = 1  # windlass: ignore[unawaited]")))


def test_a_comment_in_the_body_of_an_except_is_not_about_it() -> None:
    head = 'try:\n    await ctx.step("a", f)\nexcept BaseException:'
    comment = "  # windlass: ignore[swallowed]"

    assert found(handler(f"{head}\n    pass{comment}"))
    assert not found(handler(f"{head}{comment}\n    pass"))


@pytest.mark.parametrize(
    "data",
    [
        b"def run(ctx:\n    ctx.step(1)\n",
        b"ctx.step('\0')\n",
        b"# coding: nonsense\nctx.step(1)\n",
        b"ctx.step('\xff')\n",
        b"\n\n\nctx.step('\xff')\n",
        b"ctx.step(" + b"-" * 200_000 + b"1)\n",
        b"ctx.step(" + b"(" * 5000 + b")" * 5000 + b")\n",
    ],
)
def test_a_file_that_is_not_python_is_reported(data: bytes) -> None:
    (finding,) = check_source(data, "tasks.py")
    assert finding.code == "syntax"
    assert finding.message.startswith("This file cannot be read as Python: ")


def test_other_encodings_line_ends_and_warnings_are_read() -> None:
    code = handler('ctx.step("ä", f)\nprint("\\d")').replace("\n", "\r\n")
    (finding,) = check_source(b"# coding: latin-1\r\n" + code.encode("latin-1"), "tasks.py")
    assert finding.code == "unawaited"
    assert finding.column == 5
    assert found("\ufeff" + code)


def test_deep_code_does_not_exhaust_the_stack() -> None:
    deep = " + ".join(["order"] * (sys.getrecursionlimit() * 2))
    code = handler(f'x = {deep}\nctx.step("a", f, {deep})')
    try:
        ast.parse(code)
    except (RecursionError, MemoryError):
        expected = "syntax"  # it is the parser's limit then
    else:
        expected = "unawaited"
    assert [name for _, name in found(code)] == [expected]


@pytest.mark.parametrize("every", [30, pytest.param(1, marks=pytest.mark.long)])
def test_the_standard_library_has_no_finding(every: int) -> None:
    """A handler at the end makes each file one of ours, so that all of it is read."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = [f for f in sorted(folder.rglob("*.py")) if "site-packages" not in f.parts]
    assert len(files) > 500
    ours = 0
    for file in files[::every]:
        data = file.read_bytes() + b"\n" + handler('ctx.step("a", f)').encode()
        findings = check_source(data, str(file))
        assert len(findings) == 1, findings
        assert findings[0].code in ("unawaited", "syntax"), findings
        ours += findings[0].code == "unawaited"
    assert ours > 0.9 * len(files[::every])


def test_the_standard_library_as_handlers_crashes_no_rule() -> None:
    """Every function becomes one of a handler: the rules see all kinds of code."""
    folder = Path(sysconfig.get_path("stdlib"))
    head = "from windlass import Context\n@app.job\nasync def handle(ctx: Context):\n"
    call = '    ctx.step("a", f)\n    while True:\n        pass\n'
    files = ["ast", "asyncio/tasks", "contextlib", "dataclasses", "inspect", "typing", "tarfile"]
    for name in files:
        text = (folder / f"{name}.py").read_text("utf-8").replace("self", "ctx")
        text = text.replace("\n    def ", "\n    @app.job\n    def ").replace(".append(", ".step(")
        text = text.replace("from __future__", "from windlass.future")
        findings = check_source(f"{text}\n{head}{call}".encode(), name)
        assert "unawaited" in {finding.code for finding in findings}, findings[:3]
        assert "syntax" not in {finding.code for finding in findings}, findings[:3]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_change_of_a_snippet_crashes_it(data: st.DataObject) -> None:
    """Lines left out, doubled, swapped or cut: there are findings, or a syntax error, no crash."""
    lines = data.draw(st.sampled_from(SNIPPETS)).split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(["drop", "double", "swap", "indent", "cut"]))
        if change == "drop" and len(lines) > 1:
            del lines[place]
        elif change == "double":
            lines.insert(place, lines[other])
        elif change == "swap":
            lines[place], lines[other % len(lines)] = lines[other % len(lines)], lines[place]
        elif change == "indent":
            lines[place] = f"    {lines[place]}"
        else:
            lines[place] = lines[place][: len(lines[place]) // 2]
    findings = check_whole("\n".join(lines).encode(), "tasks.py", is_job_file=True)
    assert all(finding.code in RULES for finding in findings)


def test_our_own_code_and_examples_are_clean() -> None:
    report = check_paths([ROOT / "src", ROOT / "examples", ROOT / "tools", ROOT / "bench"])
    assert report.files > 100
    assert report.findings == []
    for page in set(pages()) - {PAGE}:
        for block in blocks(page):
            if block.language == "python":
                findings = check_source(block.text.encode(), page, is_job_file=True)
                assert {finding.code for finding in findings} <= {"syntax"}, findings


def test_every_rule_is_on_its_page_with_wrong_and_right_code() -> None:
    """The first block of a section must be found by its rule, the others by none."""
    shown = {block.name: block.text for block in blocks(PAGE) if block.language == "python"}
    silenced = shown.pop("What is checked")
    for code in RULES.keys() - {"syntax"}:
        head = "import asyncio, random, time\nimport requests\n"
        wrong, *right = [head + shown.pop(name) for name in [*shown] if _rule(name) == code]
        assert {name for _, name in found(wrong)} == {code}
        assert [found(each) for each in right] == [[]] * len(right)
        assert right
    assert shown == {}
    line, _, comment = silenced.partition("  # ")
    body = "    {}\n".format
    start = "import time\n@app.job\nasync def sample(ctx):\n"
    assert {name for _, name in found(start + body(line))} == {comment.split("[")[1].strip("]\n")}
    assert found(start + body(silenced.strip())) == []


def _rule(name: str) -> str:
    return name.partition(" ")[0]
