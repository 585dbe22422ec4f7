"""Finds functions of a file that are started to run at once: as tasks, or in threads."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.lint.contexts import Contexts
from windlass.lint.tree import COMPREHENSIONS, LOOPS, Function, Owner

_GATHER = frozenset({"asyncio.gather", "asyncio.wait", "asyncio.as_completed"})
_TASK = frozenset({"asyncio.create_task", "asyncio.ensure_future"})
_POOL = frozenset(
    {"concurrent.futures.ThreadPoolExecutor", "concurrent.futures.thread.ThreadPoolExecutor"}
)


@dataclass(frozen=True, slots=True)
class Start:
    """A function that is started beside others."""

    function: Function
    many: bool = False  # several times, in a loop
    in_threads: bool = False


def groups_of_starts(contexts: Contexts) -> Iterator[Sequence[Start]]:
    """Each group of functions with durable calls that run at once, in the order of their start."""
    for function in contexts.tree.functions:
        for node in contexts.tree.own(function):
            found: Sequence[Start] = ()
            match node:
                case ast.Call():
                    found = [*_gathered(contexts, node), *_task_in_loop(contexts, node)]
                case ast.AsyncWith():
                    found = _task_group(contexts, node)
                case ast.With():
                    found = _pool(contexts, node)
                case _:
                    continue
            if found:
                yield found


def _gathered(contexts: Contexts, node: ast.Call) -> Iterator[Start]:
    """Of `asyncio.gather(…)` and its like, and of `ctx.first(…)`."""
    durable = contexts.call(node)
    is_first = durable is not None and durable.verb == "first"
    if not is_first and contexts.tree.dotted(node.func) not in _GATHER:
        return
    for argument in [*node.args, *(word.value for word in node.keywords)]:
        yield from _started(contexts, argument, many=False)


def _started(contexts: Contexts, given: ast.expr, *, many: bool) -> Iterator[Start]:
    if isinstance(given, ast.Starred):
        given = given.value
    if isinstance(given, ast.Name):
        given = contexts.tree.single_value(given) or given
    match given:
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            if isinstance(element, ast.Call):
                yield from _started(contexts, element, many=True)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                if isinstance(element, ast.Call):
                    yield from _started(contexts, element, many=many)
        case ast.Call(args=[ast.Call() as coroutine, *_]) if _makes_task(contexts, given):
            yield from _started(contexts, coroutine, many=many)
        case ast.Call():
            function = contexts.coroutine_called(given)
            if function is not None:
                yield Start(function, many)
        case _:
            return


def _makes_task(contexts: Contexts, node: ast.Call) -> bool:
    return contexts.tree.dotted(node.func) in _TASK


def _task_in_loop(contexts: Contexts, node: ast.Call) -> Iterator[Start]:
    """Of `asyncio.create_task(…)` in a loop that awaits nothing: the tasks run at once."""
    if not node.args or not _makes_task(contexts, node):
        return
    around = list(contexts.tree.ancestors(node))
    loop = next((a for a in around if isinstance(a, (*LOOPS, *COMPREHENSIONS))), None)
    awaits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    if loop is not None and not any(isinstance(n, awaits) for n in ast.walk(loop)):
        yield from _started(contexts, node.args[0], many=True)


def _task_group(contexts: Contexts, node: ast.AsyncWith) -> Sequence[Start]:
    """Of `group.create_task(…)` in the block of an `asyncio.TaskGroup`."""
    groups = _names(
        contexts, node, frozenset({"asyncio.TaskGroup", "asyncio.taskgroups.TaskGroup"})
    )
    found: list[Start] = []
    for call, many in _calls_on(contexts, node, groups, "create_task"):
        if call.args:
            found += _started(contexts, call.args[0], many=many)
    return found


def _pool(contexts: Contexts, node: ast.With) -> Sequence[Start]:
    """Of `pool.submit(…)` and `pool.map(…)` in the block of a thread pool."""
    pools = _names(contexts, node, _POOL)
    found: list[Start] = []
    for method in ("submit", "map"):
        for call, many in _calls_on(contexts, node, pools, method):
            function = contexts.tree.function_named(call.args[0]) if call.args else None
            if function is not None and contexts.calls_of(function):
                found.append(Start(function, many or method == "map", in_threads=True))
    return found


def _names(contexts: Contexts, node: ast.With | ast.AsyncWith, kinds: frozenset[str]) -> set[str]:
    names: set[str] = set()
    for item in node.items:
        match item:
            case ast.withitem(context_expr=ast.Call(func=made), optional_vars=ast.Name(id=name)):
                if contexts.tree.dotted(made) in kinds:
                    names.add(name)
            case _:
                continue
    return names


def _calls_on(
    contexts: Contexts, block: ast.With | ast.AsyncWith, names: set[str], method: str
) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of a method of these names in a block, and whether a loop repeats each."""
    tree = contexts.tree
    owner: Owner = tree.owner(block)
    for node in tree.own(owner) if names else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                around = list(tree.ancestors(node))
                if name in names and attribute == method and block in around:
                    inner = around[: around.index(block)]
                    yield node, any(isinstance(a, (*LOOPS, *COMPREHENSIONS)) for a in inner)
            case _:
                continue
