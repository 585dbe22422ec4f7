"""Side effects of a handler outside its steps.

A run that waits, or whose attempt fails, is replayed from the beginning of its handler: an effect
before a durable call happens again. An effect that no durable call can follow is left alone: it is
done as often as any handler's, at least once.
"""

import ast
from collections.abc import Iterator, Sequence

from windlass.lint.contexts import Contexts
from windlass.lint.finding import Problem
from windlass.lint.flow import can_follow, conditions
from windlass.lint.tree import Function, Tree, source_text

_HTTP = ("get", "post", "put", "patch", "delete", "head", "options", "request")
_EFFECTS = frozenset(
    {
        *(f"{library}.{verb}" for library in ("requests", "httpx") for verb in _HTTP),
        "httpx.stream", "urllib.request.urlopen", "urllib.request.urlretrieve",
        "smtplib.SMTP", "smtplib.SMTP_SSL",
        "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
        "subprocess.Popen", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
        "os.system", "os.remove", "os.unlink", "os.rename", "os.replace", "os.rmdir",
        "os.removedirs", "os.truncate", "os.kill",
        "shutil.rmtree", "shutil.move", "shutil.copy", "shutil.copy2", "shutil.copyfile",
        "shutil.copytree",
    }
)  # fmt: skip
_OPEN = frozenset({"builtins.open", "io.open", "codecs.open"})
_PATH = frozenset({"pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath"})
_PATH_EFFECTS = frozenset({"write_text", "write_bytes", "unlink", "rename", "replace", "rmdir"})
_ENQUEUE = frozenset({"enqueue", "aenqueue"})


def check(contexts: Contexts) -> Iterator[Problem]:
    """All of one file."""
    for function in _outside_steps(contexts):
        calls = [call.node for call in contexts.calls_of(function)]
        for node in contexts.tree.own(function) if calls else ():
            if not isinstance(node, ast.Call) or contexts.call(node) is not None:
                continue
            problem = _effect(contexts.tree, node) or _enqueue(contexts, function, node)
            repeated = problem is not None and can_follow(contexts.tree, node, calls)
            if problem is not None and repeated and not _is_guarded(contexts, node):
                yield problem


def _outside_steps(contexts: Contexts) -> Sequence[Function]:
    """Handlers, and helpers that one of these calls itself and that nobody passes on.

    Another helper may be the body of a step, where effects belong.
    """
    tree = contexts.tree
    found = [h.function for h in contexts.holders.values() if h.is_handler]
    if all(h.is_handler for h in contexts.holders.values()):
        return found
    passed = _passed_on(tree)
    for function in found:  # it grows: helpers call helpers
        for node in tree.own(function):
            called = tree.function_named(node.func) if isinstance(node, ast.Call) else None
            if called is None or called not in contexts.holders or called in found:
                continue
            if called not in passed and _is_given(contexts, node):
                found.append(called)
    return found


def _is_given(contexts: Contexts, node: ast.AST) -> bool:
    """Whether a call is given the context."""
    if not isinstance(node, ast.Call):
        return False
    given = [*node.args, *(word.value for word in node.keywords)]
    return any(contexts.holder_of(argument) is not None for argument in given)


def _passed_on(tree: Tree) -> set[Function]:
    """Functions that are mentioned other than to call them."""
    found: set[Function] = set()
    for node in ast.walk(tree.module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            parent, function = tree.parent(node), tree.function_named(node)
            is_called = isinstance(parent, ast.Call) and parent.func is node
            found |= set() if is_called or function is None else {function}
    return found


def _effect(tree: Tree, node: ast.Call) -> Problem | None:
    name = tree.dotted(node.func)
    known = name in _EFFECTS or (name in _OPEN and _writes(node)) or _is_path_effect(tree, node)
    if not known:
        return None
    return Problem(
        "effect",
        node,
        f"`{source_text(node.func)}(…)` is outside a step, so it happens again in each replay: "
        "move it into a function, and call that by `ctx.step`.",
    )


def _writes(node: ast.Call) -> bool:
    """Whether a file is opened to be written."""
    modes = [word.value for word in node.keywords if word.arg == "mode"] or node.args[1:2]
    match modes:
        case [ast.Constant(value=str(mode))]:
            return any(letter in mode for letter in "wax+")
        case _:
            return False


def _is_path_effect(tree: Tree, node: ast.Call) -> bool:
    match node.func:
        case ast.Attribute(value=path, attr=attribute) if attribute in _PATH_EFFECTS:
            while isinstance(path, ast.BinOp):  # Path("a") / "b"
                path = path.left
            return isinstance(path, ast.Call) and tree.dotted(path.func) in _PATH
        case _:
            return False


def _enqueue(contexts: Contexts, function: Function, node: ast.Call) -> Problem | None:
    """An enqueue of a job of this file, without `using(key=…)`."""
    match node.func:
        case ast.Attribute(value=job, attr=verb) if verb in _ENQUEUE:
            name, options = _job_of(contexts.tree, job)
        case _:
            return None
    if name is None or any(word.arg in ("key", "connection", None) for word in options):
        return None
    parameter = contexts.holders[function].parameter
    return Problem(
        "enqueue",
        node,
        f"`{name}.{verb}(…)` has no key, so each replay enqueues another run: write "
        f'`{name}.using(key=f"{{{parameter}.run_id}}:{name}").{verb}(…)`.',
    )


def _job_of(tree: Tree, node: ast.expr) -> tuple[str | None, Sequence[ast.keyword]]:
    """The name of a job, if it is certain that it is one, and the options given to its run."""
    options: Sequence[ast.keyword] = ()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr != "using":
            return None, ()
        options, node = node.keywords, node.func.value
    function = tree.function_named(node)
    match [] if function is None else function.decorator_list:
        case [ast.Attribute(attr="job") | ast.Call(func=ast.Attribute(attr="job"))]:
            return (None if function is None else function.name), options
        case _:
            return None, ()


def _is_guarded(contexts: Contexts, node: ast.AST) -> bool:
    """Whether an `if` asks the context, say for its attempt: then it may happen only once."""
    return any(
        contexts.holder_of(part.value) is not None
        for _, _, tests in conditions(contexts.tree, node)
        for test in tests
        for part in ast.walk(test)
        if isinstance(part, ast.Attribute) and contexts.call(contexts.tree.parent(part)) is None
    )
