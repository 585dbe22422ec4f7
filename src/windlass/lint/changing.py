"""What differs each time a handler is called: the clock, new ids, chance.

A replay calls the handler again from its beginning, so whatever is read there anew may be something
else. In a step, or by `ctx.now()`, `ctx.uuid()` and `ctx.random()`, it is recorded.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.lint.contexts import STEP_OPTIONS, Contexts, DurableCall, Face
from windlass.lint.finding import Problem
from windlass.lint.flow import conditions
from windlass.lint.tree import Tree, source_text

_CLOCK = frozenset(
    {
        "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
        "time.perf_counter_ns", "time.process_time", "time.process_time_ns",
        "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
        "datetime.date.today", "django.utils.timezone.now",
    }
)  # fmt: skip
_IDS = frozenset({"uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7"})
_CHANCE = frozenset({"os.urandom", "random.SystemRandom"})
_NOT_CHANCE = frozenset({"random.Random", "random.seed", "random.getstate", "random.setstate"})
_HERE = frozenset({"builtins.id", "os.getpid"})
_PER_ATTEMPT = frozenset({"attempt", "failures", "token", "is_last_attempt"})


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is read anew, and what to do instead."""

    text: str
    verb: str | None  # of the context, which records it

    def advice(self, call: DurableCall) -> str:
        """What to write instead, as it is written in this handler."""
        if self.verb is None:
            return "use something of the run's input"
        wait = "" if call.holder.face is Face.BLOCKING else "await "
        return f"use `{wait}{call.holder.parameter}.{self.verb}()`"


def find_change(contexts: Contexts, expression: ast.AST) -> Change | None:
    """The first thing in an expression that differs each time it is evaluated.

    A local variable that is assigned once, here or around, counts as what it is assigned.
    """
    tree, seen, stack = contexts.tree, set[str](), [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Lambda) or contexts.call(node) is not None:
            continue  # not evaluated here, or recorded
        if isinstance(node, ast.Call) and (change := _change(tree, node)) is not None:
            return change
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in seen:
            seen.add(node.id)
            value = tree.single_value(node)
            stack += [] if value is None else [value]
        stack += reversed(list(ast.iter_child_nodes(node)))
    return None


def check_names(contexts: Contexts) -> Iterator[Problem]:
    """Names and keys of durable calls."""
    for call in contexts.calls:
        for what, expression in (("name", call.name), ("key", call.key)):
            change = None if expression is None else find_change(contexts, expression)
            if change is not None:
                yield Problem(
                    "changing-name",
                    call.node,
                    f"The {what} of `{call.text}` comes from `{change.text}`, which differs in "
                    f"each replay, so the record is never found again: {_name_advice(what)}.",
                )


def check_arguments(contexts: Contexts) -> Iterator[Problem]:
    """Arguments of steps: a replay compares them with those that are recorded."""
    for call in contexts.calls:
        if call.verb != "step":
            continue
        given = [*call.node.args[2:]]
        given += [word.value for word in call.node.keywords if word.arg not in STEP_OPTIONS]
        for expression in given:
            change = find_change(contexts, expression) or _attempt(contexts, call, expression)
            if change is not None:
                yield Problem(
                    "changing-argument",
                    call.node,
                    f"An argument of `{call.text}` comes from `{change.text}`, which differs in "
                    f"each replay, and that fails the run: {change.advice(call)}, or read it "
                    "inside the step.",
                )
                break


def check_branches(contexts: Contexts) -> Iterator[Problem]:
    """Durable calls behind an `if` or `while` on the clock, an id or chance."""
    told: set[ast.AST] = set()
    for call in contexts.calls:
        for statement, _, tests in conditions(contexts.tree, call.node):
            found = (find_change(contexts, test) for test in tests)
            change = next((change for change in found if change is not None), None)
            if change is None or statement in told:
                continue
            told.add(statement)
            yield Problem(
                "changing-branch",
                tests[0],
                f"`{change.text}` decides whether `{call.text}` is called, and can decide "
                f"otherwise in a replay: {change.advice(call)}.",
            )


def _change(tree: Tree, node: ast.Call) -> Change | None:
    name = tree.dotted(node.func)
    if name is None:
        return None
    text = f"{source_text(node.func)}()"
    if name in _CLOCK:
        return Change(text, "now")
    if name in _IDS:
        return Change(text, "uuid")
    chance = name.startswith(("random.", "secrets.")) and name not in _NOT_CHANCE
    if name in _CHANCE or (chance and name.count(".") == 1 and not _is_seeded(tree, name)):
        return Change(text, "random")
    return Change(text, None) if name in _HERE else None


def _is_seeded(tree: Tree, name: str) -> bool:
    """Whether the file sets the seed of `random`: then it may be the same each time."""
    if not name.startswith("random."):
        return False
    nodes = ast.walk(tree.module)
    return any(isinstance(n, ast.Call) and tree.dotted(n.func) == "random.seed" for n in nodes)


def _attempt(contexts: Contexts, call: DurableCall, expression: ast.expr) -> Change | None:
    """The number of the attempt, unless the step is named by it: then each attempt has its own."""
    named = [part for part in (call.name, call.key) if part is not None]
    if any(_per_attempt(contexts, part) is not None for part in named):
        return None
    found = _per_attempt(contexts, expression)
    return None if found is None else Change(source_text(found), None)


def _per_attempt(contexts: Contexts, expression: ast.expr) -> ast.Attribute | None:
    for node in ast.walk(expression):
        match node:
            case ast.Attribute(value=ast.Name() as name, attr=attribute):
                if attribute in _PER_ATTEMPT and contexts.holder_of(name) is not None:
                    return node
            case _:
                continue
    return None


def _name_advice(what: str) -> str:
    if what == "name":
        return "use a fixed name, and `key=` with something of the run's input"
    return "use something of the run's input"
