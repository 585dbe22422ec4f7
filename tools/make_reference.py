"""Makes the reference pages from docstrings and from `--help`: used by `tools/make_site.py`.

A page in docs/ has a place for each of them, between two comments. What is made is never put into
the repository, so it cannot be out of date there.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, Field, dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import Any

import click

import windlass
from windlass import errors, testing
from windlass.cli import SECTIONS
from windlass.cli import main as command

BEGIN, END = "<!-- begin: made by tools/make_site.py -->", "<!-- end -->"

# What belongs together, in the order in which one meets it. Names that are exported and not here
# come last, so that a new one is never forgotten.
GROUPS: dict[str, list[str]] = {
    "The application": ["windlass.Windlass"],
    "Jobs and runs": ["windlass.Job", "windlass.Run", "windlass.Request"],
    "In a handler": ["windlass.Context", "windlass.SyncContext"],
    "Results and retries": [
        f"windlass.{name}"
        for name in ("Snooze", "Fail", "Cancel", "ContinueAs", "RetryAfter", "Fatal", "Retry")
    ],
    "Schedules": ["windlass.schedules.Schedules", "windlass.Schedule"],
    "Job files": ["windlass.files.registry.Jobs"],
    "Workers": ["windlass.Worker", "windlass.WorkerOptions", "windlass.WorkerState"],
    "Counts": ["windlass.Counts", "windlass.Count", "windlass.QueueState"],
    "States": [f"windlass.{name}" for name in ("Status", "Failure", "AttemptOutcome", "EventType")],
    "Errors": [
        f"windlass.{name}"
        for name in windlass.__all__
        if getattr(windlass, name).__module__.startswith(errors.__name__)
    ],
    "Tests": [f"windlass.testing.{name}" for name in testing.__all__],
    "Frameworks": [
        "windlass.contrib.starlette.lifespan",
        "windlass.contrib.django.get_app",
        "windlass.contrib.django.testing.windlass_in_test",
    ],
}

_TWIN = re.compile(r"As `(\w+)`, in async code\.")
_DOCTEST = re.compile(r"^(?:>>> .*(?:\n(?!\n).*)*\n?)+", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
# Classes that programs make themselves, so that their reference begins with how.
_MADE_BY_CALLERS = {"Windlass", "Snooze", "RetryAfter"}
# Those that one comes by otherwise than by an import.
_HOMES = {
    "Schedules": "`app.schedules`: the schedules of an application.",
    "Jobs": "`app.jobs`: the jobs of an application, and its job files.",
}
# What other modules of ours call, and nobody else needs.
_INTERNAL = {
    "Windlass": {"make_ground", "sources", "store", "transport"},
    "Run": {"become", "record", "ref"},
    "Job": {"request_by_name", "spec"},
    "Request": {"joined"},
    "Jobs": {"specs", "add", "served_by", "plans"},
    "Schedules": {"declare"},
    "Schedule": {"row", "timetable"},
    "Fail": {"as_error"},
    "Worker": {"betray", "unasked", "adopt", "heart", "services", "signals", "failure", "ended"},
    "VirtualClock": {"set", "before_moving", "jump", "monotonic"},
    "Retry": {"is_fatal", "delay_for", "to_json", "from_json", "kind", "rule"},
}
# Options of nearly every command: the page says so once.
_EVERYWHERE = {"app", "url"}
_KINDS = (staticmethod, classmethod)


def groups() -> dict[str, list[str]]:
    """Every name of the reference, by group."""
    known = {path for paths in GROUPS.values() for path in paths}
    more = [f"windlass.{name}" for name in windlass.__all__]
    left = [path for path in more if path not in known]
    return {**GROUPS, **({"More": left} if left else {})}


def api_page() -> str:
    """The reference of everything that can be imported, as Markdown."""
    parts: list[str] = []
    for title, paths in groups().items():
        parts.append(f"## {title}\n")
        parts.extend(text for path in paths for text in _documented(path))
    return "\n".join(parts)


def command_page() -> str:
    """The reference of all commands: what `--help` prints of each."""
    parts = []
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in entries:
            context = click.Context(command, info_name="windlass")
            found = command.get_command(context, name)
            assert found is not None
            parts.extend(_helped(found, context, f"windlass {name}", 3))
    return "\n".join(parts)


def _helped(found: click.Command, parent: click.Context, title: str, level: int) -> Iterator[str]:
    context = click.Context(found, info_name=found.name, parent=parent, terminal_width=96)
    shown = copy(found)
    shown.params = [one for one in found.params if one.name not in _EVERYWHERE]
    help_text = re.sub(r"\n  --help .*", "", shown.get_help(context))
    yield f"{'#' * level} {title}\n\n```text\n{help_text}\n```\n"
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            below = found.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _helped(below, context, f"{title} {name}", level + 1)


def _documented(path: str) -> Iterator[str]:
    module, _, name = path.rpartition(".")
    subject = getattr(import_module(module), name)
    home = _HOMES.get(name, "" if module == "windlass" else f"`from {module} import {name}`")
    home = f"\n{home}\n" if home else ""
    if inspect.isclass(subject):
        yield f"### {name}\n{home}"
        yield from _ClassPage(subject).parts()
    elif not _is_twin(subject):
        yield f"### {name}\n{home}"
        yield _signature(name, subject)
        yield prose(subject)
        if _is_twin(getattr(import_module(module), f"a{name}", None)):
            yield f"In async code: `await a{name}(...)`.\n"


def prose(subject: object) -> str:
    """A docstring as Markdown."""
    text = inspect.getdoc(subject) or ""
    text = _ROLE.sub(r"`\1`", text)
    # Indented blocks and doctests are code.
    text = _DOCTEST.sub(lambda block: f"```python\n{block[0].rstrip()}\n```\n", text)
    return f"{text}\n"


def _is_twin(subject: object) -> bool:
    return bool(_TWIN.fullmatch((inspect.getdoc(subject) or "").split("\n\n")[0]))


def _signature(name: str, function: Callable[..., Any]) -> str:
    """How it is called, as its source says it."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    pieces = list(_parameters(node.args))
    answer = f" -> {_shown(node.returns)}" if node.returns and node.name != "__init__" else ""
    line = f"{name}({', '.join(pieces)}){answer}"
    if len(line) > 88:
        line = f"{name}(\n{''.join(f'    {piece},{chr(10)}' for piece in pieces)}){answer}"
    return f"```python\n{'await ' * isinstance(node, ast.AsyncFunctionDef)}{line}\n```\n"


def _parameters(given: ast.arguments) -> Iterator[str]:
    asked = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(asked) - len(given.defaults)) + list(given.defaults)
    for place, (one, default) in enumerate(zip(asked, defaults, strict=True)):
        if not (place == 0 and one.arg in ("self", "cls")):
            yield _parameter(one, default)
        if place == len(given.posonlyargs) - 1:
            yield "/"
    if given.vararg:
        yield f"*{_parameter(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _parameter(one, default)
    if given.kwarg:
        yield f"**{given.kwarg.arg}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    text = f"{one.arg}: {_shown(one.annotation)}" if one.annotation else one.arg
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _shown(annotation: ast.expr | None) -> str:
    """An annotation, without the quotes around names that are defined later."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation else ""


@dataclass(frozen=True)
class _ClassPage:
    subject: type

    def parts(self) -> Iterator[str]:
        if "__init__" in vars(self.subject) and self.subject.__name__ in _MADE_BY_CALLERS:
            yield _signature(self.subject.__name__, vars(self.subject)["__init__"])
        yield prose(self.subject)
        if issubclass(self.subject, Enum):
            yield _values(self.subject)
        elif not issubclass(self.subject, BaseException):
            yield from self._attributes()
            yield from self._methods()

    @cached_property
    def _members(self) -> dict[str, Any]:
        hidden = _INTERNAL.get(self.subject.__name__, set())
        homes = [home for home in self.subject.__mro__ if home.__module__.startswith("windlass")]
        if self.subject is windlass.SyncContext:
            homes = homes[:1]  # the rest is on the page of Context
        found: dict[str, Any] = {}
        for name, member in ((n, m) for home in homes for n, m in vars(home).items()):
            if not name.startswith("_") and name not in hidden:
                found.setdefault(name, member)
        return found

    def _attributes(self) -> Iterator[str]:
        rows = [
            f"| `{name}` | {_cell(member.__doc__)} |"
            for name, member in self._members.items()
            if isinstance(member, property) or type(member).__name__ == "cached_property"
        ]
        if rows:
            yield "| attribute | |\n|---|---|\n" + "\n".join(rows) + "\n"
        yield from self._fields()

    def _fields(self) -> Iterator[str]:
        hidden = _INTERNAL.get(self.subject.__name__, set()) | self._properties
        fields = getattr(self.subject, "__dataclass_fields__", {})
        names = [name for name in fields if not name.startswith("_") and name not in hidden]
        noted = _field_notes(self.subject) if names else {}
        if noted:
            rows = [
                f"| `{name}` | {_cell(noted.get(name, _default(fields[name])))} |" for name in names
            ]
            yield "| attribute | |\n|---|---|\n" + "\n".join(rows) + "\n"
        elif names:
            yield f"Attributes: {', '.join(f'`{name}`' for name in names)}.\n"

    @property
    def _properties(self) -> set[str]:
        return {name for name, found in self._members.items() if isinstance(found, property)}

    def _methods(self) -> Iterator[str]:
        functions = {
            name: member.__func__ if isinstance(member, _KINDS) else member
            for name, member in self._members.items()
            if inspect.isfunction(member) or isinstance(member, _KINDS)
        }
        twins = {
            match[1]: name
            for name, function in functions.items()
            if (match := _TWIN.match(inspect.getdoc(function) or ""))
        }
        for name, function in functions.items():
            if name in twins.values() or not inspect.getdoc(function):
                continue
            yield f"#### {self.subject.__name__}.{name}\n"
            yield _signature(name, function)
            yield prose(function)
            if name in twins:
                yield f"In async code: `await {twins[name]}(...)`.\n"


def _default(field: Field[Any]) -> str:
    return "" if field.default in (MISSING, None) else f"default: `{field.default}`"


def _cell(text: str | None) -> str:
    """A docstring in one cell of a table."""
    return " ".join(inspect.cleandoc(text or "").split()).replace("|", "\\|")


def _values(kind: type[Enum]) -> str:
    return ", ".join(f"`{member.value}`" for member in kind) + ".\n"


def _field_notes(subject: type) -> dict[str, str]:
    """What is written below, or beside, the fields of a dataclass."""
    found: dict[str, str] = {}
    for home in subject.__mro__:
        if not home.__module__.startswith("windlass"):
            continue
        source = textwrap.dedent(inspect.getsource(home))
        lines, body = source.splitlines(), ast.parse(source).body[0]
        assert isinstance(body, ast.ClassDef)
        for node, after in zip(body.body, [*body.body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            if (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found.setdefault(node.target.id, after.value.value)
            elif "  # " in (line := lines[(node.end_lineno or 1) - 1]):
                found.setdefault(node.target.id, line.partition("  # ")[2])
    return found
