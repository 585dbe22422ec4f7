"""`windlass init`: a small project that works, to begin with."""

from importlib import resources
from pathlib import Path

import click

from windlass.errors import UsageError

FILES = {
    "app.py": "app.py.txt",
    "test_app.py": "test_app.py.txt",
    "windlass.toml": "windlass.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = (
    ("pytest", "run its tests"),
    ("python app.py Ada", "enqueue a run"),
    ("windlass worker --drain", "run it"),
)


@click.command
@click.argument("folder", default=".", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Make a small project in FOLDER, or here: an application with a job, its test, its settings.

    Nothing is overwritten: where one of its files exists, none is written.
    """
    write_project(folder)
    click.echo(f"Made {', '.join(FILES)}" + (f" in {folder}." if folder != Path() else "."))
    click.echo("Next:")
    if folder != Path():
        click.echo(f"  cd {folder}")
    width = max(len(command) for command, _ in NEXT)
    for command, what in NEXT:
        click.echo(f"  {command.ljust(width)}   # {what}")


def write_project(folder: Path) -> None:
    """Write the files, all or none. Raises UsageError where one is there already."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder, new or empty.")
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise UsageError(
            f"{', '.join(there)} would be overwritten in {folder.absolute()}: name another folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in FILES.items():
            text = (resources.files("windlass.cli") / "project" / template).read_text("utf-8")
            # Not over a file that somebody has made since.
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"The project cannot be written: {error}.") from error
