"""Finds the functions that have a context, and the durable calls that they make on it.

A handler is a function decorated by `.job` or `.on_failure` whose first parameter is the context,
or the `run` of a job file. A helper is any other function that is given the context. A function
that gives the name of its context another value is left alone: what it calls is not certain.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from windlass.lint.tree import Function, Owner, Tree, arguments

VERBS = frozenset(
    {
        "step",
        "sleep",
        "wait_for",
        "approval",
        "first",
        "now",
        "uuid",
        "random",
        "version",
        "run",
        "start",
        "map",
    }
)
STEP_OPTIONS = frozenset({"retry", "max_attempts", "timeout", "fatal", "key"})
_OWN_NAMES = frozenset({"first", "now", "uuid", "random"})  # they take none: the verb is the name
_DECORATORS = frozenset({"job", "on_failure"})
_CONTEXTS = frozenset({"Context", "SyncContext"})


class Face(Enum):
    """How the calls of a context are made."""

    AWAITED = "awaited"
    BLOCKING = "blocking"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A function that has a context."""

    function: Function
    parameter: str
    face: Face
    is_handler: bool


@dataclass(frozen=True, slots=True, eq=False)
class DurableCall:
    """A call of a context that a run remembers."""

    node: ast.Call
    verb: str
    holder: Holder
    owner: Owner  # the function that makes it: the holder's, or one inside it

    @property
    def name(self) -> ast.expr | None:
        """Where its name is written; None if it has none of its own."""
        args = self.node.args
        if self.verb == "approval":  # what is given first is the question
            return next((word.value for word in self.node.keywords if word.arg == "name"), None)
        if not args or self.verb in _OWN_NAMES:
            return None
        if self.verb == "sleep" and len(args) == 1 and not self.node.keywords:
            return None  # one value alone is the length
        return args[0]

    @property
    def key(self) -> ast.expr | None:
        """Where its key is written."""
        return next((word.value for word in self.node.keywords if word.arg == "key"), None)

    @property
    def turn_name(self) -> str | None:
        """The name among whose calls it takes its turn; None: it takes none, or that is unknown."""
        if self.verb == "version" or any(word.arg in ("key", None) for word in self.node.keywords):
            return None
        match self.name:
            case None if self.verb in _OWN_NAMES or self.verb in ("sleep", "approval"):
                return self.verb
            case ast.Constant(value=str(name)):
                return name
            case _:
                return None

    @property
    def text(self) -> str:
        """How a message shows it."""
        name = self.name
        is_literal = isinstance(name, ast.Constant) and isinstance(name.value, str)
        shown = "" if name is None or not is_literal else f'"{ast.literal_eval(name)}"'
        if self.verb == "approval":
            shown = ""
        if self.verb not in ("now", "uuid", "random") and self.node.args[bool(shown) :]:
            shown += ", …" if shown else "…"
        return f"{self.holder.parameter}.{self.verb}({shown})"


class Contexts:
    """The contexts of one file."""

    def __init__(self, tree: Tree, *, is_job_file: bool) -> None:
        self.tree = tree
        self._ours = is_job_file or tree.imports("windlass")
        found = {f: self._handler(f) for f in tree.functions}
        # A bare `ctx` means ours where the file has to do with us.
        self._ours = self._ours or any(found.values())
        holders = [holder or self._helper(f) for f, holder in found.items()]
        self.holders = {h.function: h for h in holders if h is not None and self._keeps(h)}
        self.calls = tuple(self._calls()) if self.holders else ()
        self._by_node: dict[ast.AST, DurableCall] = {call.node: call for call in self.calls}

    def call(self, node: ast.AST) -> DurableCall | None:
        """The durable call that a node is, if it is one."""
        return self._by_node.get(node)

    def calls_of(self, owner: Owner) -> Sequence[DurableCall]:
        """The durable calls that a function makes itself."""
        return [call for call in self.calls if call.owner is owner]

    def holder_of(self, name: ast.AST) -> Holder | None:
        """The function whose context a name is."""
        if not isinstance(name, ast.Name):
            return None
        scope = self.tree.scope_of(name)
        holder = self.holders.get(scope) if isinstance(scope, Function) else None
        return holder if holder is not None and holder.parameter == name.id else None

    def coroutine_called(self, node: ast.AST) -> Function | None:
        """The coroutine function with durable calls that a node calls, if it is of this file."""
        if not isinstance(node, ast.Call):
            return None
        function = self.tree.function_named(node.func)
        if not isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
            return None
        own = self.tree.own(function)
        if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own):
            return None
        return function if self.calls_of(function) else None

    def _calls(self) -> Sequence[DurableCall]:
        found: list[DurableCall] = []
        for function in self.tree.functions:
            found += self._calls_in(function)
        return sorted(found, key=lambda call: (call.node.lineno, call.node.col_offset))

    def _calls_in(self, function: Function) -> Sequence[DurableCall]:
        found, owners = [], [function, *self._lambdas(function)]
        for owner in owners:
            for node in self.tree.own(owner):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=verb)):
                        holder = self.holder_of(name) if verb in VERBS else None
                        if holder is not None:
                            found.append(DurableCall(node, verb, holder, owner))
                    case _:
                        continue
        return found

    def _lambdas(self, owner: Owner) -> Sequence[ast.Lambda]:
        found = [node for node in self.tree.own(owner) if isinstance(node, ast.Lambda)]
        for function in found:  # it grows: there are lambdas in lambdas
            found += [node for node in self.tree.own(function) if isinstance(node, ast.Lambda)]
        return found

    def _keeps(self, holder: Holder) -> bool:
        return len(self.tree.bindings(holder.function)[holder.parameter]) == 1

    def _handler(self, function: Function) -> Holder | None:
        first = next(iter(arguments(function)), None)
        if first is None or not (self._is_job(function) or self._is_run(function)):
            return None
        named = self._annotated(first)
        foreign = first.annotation is not None and self.tree.dotted(first.annotation) is not None
        if named is None and (first.arg != "ctx" or foreign):
            return None
        is_async = isinstance(function, ast.AsyncFunctionDef)
        face = Face.AWAITED if is_async else Face.BLOCKING
        return Holder(function, first.arg, face, is_handler=True)

    def _helper(self, function: Function) -> Holder | None:
        is_async = isinstance(function, ast.AsyncFunctionDef)
        for parameter in [*arguments(function), *function.args.kwonlyargs]:
            if (named := self._annotated(parameter)) is not None:
                face = Face.AWAITED if named == "Context" else Face.BLOCKING
                return Holder(function, parameter.arg, face, is_handler=False)
        names = [p.arg for p in arguments(function) if p.annotation is None]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        if not self._ours or function.decorator_list or names[:1] != ["ctx"]:
            return None
        face = Face.AWAITED if is_async else Face.UNKNOWN
        return Holder(function, "ctx", face, is_handler=False)

    def _is_job(self, function: Function) -> bool:
        bare = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
        return any(isinstance(d, ast.Attribute) and d.attr in _DECORATORS for d in bare)

    def _is_run(self, function: Function) -> bool:
        is_top = self.tree.owner(function) is self.tree.module
        return self._ours and is_top and function.name == "run" and not function.decorator_list

    def _annotated(self, parameter: ast.arg) -> str | None:
        """The context of ours that a parameter is annotated with."""
        match parameter.annotation:
            case ast.Constant(value=str(text)):
                # The rest of the file says what the name in quotes is.
                last = text.rpartition(".")[2].strip()
                return last if last in _CONTEXTS and self._is_imported(text.strip()) else None
            case None:
                return None
            case annotation:
                package, _, last = (self.tree.dotted(annotation) or "").rpartition(".")
                ours = package.partition(".")[0] == "windlass"
                return last if ours and last in _CONTEXTS else None

    def _is_imported(self, text: str) -> bool:
        root = text.partition(".")[0]
        bound = self.tree.bindings(self.tree.module).get(root, ())
        return bool(bound) and all(_is_ours(binding, root) for binding in bound)


def _is_ours(binding: ast.AST, root: str) -> bool:
    match binding:
        case ast.ImportFrom(module=str(module)):
            return module.partition(".")[0] == "windlass"
        case ast.Import():
            return root == "windlass"
        case _:
            return False
