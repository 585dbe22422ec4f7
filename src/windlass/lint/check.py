"""Checks one file."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from windlass.lint import changing, effects, same_name, swallowed, unawaited
from windlass.lint.contexts import Contexts
from windlass.lint.finding import Finding, Problem
from windlass.lint.tree import Tree

Rule = Callable[[Contexts], Iterator[Problem]]
CHECKS: Sequence[Rule] = (
    unawaited.check,
    same_name.check_branches,
    same_name.check_tasks,
    changing.check_names,
    changing.check_arguments,
    changing.check_branches,
    swallowed.check,
    effects.check,
)

# A file without these has no durable call, and need not be parsed.
_MAY_CONCERN_US = re.compile(
    rb"\.\s*(?:step|sleep|wait_for|approval|first|now|uuid|random|version|run|start|map)\s*\("
)
_IGNORE = re.compile(r"#\s*windlass:\s*ignore\[([^\]]*)\]")


def check_source(data: bytes, file: str, *, is_job_file: bool = False) -> Sequence[Finding]:
    """Return what is wrong with a file, in the order of its lines.

    `is_job_file`: its function `run` is a handler, even if the file does not import windlass.
    """
    if not _MAY_CONCERN_US.search(data) or not (b"ctx" in data or b"Context" in data):
        return ()
    try:
        text = _decoded(data)
        module = _parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [_unreadable(file, error)]
    contexts = Contexts(Tree(module), is_job_file=is_job_file)
    if not contexts.calls:
        return ()
    lines = text.split("\n")
    found = {_finding(file, lines, problem) for check in CHECKS for problem in check(contexts)}
    ignored = _ignored(text) if found and "windlass:" in text else {}
    return sorted(f for f in found if not _is_ignored(f, ignored))


def _decoded(data: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    with io.TextIOWrapper(io.BytesIO(data), encoding) as reader:
        return reader.read()  # line ends become \n, as the parser counts them


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its backslashes, say: that is for others to tell
        return ast.parse(text)


def _unreadable(file: str, error: Exception) -> Finding:
    line = (error.lineno if isinstance(error, SyntaxError) else None) or 1
    column = (error.offset if isinstance(error, SyntaxError) else None) or 1
    why = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
    message = f"This file cannot be read as Python: {' '.join(str(why).split())}."
    return Finding(file, max(1, line), max(1, column), "syntax", message)


def _finding(file: str, lines: Sequence[str], problem: Problem) -> Finding:
    node = problem.node
    before = lines[node.lineno - 1].encode()[: node.col_offset]  # the parser counts bytes
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.ExceptHandler):
        last = node.lineno  # the body is not what it is about
    column = len(before.decode(errors="replace")) + 1
    return Finding(file, node.lineno, column, problem.code, problem.message, last)


def _ignored(text: str) -> Mapping[int, frozenset[str]]:
    """The codes that a comment silences, by line."""
    found: dict[int, frozenset[str]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _IGNORE.search(token.string)):
                found[token.start[0]] = frozenset(code.strip() for code in match[1].split(","))
    except (tokenize.TokenError, SyntaxError):
        pass  # it is stricter than the parser in odd corners; the comments before these count
    return found


def _is_ignored(finding: Finding, ignored: Mapping[int, frozenset[str]]) -> bool:
    lines = range(finding.line, max(finding.line, finding.last_line) + 1)
    return any(finding.code in ignored.get(line, ()) for line in lines)
