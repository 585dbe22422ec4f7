"""Handlers of exceptions that keep a run from being suspended or canceled.

A failed step raises StepFailed, which is an Exception: to catch that is fine. A sync handler that
waits is unwound by Suspended, an async one by CancelledError; neither is an Exception. To catch one
of these and go on runs code that counts for nothing, each time that the run waits.
"""

import ast
from collections.abc import Collection, Iterator, Sequence

from windlass.lint.contexts import Contexts, Face
from windlass.lint.finding import Problem
from windlass.lint.tree import LOOPS, OWNERS, Owner, Tree, source_text

_EVERYTHING = "builtins.BaseException"
_CANCELED = frozenset({"asyncio.CancelledError", "asyncio.exceptions.CancelledError"})
_SUSPENDED = frozenset({"windlass.durable.acts.Suspended"})
_ENDS = frozenset({"sys.exit", "os._exit", "os.abort", "builtins.exit", "builtins.quit"})
_UNWINDS = {Face.AWAITED: _CANCELED, Face.BLOCKING: _SUSPENDED}
_NAMES = {Face.AWAITED: "CancelledError", Face.BLOCKING: "Suspended"}


def check(contexts: Contexts) -> Iterator[Problem]:
    """All of one file."""
    for function in contexts.tree.functions:
        unwound = _unwound(contexts, function)
        if not unwound:
            continue
        for node in contexts.tree.own(function):
            if isinstance(node, ast.Try):
                yield from _check_try(contexts.tree, node, unwound)
            elif isinstance(node, ast.With):
                yield from _check_suppress(contexts.tree, node, unwound)


def _unwound(contexts: Contexts, function: Owner) -> dict[ast.AST, Face]:
    """The places of a function where it is suspended or canceled."""
    tree, found = contexts.tree, dict[ast.AST, Face]()
    for call in contexts.calls_of(function):
        face = call.holder.face
        is_awaited = face is Face.AWAITED and _await_around(tree, call.node) is not None
        if face is Face.BLOCKING or is_awaited:
            found[call.node] = face
    for node in tree.own(function):
        if contexts.coroutine_called(node) and _await_around(tree, node) is not None:
            found[node] = Face.AWAITED
    return found


def _await_around(tree: Tree, node: ast.AST) -> ast.Await | None:
    """What awaits a call: itself, or a `gather` of it."""
    return next((a for a in tree.ancestors(node) if isinstance(a, ast.Await)), None)


def _face_within(
    tree: Tree, block: Sequence[ast.stmt], unwound: dict[ast.AST, Face]
) -> Face | None:
    statements = set(block)
    for node, face in unwound.items():
        if any(parent in statements for parent in tree.ancestors(node)):
            return face
    return None


def _check_try(tree: Tree, node: ast.Try, unwound: dict[ast.AST, Face]) -> Iterator[Problem]:
    face = _face_within(tree, node.body, unwound)
    if face is None:
        return
    for handler in node.handlers:
        caught = _caught(tree, handler.type)
        if not caught & ({_EVERYTHING} | _UNWINDS[face]):
            continue
        if _goes_on(tree, handler.body):
            written = "except:" if handler.type is None else f"except {source_text(handler.type)}:"
            yield Problem("swallowed", handler, _message(written, face))
        break  # it does not come to those below
    leaving = _leaves_finally(tree, node)
    if leaving is not None:
        word = type(leaving).__name__.lower()
        yield Problem("swallowed", leaving, _message(f"{word} in finally", face))


def _check_suppress(tree: Tree, node: ast.With, unwound: dict[ast.AST, Face]) -> Iterator[Problem]:
    face = _face_within(tree, node.body, unwound)
    for item in node.items if face is not None else ():
        call = item.context_expr
        if not isinstance(call, ast.Call) or tree.dotted(call.func) != "contextlib.suppress":
            continue
        caught = {tree.dotted(given) for given in call.args}
        if face is not None and caught & ({_EVERYTHING} | _UNWINDS[face]):
            yield Problem("swallowed", call, _message(source_text(call), face))


def _message(written: str, face: Face) -> str:
    return (
        f"`{written}` swallows {_NAMES[face]}, which ends the attempt when the run has to wait: "
        "catch `StepFailed` or `Exception` instead, or `raise` it again."
    )


def _caught(tree: Tree, kind: ast.expr | None) -> set[str]:
    if kind is None:
        return {_EVERYTHING}
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {name for k in kinds if (name := tree.dotted(k)) is not None}


def _goes_on(tree: Tree, body: Sequence[ast.stmt]) -> bool:
    """Whether nothing in it may raise on purpose."""
    for node in _run_by(body):
        if isinstance(node, ast.Raise):
            return False
        if isinstance(node, ast.Call) and tree.dotted(node.func) in _ENDS:
            return False
    return True


def _run_by(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, OWNERS):
            stack += ast.iter_child_nodes(node)


def _leaves_finally(tree: Tree, node: ast.Try) -> ast.stmt | None:
    """A statement in `finally` that drops the exception on its way."""
    inner: Collection[ast.AST] = list(_run_by(node.finalbody))
    for found in inner:
        if isinstance(found, ast.Return):
            return found
        if isinstance(found, ast.Break | ast.Continue):
            around = [a for a in tree.ancestors(found) if a in inner]
            if not any(isinstance(a, LOOPS) for a in around):
                return found
    return None
