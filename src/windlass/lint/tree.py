"""A parsed file: who contains whom, which function each node runs in, what names stand for.

Everything here is a loop over a stack, never a recursion: files may be nested deeper than Python's
own stack.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef
Owner = Function | ast.Lambda | ast.ClassDef | ast.Module
OWNERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Tree:
    """One file."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self._parents: dict[ast.AST, ast.AST] = {}
        self._owners: dict[ast.AST, Owner] = {}
        self._own: dict[Owner, list[ast.AST]] = {module: []}
        self._bindings: dict[Owner, dict[str, list[ast.AST]]] = {module: {}}
        self._has_star_import = False
        self._read()

    @property
    def functions(self) -> Iterator[Function]:
        """All functions, in the order of the file."""
        return (owner for owner in self._own if isinstance(owner, Function))

    def own(self, owner: Owner) -> Sequence[ast.AST]:
        """The nodes that run when this function is called: without the functions inside it."""
        return self._own[owner]

    def owner(self, node: ast.AST) -> Owner:
        """The innermost function, class or module around a node."""
        return self._owners[node]

    def parent(self, node: ast.AST) -> ast.AST:
        """The node around another one. The module has none."""
        return self._parents[node]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around another one, up to the function that it runs in."""
        owner = self._owners[node]
        while (node := self._parents[node]) is not owner:
            yield node

    def bindings(self, owner: Owner) -> Mapping[str, Sequence[ast.AST]]:
        """Where each name of a function gets its value."""
        return self._bindings[owner]

    def scope_of(self, name: ast.Name) -> Owner | None:
        """The function, or module, that a name belongs to; None: it is a builtin."""
        owner: Owner | None = self._owners[name]
        first = True
        while owner is not None:
            # The names of a class are not seen by the functions inside it.
            visible = first or not isinstance(owner, ast.ClassDef)
            if visible and name.id in self._bindings[owner]:
                return owner
            first, owner = False, self._owners.get(owner)
        return None

    def dotted(self, node: ast.AST) -> str | None:
        """What a name or an attribute stands for, as `module.name`; None if that is not certain."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        scope = self.scope_of(node)
        if scope is None:
            root = None if self._has_star_import else f"builtins.{node.id}"
        else:
            found = {_imported(b, node.id) for b in self._bindings[scope][node.id]}
            root = found.pop() if len(found) == 1 else None
        return None if root is None else ".".join([root, *reversed(attributes)])

    def imports(self, package: str) -> bool:
        """Whether the file imports a package, or something of it."""
        found = (n for nodes in self._own.values() for n in nodes)
        return any(name.partition(".")[0] == package for n in found for name in _modules(n))

    def single_value(self, name: ast.Name) -> ast.expr | None:
        """What a local variable is, if it is assigned exactly once."""
        scope = self.scope_of(name)
        if scope is None or isinstance(scope, ast.Module):
            return None
        bound = self._bindings[scope][name.id]
        match self._parents.get(bound[0]) if len(bound) == 1 else None:
            case ast.Assign(targets=[ast.Name()], value=value):
                return value
            case ast.AnnAssign(value=value):
                return value
            case _:
                return None

    def function_named(self, name: ast.AST) -> Function | None:
        """The function of this file that a name stands for, if that is certain."""
        if not isinstance(name, ast.Name):
            return None
        scope = self.scope_of(name)
        if scope is None or isinstance(scope, ast.ClassDef):
            return None
        match self._bindings[scope][name.id]:
            case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
                return function
            case _:
                return None

    def _read(self) -> None:
        stack: list[tuple[ast.AST, Owner]] = [
            (child, self.module) for child in reversed(list(ast.iter_child_nodes(self.module)))
        ]
        for child, _ in stack:
            self._parents[child] = self.module
        while stack:
            node, owner = stack.pop()
            self._owners[node] = owner
            self._own[owner].append(node)
            self._bind(node, owner)
            inner = owner
            if isinstance(node, OWNERS):
                inner = node
                self._own[node] = []
                self._bindings[node] = {}
            for child in reversed(list(ast.iter_child_nodes(node))):
                if isinstance(child, ast.expr_context | ast.operator | ast.cmpop | ast.boolop):
                    continue  # one object stands for all of its kind
                self._parents[child] = node
                stack.append((child, inner))

    def _bind(self, node: ast.AST, owner: Owner) -> None:
        names: Sequence[str | None] = ()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names = [name]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                names = [name]
            case (
                ast.ExceptHandler(name=found) | ast.MatchAs(name=found) | ast.MatchStar(name=found)
            ):
                names = [found]
            case ast.MatchMapping(rest=found):
                names = [found]
            case ast.Global(names=found_names) | ast.Nonlocal(names=found_names):
                names = found_names
            case ast.Import(names=aliases):
                names = [alias.asname or alias.name.partition(".")[0] for alias in aliases]
            case ast.ImportFrom(names=aliases):
                names = [alias.asname or alias.name for alias in aliases]
                self._has_star_import |= "*" in names
            case _:
                return
        for bound in names:
            if bound is not None:
                self._bindings[owner].setdefault(bound, []).append(node)


def arguments(function: Function) -> Sequence[ast.arg]:
    """The parameters that may be given by position."""
    return [*function.args.posonlyargs, *function.args.args]


def source_text(node: ast.AST, longest: int = 40) -> str:
    """A short piece of code for a message, on one line."""
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "…"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _imported(binding: ast.AST, name: str) -> str | None:
    """What an import binds a name to."""
    match binding:
        case ast.Import(names=aliases):
            for alias in aliases:
                if alias.asname == name:
                    return alias.name
                if alias.asname is None and alias.name.partition(".")[0] == name:
                    return name
        case ast.ImportFrom(module=module, names=aliases, level=level):
            for alias in aliases:
                if (alias.asname or alias.name) == name:
                    return f"{'.' * level}{module or ''}.{alias.name}"
        case _:
            pass
    return None


def _modules(node: ast.AST) -> Sequence[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case _:
            return []
