"""Which server is it?"""

from collections.abc import Iterator

from windlass.domain.checkup import Finding, error, fine
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking

OLDEST = 15


def checks(ask: Asking) -> Iterator[Check]:
    """Its version, and its role in a cluster."""
    yield Check(name="server", look=lambda _: _server(ask), needs=Needs.STORE)


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
