"""The command itself: quick to start, and helpful when it is not understood."""

import subprocess
import sys

import pytest

import windlass
from tests.cli.kit import command, fails, ok, run
from windlass.cli import SECTIONS, main

NAMES = [name for entries in SECTIONS.values() for name in entries]

QUICK = """
import sys
from windlass.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
slow = {"windlass.app", "windlass.domain", "asyncio", "msgspec", "apsw", "psycopg", "logging"}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""


def test_help_imports_nothing_that_takes_long() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True, stdout=subprocess.DEVNULL)


def test_help_names_every_command_and_the_exit_codes() -> None:
    shown = ok("--help")

    for name in NAMES:
        assert f"  {name} " in shown
    assert "Exit codes: 0 done;" in shown


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_that_begins_as_the_list_of_commands_says(name: str) -> None:
    shown = ok(name, "--help")

    assert shown.startswith(f"Usage: windlass {name} ")
    found = main.get_command(None, name)  # type: ignore[arg-type]
    assert found is not None
    assert found.help is not None


def test_help_fits_a_terminal() -> None:
    for arguments in ([], *([name] for name in NAMES)):
        for line in ok(*arguments, "--help").splitlines():
            assert len(line) <= 80, (arguments, line)


def test_version() -> None:
    assert ok("--version") == "windlass 0.1.0\n"


def test_python_m_windlass_is_the_command() -> None:
    done = subprocess.run(command("--version"), check=True, capture_output=True, text=True)

    assert done.stdout == "windlass 0.1.0\n"


def test_nothing_said_shows_the_help() -> None:
    result = run()

    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: windlass")


def test_an_unknown_command_and_an_unknown_option_are_one_sentence() -> None:
    assert fails(2, "rums") == "No such command 'rums'. Try `windlass --help`."
    told = fails(2, "runs", "--stats")
    assert told.startswith("No such option '--stats'.")
    assert told.endswith("Try `windlass runs --help`.")


def test_the_public_names_are_all_there_though_imported_late() -> None:
    for name in windlass.__all__:
        assert getattr(windlass, name).__name__ == name
    assert set(windlass.__all__) <= set(dir(windlass))
    assert set(windlass._HOME_OF) == set(windlass.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Windlas'"):
        _ = windlass.Windlas  # type: ignore[attr-defined]
