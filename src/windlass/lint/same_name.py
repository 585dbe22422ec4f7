"""Calls that share a name and have no key, where a replay can give them each other's turn.

Calls of one name are numbered by their turn. One after another, or in a loop, the turns are the
same each time. They are not, if

- what decides between two branches is not recorded, and the calls in them share a name; or
- tasks or threads that run at once make such calls after they have waited for something: who comes
  first then depends on who was faster. Before its first `await` a task is safe: tasks begin in the
  order in which they were made.
"""

import ast
from collections.abc import Iterator, Sequence

from windlass.lint.changing import find_change
from windlass.lint.contexts import Contexts, DurableCall
from windlass.lint.finding import Problem
from windlass.lint.flow import Test, can_follow, conditions, exclusive
from windlass.lint.starts import Start, groups_of_starts
from windlass.lint.tree import LOOPS, Function, source_text

_CHANGING_ATTRIBUTES = frozenset(
    {"attempt", "failures", "token", "is_last_attempt", "canceled", "stopping"}
)


def check_branches(contexts: Contexts) -> Iterator[Problem]:
    """Calls of one function, in branches that a replay may take otherwise."""
    for function in contexts.tree.functions:
        calls = [call for call in contexts.calls_of(function) if call.turn_name is not None]
        for number, later in enumerate(calls):
            before = [call for call in calls[:number] if call.turn_name == later.turn_name]
            clash = next((c for c in before if _can_swap(contexts, c, later)), None)
            if clash is not None:
                yield Problem(
                    "same-name",
                    later.node,
                    f"`{later.text}` and the call in line {clash.node.lineno} share a name, and "
                    "nothing records which of their branches is taken, so a replay can mix them "
                    f"up: {_advice(later)}.",
                )


def check_tasks(contexts: Contexts) -> Iterator[Problem]:
    """Calls of tasks and threads that run at once."""
    told: set[DurableCall] = set()
    for starts in groups_of_starts(contexts):
        for call in _racing(contexts, starts):
            if call not in told:
                told.add(call)
                yield Problem(
                    "same-name",
                    call.node,
                    f"`{call.text}` is called by several at once, so its turn depends on who is "
                    f"faster, and a replay can mix them up: {_advice(call)}.",
                )


def _advice(call: DurableCall) -> str:
    if call.verb in ("step", "wait_for", "approval"):
        return "give each a name or a `key=` of its own"
    if call.verb == "sleep":
        return "give each a name of its own"
    return "call it before, or inside a step that has a name or a `key=` of its own"


def _can_swap(contexts: Contexts, first: DurableCall, later: DurableCall) -> bool:
    apart = exclusive(contexts.tree, first.node, later.node)
    if apart is not None:
        _, tests = apart
        # The same call in both: whichever is recorded is right for both.
        return not _is_same(first, later) and _is_unrecorded(contexts, tests)
    if not can_follow(contexts.tree, first.node, [later.node]):
        return False
    around = {statement for statement, _, _ in conditions(contexts.tree, later.node)}
    return any(
        statement not in around and _is_unrecorded(contexts, tests)
        for statement, _, tests in conditions(contexts.tree, first.node)
    )


def _is_same(one: DurableCall, other: DurableCall) -> bool:
    """Whether they call the same function; if its arguments differ, the replay notices that."""
    first, second = ([source_text(part) for part in c.node.args[1:2]] for c in (one, other))
    return one.verb == other.verb and (one.verb != "step" or first == second)


def _is_unrecorded(contexts: Contexts, tests: Sequence[Test]) -> bool:
    """Whether tests certainly look at something that no replay is told again."""
    return any(
        find_change(contexts, test) is not None or _looks_outside(contexts, test) for test in tests
    )


def _looks_outside(contexts: Contexts, test: ast.AST) -> bool:
    """Whether it awaits something that is not durable, or asks the context about the attempt."""
    stack, seen = [test], set[str]()
    while stack:
        node = stack.pop()
        match node:
            case ast.Lambda():
                continue
            case ast.Await(value=value):
                # Whatever is given the context may be made of steps.
                return not any(
                    contexts.holder_of(n) is not None or contexts.coroutine_called(n) is not None
                    for n in ast.walk(value)
                )
            case ast.Attribute(value=ast.Name() as name, attr=attribute):
                if attribute in _CHANGING_ATTRIBUTES and contexts.holder_of(name) is not None:
                    return True
            case ast.Name(id=name, ctx=ast.Load()) if name not in seen:
                seen.add(name)
                assigned = contexts.tree.single_value(node)
                stack += [] if assigned is None else [assigned]
            case _:
                pass
        stack += ast.iter_child_nodes(node)
    return False


def _racing(contexts: Contexts, starts: Sequence[Start]) -> Iterator[DurableCall]:
    """The calls whose turn is a matter of speed, among those that are started together."""
    bodies = [(start, _numbered(contexts, start.function)) for start in starts]
    for number, (start, calls) in enumerate(bodies):
        others = {c.turn_name for _, found in bodies[number + 1 :] for c in found}
        for call in calls:
            shared = start.many or call.turn_name in others
            if shared and (start.in_threads or _is_after_await(contexts, call, start.function)):
                yield call


def _numbered(contexts: Contexts, function: Function) -> Sequence[DurableCall]:
    return [call for call in contexts.calls_of(function) if call.turn_name is not None]


def _is_after_await(contexts: Contexts, call: DurableCall, function: Function) -> bool:
    """Whether a task has certainly waited for something when it comes to this call."""
    tree = contexts.tree
    own = next((a for a in tree.ancestors(call.node) if isinstance(a, ast.Await)), None)
    if own is not None and any(isinstance(a, LOOPS) for a in tree.ancestors(own)):
        return True  # in its second round
    waits = [
        n for n in tree.own(function) if isinstance(n, ast.Await | ast.AsyncWith) and n is not own
    ]
    return any(can_follow(tree, wait, [call.node]) for wait in waits)
