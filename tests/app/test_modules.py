"""Projects of many modules: imported at once, and job names that carry their module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from windlass import BadOption, DuplicateJob, Router, UsageError, Windlass

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Write the modules of a package `shop`; it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**modules: str) -> Path:
        for name, text in {"__init__": "", **modules}.items():
            file = tmp_path.joinpath("shop", *name.split("__in__")[::-1]).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "shop"

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def here(tmp_path: Path) -> Windlass:
    """An application that opens nothing."""
    return Windlass(f"sqlite:///{tmp_path}/never.db")


APP = "from windlass import Windlass\napp = Windlass('sqlite:///never.db')\n"


def test_every_module_of_a_package_is_imported(project: Project) -> None:
    project(
        app=APP,
        mail="from shop.app import app\n@app.job\ndef send(): ...\n",
        deep__in__jobs="from shop.app import app\n@app.job\ndef dig(): ...\n",
        __init____in__jobs="",
        __main__="raise SystemExit('a program')\n",
    )
    app = import_module("shop.app").app

    assert app.autodiscover("shop") == [
        "shop", "shop.app", "shop.jobs", "shop.jobs.deep", "shop.mail",
    ]  # fmt: skip
    assert sorted(app.jobs) == ["dig", "send"]
    assert app.autodiscover("shop.mail") == ["shop.mail"]  # a plain module, imported already


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero ({file}, line 2, `y = x / 0`)"),
        ("def f(:\n", "SyntaxError: invalid syntax ({file}, line 1, `def f(:`)"),
        ("\nimport nowhere_at_all\n", "No module named 'nowhere_at_all' ({file}, line 2, "),
        ("raise SystemExit(3)\n", "SystemExit: 3 ({file}, line 1, `raise SystemExit(3)`)"),
    ],
)
def test_a_module_that_fails_is_told_with_file_and_line(
    project: Project, here: Windlass, text: str, told: str
) -> None:
    folder = project(good="", wrong=text)

    with pytest.raises(UsageError) as caught:
        here.autodiscover("shop")

    assert str(caught.value).startswith("Module 'shop.wrong' cannot be imported: ")
    assert told.format(file=folder / "wrong.py") in str(caught.value)


def test_a_package_that_is_not_there_is_told(here: Windlass) -> None:
    with pytest.raises(UsageError, match="There is no module 'shop_of_nobody'"):
        here.autodiscover("shop_of_nobody.jobs")


def test_names_carry_the_module_where_it_is_wanted(project: Project) -> None:
    project(
        app=APP.replace("db')", "db', names='module')"),
        mail="from shop.app import app\n@app.job\ndef send(): ...\n",
        sms="""
from windlass import Router
from shop.app import app
@app.job
def send(): ...
@app.job(name="own")
def other(): ...
router, prefixed = Router(), Router(prefix="routed")
router.job(send.spec.handler)
prefixed.job(send.spec.handler)
""",
    )
    app = import_module("shop.app").app
    app.autodiscover("shop")

    assert sorted(app.jobs) == ["own", "shop.mail.send", "shop.sms.send"]
    with pytest.raises(DuplicateJob, match=r"Two jobs are named 'shop.sms.send'"):
        app.include(import_module("shop.sms").router)
    app.include(import_module("shop.sms").prefixed)
    assert "routed.send" in app.jobs


def test_by_default_two_functions_of_one_name_are_an_error(project: Project) -> None:
    text = "from shop.app import app\n@app.job\ndef send(): ...\n"
    project(app=APP, mail=text, sms=text)
    with pytest.raises(UsageError) as caught:
        import_module("shop.app").app.autodiscover("shop")

    assert "Two jobs are named 'send': shop.mail.send (line 2) and shop.sms.send (line 2). " in str(
        caught.value
    )


def test_names_that_are_neither_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="'class' is neither 'function' nor 'module'"):
        Windlass(f"sqlite:///{tmp_path}/never.db", names="class")  # type: ignore[arg-type]


def test_a_routers_job_takes_its_name_when_it_is_included(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/never.db", names="module")
    router = Router()

    @router.job
    def here_defined() -> None: ...

    app.include(router)

    assert here_defined.name == f"{__name__}.here_defined"
