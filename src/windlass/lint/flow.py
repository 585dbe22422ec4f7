"""In which order, and under which conditions, the parts of one function run."""

import ast
from collections.abc import Collection, Iterator, Sequence

from windlass.lint.tree import LOOPS, Tree

Test = ast.expr
_Branching = ast.If | ast.IfExp | ast.While | ast.Match


def inside(tree: Tree, outer: ast.AST, nodes: Collection[ast.AST]) -> bool:
    """Whether one of the nodes is within another one, or is it."""
    return any(node is outer or outer in tree.ancestors(node) for node in nodes)


def can_follow(tree: Tree, node: ast.AST, later: Collection[ast.AST]) -> bool:
    """Whether one of the later nodes can run after a node, in the same call of the function.

    `later` are nodes of the same function. False where that is not certain.
    """
    child, left = node, None  # `left`: by which statement this part of the loop is left
    for parent in [*tree.ancestors(node), tree.owner(node)]:
        if parent in later:
            return True  # it is an argument of one
        block = _block(parent, child)
        if left is None and block is None and _after_header(tree, parent, child, later):
            return True
        if left is None and block is not None:
            for statement in block[block.index(child) :]:  # type: ignore[arg-type]
                if statement is not child and inside(tree, statement, later):
                    return True
                if isinstance(statement, ast.Return | ast.Raise):
                    return False
                if isinstance(statement, ast.Break | ast.Continue):
                    left = statement
                    break
            if left is None and _any_inside(tree, _after_try(parent, block), later):
                return True
        if isinstance(parent, LOOPS) and block is parent.body:
            again = [] if isinstance(left, ast.Break) else [*parent.body, *parent.orelse]
            if _any_inside(tree, again, later):
                return True  # in the next round
            left = None
        child = parent
    return False


def conditions(tree: Tree, node: ast.AST) -> Iterator[tuple[_Branching, object, Sequence[Test]]]:
    """What decides whether a node runs: each statement, its arm that the node is in, and its tests.

    A test itself always runs, so a node in it is not behind it.
    """
    child = node
    for parent in tree.ancestors(node):
        match parent:
            case ast.If(test=test) | ast.While(test=test) if child is not test:
                yield parent, child in parent.body, [test]
            case ast.IfExp(test=test) if child is not test:
                yield parent, child is parent.body, [test]
            case ast.Match(subject=subject, cases=cases) if child is not subject:
                guards = [case.guard for case in cases if case.guard is not None]
                yield parent, child, [subject, *guards]
        child = parent


def exclusive(tree: Tree, one: ast.AST, other: ast.AST) -> tuple[_Branching, Sequence[Test]] | None:
    """The statement in whose different arms two nodes are, and its tests."""
    arms = {statement: arm for statement, arm, _ in conditions(tree, one)}
    for statement, arm, tests in conditions(tree, other):
        if statement in arms:
            different = arms[statement] is not arm and not isinstance(statement, ast.While)
            return (statement, tests) if different else None
    return None


def _block(parent: ast.AST, child: ast.AST) -> list[ast.stmt] | None:
    """The list of statements that a child of a statement is in."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and child in block:
            return block
    return None


def _after_try(parent: ast.AST, block: list[ast.stmt]) -> Sequence[ast.stmt]:
    """What runs after the body of a `try` that raised nothing."""
    if not isinstance(parent, ast.Try) or block is not parent.body:
        return ()
    return [*parent.orelse, *parent.finalbody]


def _after_header(tree: Tree, parent: ast.AST, child: ast.AST, later: Collection[ast.AST]) -> bool:
    """Whether a statement goes on from its test, its items or a handler to one of the nodes."""
    blocks: list[object] = []
    if isinstance(child, ast.expr | ast.withitem) and isinstance(parent, ast.stmt):
        blocks = [getattr(parent, name, None) for name in ("body", "orelse", "cases")]
    elif isinstance(child, ast.ExceptHandler) and isinstance(parent, ast.Try):
        blocks = [parent.finalbody]
    return any(_any_inside(tree, block, later) for block in blocks if isinstance(block, list))


def _any_inside(tree: Tree, block: Sequence[ast.AST], later: Collection[ast.AST]) -> bool:
    return any(inside(tree, statement, later) for statement in block)
