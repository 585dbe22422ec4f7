"""`windlass check`."""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.cli.kit import fails, ok, ok_json, run

WRONG = """\
from windlass import Context, Windlass

raise SystemExit("this code must not run")
app = Windlass()


@app.job
async def pay(ctx: Context) -> None:
    ctx.sleep("3d")
"""
RIGHT = WRONG.replace("ctx.sleep", "await ctx.sleep")
JOB_FILE = 'async def run(ctx):\n    ctx.sleep("3d")\n'


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files_found(*arguments: str) -> list[str]:
    result = run("check", "--json", *arguments)
    assert result.exit_code in (0, 1)
    return [finding["file"] for finding in json.loads(result.stdout)["findings"]]


def test_a_problem_is_a_line_and_the_exit_code_is_1(folder: Path) -> None:
    write(folder / "tasks.py", WRONG)
    result = run("check", "tasks.py")

    assert result.exit_code == 1
    assert result.stdout == (
        "tasks.py:9:5: unawaited `ctx.sleep(…)` is never awaited, so it does nothing: "
        "write `await ctx.sleep(…)`.\n"
    )
    assert result.stderr == "1 file, 1 problem in 1 of them.\n"


def test_nothing_found(folder: Path) -> None:
    write(folder / "tasks.py", RIGHT)
    assert ok("check", "tasks.py") == "1 file, nothing found.\n"
    assert ok_json("check", "tasks.py", "--json") == {"files": 1, "findings": []}


def test_json(folder: Path) -> None:
    write(folder / "shop/tasks.py", WRONG)
    result = run("check", "shop", "--json")

    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["files"] == 1
    (finding,) = found["findings"]
    assert finding.pop("message").startswith("`ctx.sleep(")
    assert finding == {"file": "shop/tasks.py", "line": 9, "column": 5, "code": "unawaited"}


def test_wrong_usage(folder: Path) -> None:
    assert "There is no file or folder 'none.py'" in fails(2, "check", "none.py")
    assert "There is no module 'none'" in fails(2, "check", "--app", "none:app")
    assert "No such option" in fails(2, "check", "--nonsense")


def test_without_a_path_it_is_the_current_folder(folder: Path) -> None:
    write(folder / "a.py", WRONG)
    write(folder / "deep/er/b.py", WRONG)
    for skipped in (".hidden", "__pycache__", "node_modules", "lib/site-packages"):
        write(folder / skipped / "c.py", WRONG)
    write(folder / "env/c.py", WRONG)
    write(folder / "env/pyvenv.cfg", "")

    assert files_found() == ["a.py", "deep/er/b.py"]
    assert files_found("env") == ["env/c.py"]  # it was asked for


@pytest.mark.parametrize("way", ["option", "before", "variable", "settings"])
def test_the_application_is_checked_without_being_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    write(folder / "shop/__init__.py", WRONG)
    write(folder / "shop/mail/jobs.py", WRONG)
    write(folder / "other.py", WRONG)
    arguments = {
        "option": ["check", "--app", "shop.mail:app"],
        "before": ["--app", "shop", "check"],
    }
    if way == "variable":
        monkeypatch.setenv("WINDLASS_APP", "shop:app")
    if way == "settings":
        write(folder / "windlass.toml", '[windlass]\napp = "shop:app"\n')

    result = run(*arguments.get(way, ["check"]), "--json")

    found = [finding["file"] for finding in json.loads(result.stdout)["findings"]]
    assert found == ["shop/__init__.py", "shop/mail/jobs.py"]
    assert "shop" not in sys.modules


def test_a_module_below_src_and_the_job_files(folder: Path) -> None:
    write(folder / "src/shop.py", WRONG)
    write(folder / "jobs/daily.py", JOB_FILE)
    write(folder / "other.py", WRONG)

    assert files_found("--app", "shop") == ["jobs/daily.py", "src/shop.py"]
    assert files_found() == ["jobs/daily.py"]  # no application is named


def test_run_is_a_handler_in_job_files_only(folder: Path) -> None:
    write(folder / "jobs/daily.py", JOB_FILE)
    write(folder / "other/daily.py", JOB_FILE)
    assert files_found(".") == ["jobs/daily.py"]


def test_thousands_of_files_take_seconds(folder: Path) -> None:
    """A tenth of them has durable calls; a quarter of a second is what 3,000 take."""
    for number in range(3000):
        write(folder / f"{number % 30}/m{number}.py", RIGHT if number % 10 == 0 else "x = 1\n" * 99)
    began = time.monotonic()
    assert ok("check") == "3,000 files, nothing found.\n"
    assert time.monotonic() - began < 10
