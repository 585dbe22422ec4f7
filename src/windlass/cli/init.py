"""`windlass init`: a small project that works, to begin with, in a new folder or in yours."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template

import click

from windlass.config import FILE_NAME
from windlass.errors import UsageError

MODULES = ("app", "tasks", "windlass_app")
"""The names for the module, of which the first is taken that is free."""
_NEEDED = {"$module.py": "app.py.txt", "test_$module.py": "test_app.py.txt"}
_USEFUL = {"README.md": "README.md.txt", ".gitignore": "gitignore.txt"}
_IGNORED = "windlass.db*"


@click.command
@click.argument("folder", default=".", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Make a small project in FOLDER, or here: an application with a job, its test, its settings.

    The folder may hold a project of yours. Nothing in it is changed: where a file exists it stays,
    and where app.py does, the application gets another name.
    """
    module, made = write_project(folder)
    click.echo(f"Made {', '.join(made)}" + (f" in {folder}." if folder != Path() else "."))
    kept = [name for name in _USEFUL if name not in made]
    if kept:
        click.echo(f"Left {' and '.join(kept)} as {'they are' if len(kept) > 1 else 'it is'}.")
    if ".gitignore" in kept and _IGNORED not in (folder / ".gitignore").read_text("utf-8"):
        click.echo(f"Add {_IGNORED} to .gitignore.")
    click.echo("Next:")
    if folder != Path():
        click.echo(f"  cd {folder}")
    commands = next_commands(module)
    width = max(map(len, commands))
    for command, what in commands.items():
        click.echo(f"  {command.ljust(width)}   # {what}")


def next_commands(module: str) -> Mapping[str, str]:
    """What to try first, and what each does."""
    return {
        f"pytest test_{module}.py": "run its tests",
        f"python {module}.py Ada": "enqueue a run",
        "windlass worker --drain": "run it",
    }


def write_project(folder: Path) -> tuple[str, list[str]]:
    """Write the files that are not there; return the module's name and the files made.

    Raises UsageError if the folder has a windlass.toml: there is a project already.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder.")
    if (folder / FILE_NAME).exists():
        raise UsageError(
            f"{folder.absolute()} is a Windlass project already: it has a {FILE_NAME}. Name "
            "another folder."
        )
    module = _free_module(folder)
    files = {Template(name).substitute(module=module): text for name, text in _NEEDED.items()}
    files |= {n: text for n, text in _USEFUL.items() if not (folder / n).exists()}
    files[FILE_NAME] = f"{FILE_NAME}.txt"  # last: with it the project is there
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in files.items():
            text = (resources.files("windlass.cli") / "project" / template).read_text("utf-8")
            # Not over a file that somebody has made since.
            with (folder / name).open("x", encoding="utf-8") as file:
                # Not `substitute`: a README may show a shell's prompt.
                file.write(Template(text).safe_substitute(module=module))
    except OSError as error:
        raise UsageError(f"The project cannot be written: {error}.") from error
    return module, list(files)


def _free_module(folder: Path) -> str:
    for module in MODULES:
        taken = (folder / module, folder / f"{module}.py", folder / f"test_{module}.py")
        if not any(path.exists() for path in taken):
            return module
    names = ", ".join(f"{module}.py" for module in MODULES)
    raise UsageError(f"{folder.absolute()} has {names} or their tests: name another folder.")
