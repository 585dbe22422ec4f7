"""Does the server keep what it has committed?"""

from collections.abc import Iterator

from windlass.domain.checkup import Finding, error, fine, note, warning
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking

# What may be lost is what was acknowledged: the promise of an enqueue that returned.
_LOSSES = {
    "fsync": "a crash of its machine may damage the whole database",
    "full_page_writes": "a crash of its machine may damage the whole database",
    "synchronous_commit": "a crash of the server loses what it has just acknowledged",
}
_SOURCES = {
    "user": "for this role",
    "database": "for this database",
    "database user": "for this role in this database",
    "client": "by the URL",
    "environment variable": "by an environment variable",
}


def checks(ask: Asking) -> Iterator[Check]:
    """The settings by which commits survive."""
    yield Check(name="durability", look=lambda _: _check_durability(ask), needs=Needs.STORE)


def _check_durability(ask: Asking) -> Iterator[Finding]:
    settings = {name: (value, source) for name, value, source in ask.rows("durability_settings")}
    told = [*_own(settings), *_others(ask), *_standbys(settings)]
    yield from told or [fine("A commit is on the disk when it is acknowledged.")]


def _own(settings: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    for name, loss in _LOSSES.items():
        value, source = settings.get(name, ("on", ""))
        if value == "off":
            where = _SOURCES.get(source, "in the server's configuration")
            yield error(f"{name} is off {where}: {loss}.", f"Set {name} to on there.")


def _others(ask: Asking) -> Iterator[Finding]:
    for database, role, setting in ask.rows("role_settings"):
        if setting.partition("=")[2] == "off":
            scope = " in ".join(
                part
                for part in (
                    f"role {role}" if role else "",
                    f"database {database}" * bool(database),
                )
                if part
            )
            yield warning(
                f"synchronous_commit is off for {scope or 'everybody'}: whoever enqueues as that "
                "may lose acknowledged runs.",
                "Reset it: alter role … reset synchronous_commit, or alter database … .",
            )


def _standbys(settings: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    standbys = settings.get("synchronous_standby_names", ("", ""))[0]
    commit = settings.get("synchronous_commit", ("on", ""))[0]
    if standbys and commit == "local":
        text = "synchronous_commit is local: a commit does not wait for the synchronous standbys."
        yield note(text, "Set it to on if a failover must not lose anything.")
