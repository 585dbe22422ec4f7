"""One version of all files of a folder, as modules of their own.

Python cannot unload a module, and loading one again into the same object changes code under
whoever runs it. So each version is a package with a name that nobody can write into an import
(`jobs@7`), its modules are new objects, and nothing of another version is touched. The version
lives as long as something that it defined is held (the registry, or a running attempt); then its
modules leave `sys.modules`, and the memory is free.

All files of a folder are one package: `from ._helpers import x` and `from jobs._helpers import x`
mean the same, and job files may import each other. What the folder lacks is looked for in a package
of the same name elsewhere, if there is one.
"""

import builtins
import hashlib
import importlib
import itertools
import sys
import weakref
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.errors import JobFileError
from windlass.files.compiled import Compiled, compile_source, imported_places
from windlass.files.source import ENDING, Parts, Reading, Source

_numbers = itertools.count(1)
_living: "weakref.WeakValueDictionary[str, Version]" = weakref.WeakValueDictionary()

Cache = dict[tuple[Path, str], Compiled]


class Version:
    """The modules of one reading of a folder. Nothing is imported until it is asked for."""

    def __init__(self, reading: Reading, known: Cache) -> None:
        self.reading = reading
        self.folder = reading.folder
        self.root = f"{reading.folder.name}@{next(_numbers)}"
        self.own_name = _own_name(reading.folder)
        self.builtins = _builtins(self.root, self.own_name, reading)
        self.cache = known
        _living[self.root] = self
        weakref.finalize(self, _forget, self.root).atexit = False
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)

    def load(self, source: Source) -> ModuleType:
        """Import a file. Raises JobFileError, and whatever the file raises."""
        return importlib.import_module(self.module_name(source.parts))

    def compiled(self, source: Source) -> Compiled:
        """The file's code. Raises JobFileError."""
        key = (source.file, source.digest)
        if key not in self.cache:
            self.cache[key] = compile_source(source)
        return self.cache[key]

    def hash_of(self, source: Source) -> str:
        """Changes when the file does, or one that it imports, or one that those import."""
        digest = hashlib.sha256()
        for parts, item in sorted(self._closure(source).items()):
            digest.update(f"{'.'.join(parts)}\0{item.digest}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:12]

    def module_name(self, parts: Parts) -> str:
        """The private name of a module; a dot in a file's name must not look like a folder."""
        return ".".join((self.root, *(part.replace(".", ":") for part in parts)))

    def find(self, name: str) -> tuple[Source | None, bool] | None:
        """What is at the place that a module's name means, and whether it is a package."""
        parts = tuple(part.replace(":", ".") for part in name.split(".")[1:])
        source, package = self.reading.modules.get(parts), parts in self.reading.packages
        return (source, package) if source is not None or package or not parts else None

    def _closure(self, source: Source) -> Mapping[Parts, Source]:
        found: dict[Parts, Source] = {}
        waiting: list[tuple[Parts, Source]] = [(source.parts, source)]
        while waiting:
            parts, item = waiting.pop()
            if parts in found:
                continue
            found[parts] = item
            try:
                compiled = self.compiled(item)
            except JobFileError:
                continue
            package = parts if parts in self.reading.packages else parts[:-1]
            around = [package[:depth] for depth in range(len(package) + 1)]
            places = (*around, *imported_places(compiled, package, self.own_name))
            modules = self.reading.modules
            waiting += [(place, modules[place]) for place in places if place in modules]
        return found


class _Finder(MetaPathFinder):
    """Finds the modules of the versions that are alive."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for our own names alone."""
        version = _living.get(fullname.partition(".")[0])
        found = version.find(fullname) if version is not None else None
        if version is None or found is None:
            return None
        source, package = found
        compiled = version.compiled(source) if source is not None else None
        file = None if source is None else str(source.file)
        spec = spec_from_loader(
            fullname, _Loader(compiled, version.builtins), origin=file, is_package=package
        )
        assert spec is not None, "a loader was given"
        spec.has_location = file is not None
        return spec


class _Loader(Loader):
    """Runs a module; holds nothing that would keep its version alive."""

    def __init__(self, compiled: Compiled | None, names: Mapping[str, Any]) -> None:
        self._compiled = compiled
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code in the new module."""
        module.__dict__["__builtins__"] = self._names
        if self._compiled is not None:
            exec(self._compiled.code, module.__dict__)  # noqa: S102 - that is what a job file is


_FINDER = _Finder()


def _own_name(folder: Path) -> str | None:
    """By which name absolute imports mean the folder: its own, unless a module beside has it."""
    beside = folder.with_name(folder.name + ENDING)
    return folder.name if folder.name.isidentifier() and not beside.exists() else None


def _builtins(root: str, own_name: str | None, reading: Reading) -> Mapping[str, Any]:
    """Python's own, with an import that knows the folder by its name."""

    def import_(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        level = kwargs.get("level", args[3] if len(args) > 3 else 0)
        if level == 0 and own_name is not None and name.partition(".")[0] == own_name:
            names = kwargs.get("fromlist", args[2] if len(args) > 2 else None) or ()
            if reading.holds(name, names) or not _is_elsewhere(own_name, reading.folder):
                name = root + name[len(own_name) :]
        return builtins.__import__(name, *args, **kwargs)

    return {**vars(builtins), "__import__": import_}


def _is_elsewhere(name: str, folder: Path) -> bool:
    """Whether Python finds a package of this name in another place."""
    spec = find_spec(name)
    places = () if spec is None else spec.submodule_search_locations or ()
    return any(Path(place).resolve() != folder for place in places)


def _forget(root: str) -> None:
    inside = f"{root}."
    for name in [name for name in list(sys.modules) if name == root or name.startswith(inside)]:
        sys.modules.pop(name, None)
