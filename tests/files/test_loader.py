"""Which files are jobs, what they are called, and what they say by default."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.files.kit import GOOD, Folder, private_modules
from windlass import Retry
from windlass.domain.job import Executor, JobSpec
from windlass.domain.run import RunDefaults
from windlass.domain.scheduling.catchup import CatchUp
from windlass.domain.scheduling.rows import Overlap
from windlass.files.definition import Plan
from windlass.files.loader import JobFile


def spec_of(item: JobFile) -> JobSpec:
    assert item.error is None
    assert item.definition is not None
    return item.definition.spec


def plan_of(item: JobFile) -> Plan | None:
    assert item.definition is not None, item.error
    return item.definition.plan


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("cleanup.py", "cleanup"),
        ("reports/daily.py", "reports.daily"),
        ("a/b/c/d.py", "a.b.c.d"),
        ("a.b.py", "a.b"),
        ("clean-up.py", "clean-up"),
        ("größe.py", "größe"),
        ("run.py", "run"),
    ],
)
def test_the_name_is_the_path_with_dots(folder: Folder, file: str, name: str) -> None:
    folder.write(file)

    (item,) = folder.load().values()

    assert item.name == name
    assert spec_of(item).name == name


@pytest.mark.parametrize(
    "file",
    [
        "_helper.py", "__init__.py", "reports/__init__.py", "_lib/util.py", ".hidden.py",
        ".git/hook.py", "__pycache__/x.py", "notes.txt", "x.pyc", "py",
    ],
)  # fmt: skip
def test_what_is_not_a_job(folder: Folder, file: str) -> None:
    folder.write(file, "this is not even Python")
    folder.write("good.py")

    assert list(folder.load()) == ["good.py"]


def test_a_missing_folder_is_empty(folder: Folder) -> None:
    assert folder.load() == {}


def test_a_file_in_place_of_the_folder_is_empty(folder: Folder) -> None:
    folder.path.write_text("")

    assert folder.load() == {}


def test_defaults(folder: Folder) -> None:
    spec = spec_of(folder.one(GOOD))

    assert (spec.max_attempts, spec.retry) == (3, Retry.fixed("5s", jitter=0.0))
    assert spec.retry.delay_for(1, OSError(), 0.99) == 5.0
    assert (spec.queue, spec.priority, spec.timeout) == ("default", 0, None)
    assert spec.executor is Executor.THREAD
    assert plan_of(folder.load()["one.py"]) is None


def test_defaults_of_a_scheduled_file(folder: Folder) -> None:
    item = folder.one(f'schedule = " 0 3 * * * "\n{GOOD}')

    assert plan_of(item) == Plan(
        cron="0 3 * * *", timezone="local", overlap=Overlap.SKIP, catch_up=CatchUp.skip()
    )


def test_everything_a_file_may_say(folder: Folder) -> None:
    item = folder.one(
        """
from windlass import Retry

schedule = "*/5 * * * *"
timezone = "Europe/Berlin"
overlap = "queue"
catch_up = "all(max=24)"
retry = Retry.linear("1s")
timeout = "10m"
queue = "reports"
max_attempts = 7
priority = 5

async def run(ctx, day: int = 1, **rest): ...
"""
    )

    spec = spec_of(item)
    assert (spec.retry, spec.timeout, spec.queue) == (Retry.linear("1s"), 600.0, "reports")
    assert (spec.max_attempts, spec.priority) == (7, 5)
    assert spec.executor is Executor.ASYNC
    assert plan_of(item) == Plan(
        cron="*/5 * * * *",
        timezone="Europe/Berlin",
        overlap=Overlap.QUEUE,
        catch_up=CatchUp.all(max=24),
    )


def test_a_file_may_run_in_intervals_with_an_input_and_tags(folder: Folder) -> None:
    item = folder.one(
        """
interval = "10m"
default_input = {"day": 7}
tags = ["nightly"]
expires = "5m"
deadline = "1h"
unique = "live"
key_ttl = "1d"

def run(ctx, day: int): ...
"""
    )

    spec = spec_of(item)
    assert spec.default_input == b'{"day":7}'
    assert spec.defaults == RunDefaults(
        tags=("nightly",), expires=300.0, deadline=3600.0, unique="live", key_ttl=86400.0
    )
    plan = plan_of(item)
    assert plan is not None
    assert plan == Plan(interval=600.0, overlap=Overlap.SKIP, catch_up=CatchUp.skip())
    assert plan.shown == "every 10 m"


def test_what_is_imported_under_an_options_name_is_not_meant(folder: Folder) -> None:
    folder.write("_policy.py", "from windlass import Retry\nretry = Retry.never()\nqueue = 'slow'")
    taken = folder.one(f"import queue\nfrom functools import wraps as timeout\n{GOOD}", "a.py")
    meant = folder.one(f"from ._policy import queue, retry\n{GOOD}", "b.py")

    assert spec_of(taken).queue == "default"
    assert spec_of(meant).queue == "slow"
    assert spec_of(meant).retry == Retry.never()


def test_the_text_of_another_encoding(folder: Folder) -> None:
    text = "# -*- coding: latin-1 -*-\ndef run(ctx):\n    return 'é'\n".encode("latin-1")

    assert spec_of(folder.one(text)).handler(None) == "é"


# -- imports ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "from ._helpers import VALUE",
        "from jobs._helpers import VALUE",
        "from . import _helpers; VALUE = _helpers.VALUE",
        "import jobs._helpers; VALUE = jobs._helpers.VALUE",
        "import jobs._helpers as h; VALUE = h.VALUE",
        "from .other import VALUE",
        "from .lib.deep import VALUE",
        "from jobs.lib import deep; VALUE = deep.VALUE",
        "import importlib; VALUE = importlib.import_module('._helpers', __package__).VALUE",
    ],
)
def test_imports_within_the_folder(folder: Folder, statement: str) -> None:
    folder.write("_helpers.py", "VALUE = 7")
    folder.write("other.py", f"from ._helpers import VALUE\n{GOOD}")
    folder.write("lib/deep.py", f"from .._helpers import VALUE\n{GOOD}")
    spec = spec_of(folder.one(f"{statement}\ndef run(ctx): return VALUE"))

    assert spec.handler(None) == 7


def test_a_package_runs_its_init(folder: Folder) -> None:
    folder.write("reports/__init__.py", "VALUE = 7")
    spec = spec_of(folder.one("from . import VALUE\ndef run(ctx): return VALUE", "reports/x.py"))

    assert spec.handler(None) == 7


def test_helpers_are_shared_by_the_files_of_a_version(folder: Folder) -> None:
    folder.write("_state.py", "seen = []")
    text = "from ._state import seen\ndef run(ctx):\n    seen.append(1)\n    return len(seen)"
    folder.write("a.py", text)
    folder.write("b.py", text)
    found = folder.load()

    assert spec_of(found["a.py"]).handler(None) == 1
    assert spec_of(found["b.py"]).handler(None) == 2


def test_a_module_beside_the_folder_keeps_its_name(folder: Folder, tmp_path: Path) -> None:
    # The application is often `jobs.py`, and job files import it.
    folder.path.with_name("jobs.py").write_text("")
    item = folder.one(f"from jobs import nothing\n{GOOD}")

    assert item.error is not None
    assert "@" not in item.error.why


def test_what_the_folder_lacks_is_imported_from_a_package_of_its_name(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "jobs").mkdir(parents=True)
    for file, text in {"__init__": "OWN = 1", "models": "VALUE = 2", "_help": "VALUE = 3"}.items():
        (elsewhere / "jobs" / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(elsewhere)
    folder.write("_help.py", "VALUE = 7")
    try:
        spec = spec_of(
            folder.one(
                "from jobs import OWN, models\nfrom jobs.models import VALUE as there\n"
                "from jobs._help import VALUE as here\nfrom jobs import _help\n"
                "def run(ctx): return [OWN, models.VALUE, there, here, _help.VALUE]"
            )
        )
        broken = folder.one(f"from jobs.nothing import x\n{GOOD}", "two.py")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "jobs"]:
            del sys.modules[name]

    assert spec.handler(None) == [1, 2, 2, 7, 7]
    assert broken.error is not None
    assert "No module named 'jobs.nothing'" in broken.error.why


def test_typing_and_pickling_find_the_module(folder: Folder) -> None:
    spec = spec_of(
        folder.one(
            """
from __future__ import annotations
import pickle
import msgspec

class Day(msgspec.Struct):
    next: Day | None = None

def run(ctx, day: Day | None = None):
    return pickle.loads(pickle.dumps(Day())) == Day()
"""
        )
    )

    args, _ = spec.signature.decode(b'{"day": {"next": {}}}')
    assert type(args[0]).__name__ == "Day"
    assert spec.handler(None) is True


# -- versions ---------------------------------------------------------------------------------


def versions(folder: Folder) -> dict[str, str]:
    return {name: spec_of(item).version for name, item in folder.load().items()}


def test_the_version_follows_the_file_and_what_it_imports(folder: Folder) -> None:
    folder.write("_a.py", "from . import _b")
    folder.write("_b.py", "VALUE = 1")
    folder.write("uses.py", f"from . import _a\n{GOOD}")
    folder.write("later.py", "def run(ctx):\n    from jobs import _a\n")
    folder.write("alone.py")
    before = versions(folder)
    folder.write("_b.py", "VALUE = 2")
    after = versions(folder)

    assert before["alone.py"] == after["alone.py"]
    assert before["uses.py"] != after["uses.py"]
    assert before["later.py"] != after["later.py"]
    folder.write("_b.py", "VALUE = 1")
    assert versions(folder) == before


def test_what_has_not_changed_is_not_loaded_again(folder: Folder) -> None:
    folder.write("one.py")
    folder.load()
    before = folder.loaded
    folder.load()

    assert folder.loaded is before


def test_old_code_goes_on_and_imports_what_it_knew(folder: Folder) -> None:
    folder.write("_late.py", "VALUE = 1")
    text = "def run(ctx, x=1):\n    from ._late import VALUE\n    return VALUE, x"
    old = spec_of(folder.one(text))
    folder.write("_late.py", "VALUE = 2")
    new = spec_of(folder.one(text.replace("x=1", "x=2")))

    assert old.signature.decode(b"{}") == ((1,), {})
    assert old.handler(None) == (1, 1)
    assert new.handler(None) == (2, 2)


def test_a_version_that_nobody_holds_is_gone(folder: Folder) -> None:
    before = private_modules()
    spec_of(folder.one(GOOD))
    for number in range(5):
        spec_of(folder.one(f"X = {number}\n{GOOD}"))

    assert len(private_modules() - before) == 2  # the folder and the file, of the last version
    folder.loaded = type(folder.loaded)("", ())
    assert private_modules() <= before
