"""Durable calls of async handlers that nobody awaits: they do nothing, or are taken for a value."""

import ast
from collections.abc import Iterator

from windlass.lint.contexts import Contexts, DurableCall, Face
from windlass.lint.finding import Problem
from windlass.lint.tree import Function, Tree, source_text

_SEES_ALL = frozenset({"builtins.locals", "builtins.vars", "builtins.eval", "builtins.exec"})


def check(contexts: Contexts) -> Iterator[Problem]:
    """All of one file."""
    for call in contexts.calls:
        if call.holder.face is Face.AWAITED:
            yield from _check_call(contexts, call)
    for function in contexts.tree.functions:
        for node in contexts.tree.own(function):
            called = contexts.coroutine_called(node)
            if called is not None and isinstance(node, ast.Call) and _is_dropped(contexts, node):
                text = f"{source_text(node.func)}({'…' if node.args or node.keywords else ''})"
                yield _problem(node, text, "so none of its steps is done")


def _check_call(contexts: Contexts, call: DurableCall) -> Iterator[Problem]:
    if _is_dropped(contexts, call.node):
        yield _problem(call.node, call.text, "so it does nothing")
    elif _is_value(contexts.tree, call.node):
        yield _problem(call.node, call.text, "so this is a coroutine and not its value")
    elif _is_result(contexts, call):
        yield _problem(call.node, call.text, "so the result of the run would be a coroutine")


def _problem(node: ast.Call, text: str, consequence: str) -> Problem:
    message = f"`{text}` is never awaited, {consequence}: write `await {text}`."
    return Problem("unawaited", node, message)


def _is_dropped(contexts: Contexts, node: ast.Call) -> bool:
    """Whether nobody ever sees the coroutine: as a statement, or in a name that is not used."""
    tree, value = contexts.tree, _collected(contexts.tree, node)
    match tree.parent(value):
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return _is_unused(tree, node, name)
        case _:
            return False


def _collected(tree: Tree, node: ast.Call) -> ast.AST:
    """The list, tuple or comprehension that a call is an element of, else the call."""
    match tree.parent(node):
        case ast.List() | ast.Tuple() | ast.Set() as found:
            return found
        case ast.ListComp(elt=element) | ast.SetComp(elt=element) as found if element is node:
            return found
        case _:
            return node


def _is_unused(tree: Tree, node: ast.AST, name: str) -> bool:
    """Whether a local name is read nowhere in its function, nor in those inside it."""
    function = tree.owner(node)
    if not isinstance(function, Function):
        return False
    if any(isinstance(b, ast.Global | ast.Nonlocal) for b in tree.bindings(function)[name]):
        return False
    for other in ast.walk(function):
        match other:
            case ast.Name(id=read, ctx=ast.Load() | ast.Del()) if read == name:
                return False
            case ast.Call(func=called) if tree.dotted(called) in _SEES_ALL:
                return False
            case ast.Nonlocal(names=names) if name in names:
                return False
    return True


def _is_value(tree: Tree, node: ast.Call) -> bool:
    """Whether something is done with the coroutine that only its value is good for."""
    match tree.parent(node):
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
        case ast.Assert(test=test):
            return test is node
        case ast.UnaryOp() | ast.BinOp() | ast.FormattedValue():
            return True
        case ast.Subscript(value=value):
            return value is node
        case ast.Compare(ops=operators):
            return not any(isinstance(op, ast.Is | ast.IsNot) for op in operators)
        case _:
            return False


def _is_result(contexts: Contexts, call: DurableCall) -> bool:
    """Whether a handler returns the coroutine; a helper's caller may await it."""
    function = call.holder.function
    own = call.holder.is_handler and call.owner is function
    if not own or not isinstance(contexts.tree.parent(call.node), ast.Return):
        return False
    # What another decorator makes of the result is not known.
    return len(function.decorator_list) <= 1
