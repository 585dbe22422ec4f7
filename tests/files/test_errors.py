"""What is wrong with a file is said with its line, and is no other file's trouble."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.files.kit import GOOD, Folder
from windlass.errors import JobFileError

TOLD = "from windlass import FailedRun\n"
ORDINARY = """from windlass import Windlass
app = Windlass("sqlite:///never.db")
on_failure = app.job(name="other")(run)
"""

ERRORS = [
    ("", 1, "it is empty: write `def run(ctx):`"),
    (" \n\n", 1, "it is empty"),
    ("x = 1\n", 1, "it has no `run`"),
    ("run = 1\n", 1, "`run` is no function but int"),
    ("def run(ctx:\n    pass\n", 1, "'(' was never closed"),
    ("x = 1\ndef run(ctx):\npass\n", 3, "expected an indented block"),
    ("def run(ctx):\n    return 'half", 2, "unterminated string literal"),
    (f"{GOOD}\nraise ValueError('no')", 4, "ValueError: no"),
    (f"import os\nimport nothing_of_that_name\n{GOOD}", 2, "No module named 'nothing_of_that"),
    (f"from . import missing\n{GOOD}", 1, "cannot import name 'missing' from 'jobs.sub'"),
    (f"from .missing import x\n{GOOD}", 1, "No module named 'jobs.sub.missing'"),
    ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    ("\nraise KeyboardInterrupt\n", 2, "KeyboardInterrupt: it cannot be imported"),
    ("raise GeneratorExit('out')\n", 1, "GeneratorExit: out"),
    ("import asyncio\nraise asyncio.CancelledError\n", 2, "CancelledError"),
    (
        "class Odd(BaseException):\n    def __str__(self):\n        raise Odd\nraise Odd",
        4,
        "<no text>",
    ),
    ("def f(): f()\nf()\n", 1, "RecursionError: maximum recursion depth"),
    ("def run(): ...", 1, "`run` must take the context first: `def run(ctx):`"),
    ("\n\ndef run(day=1): ...", 3, "`run` must take the context first"),
    ("def run(ctx, day): ...", 1, "`run` needs day, which a schedule cannot give: give it a"),
    ("def run(ctx, *days): ...", 1, "takes *days"),
    ("def run(day, ctx): ...", 1, "must take the context first"),
    ("x = 1\ndef run(ctx):\n    yield 1", 2, "`run` is a generator"),
    ("async def run(ctx):\n    yield 1", 1, "`run` is a generator"),
    (f"x = 1\nqueue = 'a b'\n{GOOD}", 2, "queue: 'a b' is not a name"),
    (f"priority = 'high'\n{GOOD}", 1, "priority: 'high' is not a whole number"),
    (f"max_attempts = 0\n{GOOD}", 1, "max_attempts: 0 is not a whole number"),
    (f"\n\ntimeout: str = 'soon'\n{GOOD}", 3, "timeout: 'soon' is not a duration"),
    (f"timeout = 0\n{GOOD}", 1, "timeout: it must be longer than zero"),
    (f"retry = 3\n{GOOD}", 1, "retry: 3 is not a Retry"),
    (f"\ntags = 'slow'\n{GOOD}", 2, "tags: 'slow' is not a list of texts"),
    (f"x = 1\nexpires = 'soon'\n{GOOD}", 2, "expires: 'soon' is not a duration"),
    (f"unique = 'always'\n{GOOD}", 1, "unique: 'always' is neither 'live' nor None"),
    (f"default_input = {{'day': 1}}\n{GOOD}", 1, "default_input: Job 'sub.bad'"),
    (f"\ninterval = 'often'\n{GOOD}", 2, "interval: 'often' is not a duration"),
    (f"interval = 0\n{GOOD}", 1, "interval: "),
    (f"schedule = '@daily'\ninterval = 60\n{GOOD}", 2, "interval: give either a schedule or an"),
    (f"schedule = 5\n{GOOD}", 1, "schedule: 5 is not"),
    (f"schedule = '61 * * * *'\n{GOOD}", 1, "schedule: minute '61' in '61 * * * *' is not valid"),
    (f"\nschedule = '0 0 30 2 *'\n{GOOD}", 2, "never fires"),
    (f"timezone = 'Europe/Berln'\n{GOOD}", 1, "timezone: there is no zone 'Europe/Berln'"),
    (f"if True:\n    timezone = 0\n{GOOD}", 2, "timezone: 0 is not"),
    (f"overlap = 'maybe'\n{GOOD}", 1, "overlap: 'maybe' is none of 'allow', 'skip', 'queue'"),
    (f"catch_up = ['all']\n{GOOD}", 1, "catch_up: ['all'] is none of 'skip', 'latest', 'all'"),
    (f"{GOOD}\non_failure = 3\n", 4, "`on_failure` is no function but int"),
    (f"{GOOD}\nclass on_failure: ...\n", 4, "`on_failure` is a class: write a function"),
    (f"{GOOD}def on_failure(): ...\n", 3, "`on_failure`: a failure handler takes one argument"),
    (f"{GOOD}def on_failure(ctx): ...\n", 3, "annotated with FailedRun, after the context"),
    (f"{GOOD}def on_failure(ctx, failed): ...\n", 3, "annotated with FailedRun"),
    (f"{GOOD}def on_failure(failed: 'Missing'): ...\n", 3, "`on_failure`: "),
    (f"{TOLD}{GOOD}def on_failure(failed: FailedRun, n=1): ...\n", 4, "takes one argument"),
    (f"{TOLD}{GOOD}def on_failure(failed: FailedRun):\n    yield\n", 4, "is a generator"),
    (f"{GOOD}if True:\n    from os import getcwd as on_failure\n", 4, "takes one argument"),
    (f"{GOOD}\n{ORDINARY}", 6, "`on_failure` is the ordinary job 'other': write a function"),
    ("\nrun = 1\n", 2, "`run` is no function but int"),
    (b"x = 1\ny = '\xff'\n\n" + GOOD.encode(), 2, "it is not UTF-8"),
    (b"# fine\n# fine\nx = '\xff'\n" + GOOD.encode(), 3, "it is not UTF-8"),
    (b"x = 1\n\0\0\0\0", 2, "it has a NUL byte: is it half-written?"),
    ("x = " + "(" * 500 + ")" * 500, 1, "too many nested parentheses"),
    ("x = " + "-" * 100_000 + "1", 1, "nested too deeply"),
    ("#" * (1024 * 1024 + 1), None, "it has 1,048,577 bytes, the most is 1,048,576"),
]


@pytest.mark.parametrize(("text", "line", "why"), ERRORS)
def test_an_error_has_its_file_and_line(
    folder: Folder, text: str | bytes, line: int | None, why: str
) -> None:
    folder.write("good.py")
    item = folder.one(text, "sub/bad.py")

    assert item.definition is None
    assert item.error is not None
    assert (item.error.file, item.error.line) == (str(item.file), line)
    assert why in item.error.why
    assert "\n" not in str(item.error)
    assert folder.load()["good.py"].definition is not None


def test_an_error_is_told_as_a_place_to_click_on(folder: Folder) -> None:
    item = folder.one("def run(ctx):\n    yield")

    assert str(item.error).startswith(f"{folder.path}/one.py:1: `run` is a generator")


def test_an_error_in_a_helper_is_told_where_it_is(folder: Folder) -> None:
    folder.write("_helper.py", "\ndef oops(:")
    folder.write("_later.py", "\n\n1 / 0")
    first = folder.one(f"from . import _helper\n{GOOD}", "a.py")
    second = folder.one(f"from . import _later\n{GOOD}", "b.py")

    assert first.error is not None
    assert second.error is not None
    assert (Path(first.error.file).name, first.error.line) == ("_helper.py", 2)
    assert (Path(second.error.file).name, second.error.line) == ("_later.py", 3)


def test_an_import_loop_is_an_error_of_those_in_it(folder: Folder) -> None:
    folder.write("a.py", f"from .b import y\nx = 1\n{GOOD}")
    folder.write("b.py", f"from .a import x\ny = 1\n{GOOD}")
    folder.write("c.py")
    found = folder.load()

    assert found["c.py"].error is None
    for file in ("a.py", "b.py"):
        error = found[file].error
        assert error is not None
        assert error.line == 1
        assert "circular import" in error.why


def test_files_of_one_name_are_errors_that_name_both(folder: Folder) -> None:
    folder.write("a/b.py")
    folder.write("a.b.py")
    found = folder.load()

    for file, other in (("a/b.py", "a.b.py"), ("a.b.py", "a/b.py")):
        error = found[file].error
        assert error is not None
        assert error.file.endswith(file)
        assert f"its name 'a.b' is also that of {folder.path / other}" in error.why


def test_a_name_that_code_has_taken(folder: Folder) -> None:
    folder.write("clean.py")
    error = folder.load({"clean": "tasks.clean (line 3)"})["clean.py"].error

    assert error is not None
    assert "also that of tasks.clean (line 3)" in error.why
    assert folder.load()["clean.py"].error is None


def test_a_name_that_cannot_be_one(folder: Folder) -> None:
    error = folder.one(GOOD, "my job.py").error

    assert error is not None
    assert "'my job' is not a name" in error.why


def test_links(folder: Folder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_text(GOOD)
    folder.write("real.py")
    (folder.path / "inside.py").symlink_to("real.py")
    (folder.path / "out.py").symlink_to(outside / "x.py")
    (folder.path / "out_again.py").symlink_to("../../outside/x.py")
    (folder.path / "dangling.py").symlink_to("nothing.py")
    (folder.path / "circle.py").symlink_to("circle.py")
    (folder.path / "tree").symlink_to(outside)
    found = folder.load()
    told = {file: item.error.why if item.error else "" for file, item in found.items()}

    assert told["real.py"] == told["inside.py"] == ""
    assert (
        told["out.py"]
        == told["out_again.py"]
        == (f"it is a link out of the folder, to {outside / 'x.py'}")
    )
    assert told["dangling.py"] == "it is a link to nothing"
    assert "it cannot be read" in told["circle.py"] or "link to nothing" in told["circle.py"]
    assert told["tree"] == "it is a link to a folder: copy it here"


def test_a_folder_that_is_itself_a_link(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "one.py").write_text(GOOD)

    assert folder.load()["one.py"].error is None


def test_what_is_no_file(folder: Folder) -> None:
    folder.write("good.py")
    os.mkfifo(folder.path / "pipe.py")

    error = folder.load()["pipe.py"].error
    assert error is not None
    assert error.why == "it is not a regular file"


def test_what_anybody_may_write_is_not_run(folder: Folder) -> None:
    path = folder.write("one.py")
    path.chmod(0o666)

    error = folder.load()["one.py"].error
    assert error is not None
    assert "everybody on this machine may change it" in error.why


@contextmanager
def not_as_root() -> Iterator[None]:
    """Root reads everything: be nobody for a moment."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_cannot_be_read() -> None:
    # Not in tmp_path, whose parents only its owner may enter.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Folder(Path(place, "jobs"))
        folder.write("one.py").chmod(0)
        with not_as_root():
            error = folder.load()["one.py"].error
    assert error is not None
    assert "it cannot be read: Permission denied" in error.why


BROKEN = [
    "def run(ctx:",
    "",
    "raise ValueError",
    "raise KeyboardInterrupt",
    "x = 1",
    "from . import two",
    b"\xff",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_keeps_its_last_good_version(folder: Folder, text: str | bytes) -> None:
    folder.write("two.py", "from . import one")
    good = folder.one(GOOD)
    broken = folder.one(text)
    mended = folder.one(f"{GOOD}\n# mended")

    assert isinstance(broken.error, JobFileError)
    assert broken.definition is good.definition
    assert mended.error is None
    assert mended.definition is not good.definition


def test_a_file_that_is_gone_keeps_nothing(folder: Folder) -> None:
    folder.write("one.py")
    folder.load()
    (folder.path / "one.py").unlink()

    assert folder.load() == {}


# A Ctrl-C in the midst of an import, and what the file may make of it.
CTRL_C = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
CAUGHT = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n"
WHATEVER = [CTRL_C, f"{CAUGHT}    pass\n{GOOD}", f"{CAUGHT}    raise ValueError('of the file')\n"]


@pytest.mark.parametrize("text", WHATEVER)
def test_a_signal_during_an_import_is_the_programs(
    folder: Folder, text: str, ctrl_c: Callable[..., object]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        folder.one(text)
    assert signal.getsignal(signal.SIGINT) is ctrl_c


def test_a_handler_that_a_file_sets_stays(folder: Folder, ctrl_c: Callable[..., object]) -> None:
    folder.one(f"import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\n{GOOD}")
    assert signal.getsignal(signal.SIGINT) is not ctrl_c


@pytest.fixture
def ctrl_c() -> Iterator[Callable[..., object]]:
    """Let SIGINT raise KeyboardInterrupt, as it does unless somebody has changed that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)
