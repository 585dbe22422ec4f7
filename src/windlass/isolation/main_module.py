"""The program itself, `__main__`, by the name under which another process can import it.

`python tasks.py` runs the file as a module called `__main__`; so does `python -m shop.tasks`. A
fresh process imports the same file as `tasks` or `shop.tasks`. What the program does must then be
under `if __name__ == "__main__":`, or that process would do it too.
"""

import ast
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

MAIN = "__main__"


def importable_name(module: str) -> str | None:
    """The name by which a fresh process imports a module; None if it is a program without one."""
    return module if module != MAIN else _name_of_program()


def why_not_importable() -> str | None:
    """Why no other process can import the program itself, if so."""
    file = _file()
    if file is None:
        return "it is defined in a program without a file; move it to a module and import that"
    if _name_of_program() is None:
        return f"{file.name} cannot be imported by a name; move it to a module and import that"
    if not _is_guarded(file):
        return (
            f'{file.name} is run as a program, and has no `if __name__ == "__main__":`: put what '
            "the program does under that, since a child process imports the file"
        )
    return None


def _file() -> Path | None:
    file = getattr(sys.modules.get(MAIN), "__file__", None)
    return Path(file).absolute() if isinstance(file, str) and Path(file).is_file() else None


def _name_of_program() -> str | None:
    spec = getattr(sys.modules.get(MAIN), "__spec__", None)
    if spec is not None:
        return str(spec.name)  # python -m shop.tasks
    file = _file()
    if file is None or not file.stem.isidentifier():
        return None
    try:
        found = find_spec(file.stem)
    except (ImportError, ValueError):  # ValueError: a module that was put together by hand
        return None
    origin = None if found is None else found.origin
    return file.stem if origin is not None and Path(origin).resolve() == file.resolve() else None


@cache
def _is_guarded(file: Path) -> bool:
    """Whether the file asks for `__name__` on its outermost level."""
    tree = ast.parse(file.read_bytes())
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    return any(
        isinstance(name, ast.Name) and name.id == "__name__"
        for test in tests
        for name in ast.walk(test)
    )
