"""Generate the two faces of every verb from its one flow.

A verb is written once, as a method that returns a `Flow`. For each, this makes a blocking method of
the same name and an async one with an `a` before it, in a class that applications inherit from:

    make_faces.py           write the files
    make_faces.py --check   fail where a file is not what it should be
"""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src" / "windlass"
# Names that Python does not allow, or that say more.
TWINS = {"wait": "await_end", "wait_all": "await_all", "sync": "announce"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """One class of verbs, and the class to be made of it."""

    source: str
    verbs: str
    target: str
    name: str
    base: str = ""  # module:class of the faces that it adds to
    parameter: str = ""  # module:name of the type variable that both classes have


ALL = (
    Faces(
        source="client/approvals.py",
        verbs="ApprovalVerbs",
        target="client/approval_faces.py",
        name="ApprovalFaces",
    ),
    Faces(
        source="client/artifacts.py",
        verbs="ArtifactVerbs",
        target="client/artifact_faces.py",
        name="ArtifactFaces",
    ),
    Faces(
        source="client/history.py",
        verbs="HistoryVerbs",
        target="client/history_faces.py",
        name="HistoryFaces",
        base="windlass.client.approval_faces:ApprovalFaces",
    ),
    Faces(
        source="client/batches.py",
        verbs="BatchVerbs",
        target="client/batch_faces.py",
        name="BatchFaces",
        base="windlass.client.history_faces:HistoryFaces",
    ),
    Faces(
        source="client/verbs.py",
        verbs="RunVerbs",
        target="client/run_faces.py",
        name="RunFaces",
        base="windlass.client.batch_faces:BatchFaces",
    ),
    Faces(
        source="client/run_past.py",
        verbs="PastVerbs",
        target="client/past_faces.py",
        name="PastFaces",
    ),
    Faces(
        source="client/run.py",
        verbs="HandleVerbs",
        target="client/handle_faces.py",
        name="HandleFaces",
        base="windlass.client.past_faces:PastFaces",
        parameter="windlass.client.typed:R_co",
    ),
    Faces(
        source="client/selection.py",
        verbs="SelectionVerbs",
        target="client/selection_faces.py",
        name="SelectionFaces",
    ),
    Faces(
        source="client/pauses.py",
        verbs="PauseVerbs",
        target="client/pause_faces.py",
        name="PauseFaces",
        base="windlass.client.run_faces:RunFaces",
    ),
    Faces(
        source="verbs.py",
        verbs="AppVerbs",
        target="faces.py",
        name="AppFaces",
        base="windlass.client.pause_faces:PauseFaces",
    ),
    Faces(
        source="schedules/verbs.py",
        verbs="ScheduleVerbs",
        target="schedules/faces.py",
        name="ScheduleFaces",
    ),
    Faces(source="files/verbs.py", verbs="JobVerbs", target="files/faces.py", name="JobFaces"),
)


def main(arguments: list[str]) -> int:
    """Write or check all files."""
    stale = []
    for faces in ALL:
        made, target = _formatted(_module(faces)), SOURCES / faces.target
        if target.exists() and target.read_text() == made:
            continue
        if "--check" in arguments:
            stale.append(faces.target)
        else:
            target.write_text(made)
    if stale:
        print(f"Not as generated: {', '.join(stale)}. Run `make faces`.", file=sys.stderr)
    return 1 if stale else 0


def _module(faces: Faces) -> str:
    tree = ast.parse((SOURCES / faces.source).read_text())
    (verbs,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == faces.verbs)
    module = "windlass." + faces.source.removesuffix(".py").replace("/", ".")
    base_module, _, base = faces.base.partition(":")
    type_module, _, parameter = faces.parameter.partition(":")
    of = f"[{parameter}]" if parameter else ""
    bases = [*([base] if base else []), *([f"Generic{of}"] if parameter else [])]
    flows = [n for n in verbs.body if isinstance(n, ast.FunctionDef) and _is_flow(n)]
    lines = [
        f'"""The two faces of {faces.verbs}: generated from {faces.source} by `make faces`."""',
        "from __future__ import annotations",
        "from abc import abstractmethod",
        "from typing import TYPE_CHECKING, Generic, overload",
        *([f"from {base_module} import {base}"] if base else []),
        *([f"from {type_module} import {parameter}"] if parameter else []),
        "if TYPE_CHECKING:",
        f"    from {module} import {faces.verbs}",
        *(f"    {ast.unparse(node)}" for node in _imports(tree, {faces.name, parameter})),
        *(f"    from {module} import {name}" for name in _own_names(tree, faces.verbs)),
        f"class {faces.name}({', '.join(bases)}):",
        f'    """Every verb of {faces.verbs}, blocking and, with an `a` before it, async."""',
        "    __slots__ = ()",
        "    @property",
        "    @abstractmethod",
        f"    def _verbs(self) -> {faces.verbs}{of}:",
        '        """The flows."""',
        "        ...",
        *(line for overloads, flow in _grouped(flows) for line in _twins(overloads, flow)),
    ]
    return "\n".join(lines) + "\n"


def _imports(tree: ast.Module, known: set[str]) -> list[ast.stmt]:
    """All imports of the source, for type checkers too; the linter removes what is not used."""
    known = known | {"TYPE_CHECKING", "Generic", "overload"}
    found: list[ast.stmt] = []
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.If) else [node]:
            if isinstance(inner, ast.ImportFrom):
                inner.names = [n for n in inner.names if n.name not in known]
            if isinstance(inner, (ast.Import, ast.ImportFrom)) and inner.names:
                found.append(inner)
    return found


def _own_names(tree: ast.Module, verbs: str) -> list[str]:
    """The classes that the source itself defines: its flows may return them."""
    return [n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name != verbs]


def _is_flow(node: ast.FunctionDef) -> bool:
    return not node.name.startswith("_") and _answer(node) is not None


def _answer(node: ast.FunctionDef) -> str | None:
    """What a flow's end gives: the T of `Flow[T]`."""
    returns = node.returns
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "Flow":
        return ast.unparse(returns.slice)
    return None


Grouped = list[tuple[list[ast.FunctionDef], ast.FunctionDef]]


def _grouped(flows: list[ast.FunctionDef]) -> Grouped:
    """Each flow with its overloads, which come before it."""
    found: Grouped = []
    overloads: list[ast.FunctionDef] = []
    for flow in flows:
        if "overload" in map(ast.unparse, flow.decorator_list):
            overloads.append(flow)
        else:
            found.append((overloads, flow))
            overloads = []
    return found


def _twins(overloads: list[ast.FunctionDef], flow: ast.FunctionDef) -> list[str]:
    name, twin = flow.name, TWINS.get(flow.name, f"a{flow.name}")
    arguments, answer = ast.unparse(flow.args), _answer(flow)
    call = f"verbs.{name}({_passed(flow.args)})"
    doc = ast.get_docstring(flow, clean=False)
    return [
        *_overloads("def", name, overloads),
        f"    def {name}({arguments}) -> {answer}:",
        f'        """{doc}"""',
        "        verbs = self._verbs",
        f"        return verbs.perform({call})",
        *_overloads("async def", twin, overloads),
        f"    async def {twin}({arguments}) -> {answer}:",
        f'        """As `{name}`, in async code."""',
        "        verbs = self._verbs",
        f"        return await verbs.aperform({call})",
    ]


def _overloads(how: str, name: str, overloads: list[ast.FunctionDef]) -> list[str]:
    return [
        f"    @overload\n    {how} {name}({ast.unparse(node.args)}) -> {_answer(node)}: ..."
        for node in overloads
    ]


def _passed(arguments: ast.arguments) -> str:
    """The arguments of a method, handed on."""
    passed = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


def _formatted(text: str) -> str:
    """As the project's own linter and formatter leave it."""
    ruff = Path(sys.executable).parent / "ruff"
    for how in (["check", "--fix-only"], ["format"]):
        command = [str(ruff), *how, "--quiet", "--stdin-filename", str(SOURCES / "faces.py"), "-"]
        done = subprocess.run(command, input=text, check=True, capture_output=True, text=True)
        text = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
