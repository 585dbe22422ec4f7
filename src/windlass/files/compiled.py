"""A file's text as code, and what can be told of it without running it."""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType

from windlass.errors import JobFileError
from windlass.files.source import Parts, Source


@dataclass(frozen=True, slots=True)
class Import:
    """An import as written; `level` counts the dots."""

    level: int
    module: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a version of a file is made from."""

    code: CodeType
    assigned: Mapping[str, int]
    """The module's variables that a statement assigns, with the first line that does."""
    bound: Mapping[str, int]
    """The module's names, with the last line that defines, imports or assigns them."""
    imports: tuple[Import, ...]


def compile_source(source: Source) -> Compiled:
    """Compile a file. Raises JobFileError with the line."""
    if source.error is not None:
        raise JobFileError(*source.error.args)  # a new one: it gathers the frames it passes
    file = str(source.file)
    try:
        tree = ast.parse(_decoded(source), file)
        code = compile(tree, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Of text that is no UTF-8 in spite of its coding line, Python gives no line.
        raise JobFileError(file, error.lineno or 1, error.msg) from None
    except ValueError as error:
        raise JobFileError(file, 1, str(error)) from None
    except (RecursionError, MemoryError):
        raise JobFileError(file, 1, "it is nested too deeply") from None
    bindings = _bindings(tree)
    return Compiled(
        code,
        assigned={name: line for line, name, assigns in reversed(bindings) if assigns},
        bound={name: line for line, name, _ in bindings},
        imports=tuple(_imports(tree)),
    )


def _decoded(source: Source) -> str:
    data = source.data
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise JobFileError(str(source.file), line, "it has a NUL byte: is it half-written?")
    try:
        return importlib.util.decode_source(data)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise JobFileError(str(source.file), line, "it is not UTF-8") from None
    except SyntaxError as error:  # of the first two lines, where an encoding may be named
        why = f"it is not UTF-8, and {error.msg}" if error.msg else "it is not UTF-8"
        raise JobFileError(str(source.file), 1, why) from None


def _bindings(tree: ast.Module) -> list[tuple[int, str, bool]]:
    """Where statements of the module itself bind names: line, name, and whether they assign it."""
    found: list[tuple[int, str, bool]] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append((node.lineno, node.name, False))
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [(item.lineno, item.asname or item.name, False) for item in node.names]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append((node.lineno, node.id, True))
        waiting.extend(ast.iter_child_nodes(node))
    return sorted(found)


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(node.level, node.module or "", names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, alias.name, ())


def imported_places(compiled: Compiled, package: Parts, own_name: str | None) -> Iterator[Parts]:
    """The places in the folder that the imports may mean; not all of them exist.

    `own_name` is the name by which absolute imports mean the folder, if any does.
    """
    for item in compiled.imports:
        steps = tuple(item.module.split(".")) if item.module else ()
        if item.level:
            base = package[: len(package) - item.level + 1]
        elif steps and steps[0] == own_name:
            base, steps = (), steps[1:]
        else:
            continue
        for depth in range(len(steps) + 1):
            yield (*base, *steps[:depth])
        for name in item.names:
            yield (*base, *steps, name)
