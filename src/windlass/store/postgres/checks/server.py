"""Which server is it, and are its functions ours?"""

import re
from collections.abc import Iterator

from windlass.domain.checkup import Finding, counted, error, fine, warning
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking
from windlass.store.queries import read_folder

OLDEST = 15
_FUNCTION = re.compile(
    r"^create or replace function windlass\.(\w+)\(.*?^as \$\$(.*?)\$\$;", re.MULTILINE | re.DOTALL
)


def checks(ask: Asking) -> Iterator[Check]:
    """Its version, its role in a cluster, the functions in it."""
    yield Check(name="server", look=lambda _: _server(ask), needs=Needs.STORE)
    yield Check(name="functions", look=lambda _: _functions(ask))


def _server(ask: Asking) -> Iterator[Finding]:
    number, version, standby = ask.row("server_version")
    yield judge_version(number, version)
    if standby:
        text = "The server is a standby, on which nothing can be written."
        yield error(text, "Let the URL name the primary, e.g. with target_session_attrs.")


def judge_version(number: int, version: str) -> Finding:
    """Whether a server is recent enough."""
    if number // 10_000 < OLDEST:
        text = f"The server is PostgreSQL {version}; Windlass needs {OLDEST} or later."
        return error(text, "Upgrade the server.")
    return fine(f"The server is PostgreSQL {version}.")


def _functions(ask: Asking) -> Iterator[Finding]:
    there: dict[str, set[str]] = {}
    for name, body in ask.rows("function_bodies"):
        there.setdefault(name, set()).add(body)
    wanted = list(_ours())
    other = sorted({name for name, body in wanted if body not in there.get(name, set())})
    if other:
        yield warning(
            f"{counted(len(other), 'function')} in the database not as this Windlass has it: "
            f"{', '.join(other[:5])}{', …' if len(other) > 5 else ''}.",
            "If they are of another release, run `windlass migrate`; if somebody changed them by "
            "hand, delete their rows in windlass.routines and run it then.",
        )
    else:
        yield fine(f"All {len(wanted)} functions are those of this Windlass.")


def _ours() -> Iterator[tuple[str, str]]:
    """Names and bodies, but for those whose body the server keeps as it understood it."""
    for _, text in read_folder("postgres", "functions"):
        yield from _FUNCTION.findall(text)
