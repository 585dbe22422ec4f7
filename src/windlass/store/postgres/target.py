"""Where a store is: the URL that a user gave, read and checked."""

from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from windlass.errors import BadOption
from windlass.store.postgres.naming import DEFAULT_SCHEMA, check_schema

_OWN_PARAMETERS = ("prepare", "listen_url", "schema")
_PREPARE = {"on": True, "off": False, "auto": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where and how to connect, read from the URL.

    ``?prepare=off`` is for transaction poolers that cannot keep prepared statements apart, and
    ``?prepare=on`` for those that can; unless given, nothing is prepared where a pooler is found.
    ``listen_url`` names a direct way to the server where the URL leads through a pooler.
    ``schema`` is where everything of Windlass is in the database.
    """

    conninfo: str
    listen: str
    prepare: bool | None  # None: find out
    stall: float
    schema: str = DEFAULT_SCHEMA

    @property
    def place(self) -> str:
        """Where it leads, for people: without a password."""
        schema = "" if self.schema == DEFAULT_SCHEMA else f"?schema={self.schema}"
        return f"{self.server}{schema}"

    @property
    def server(self) -> str:
        """The server and the database, for people and for the tools of PostgreSQL."""
        known = conninfo_to_dict(self.conninfo)
        user = f"{known['user']}@" if known.get("user") else ""
        port = f":{known['port']}" if known.get("port") else ""
        return f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"

    @classmethod
    def parse(cls, url: str, stall: float, schema: str | None = None) -> "Target":
        """Split our own parameters off a PostgreSQL URL; `schema` is what else names the schema."""
        parts = _split(url)
        pairs = [pair.partition("=") for pair in parts.query.split("&") if pair]
        own = {name: unquote(value) for name, _, value in pairs if name in _OWN_PARAMETERS}
        # The rest as it is written: libpq reads it by rules of its own, where a + is no space.
        rest = "&".join("".join(pair) for pair in pairs if pair[0] not in _OWN_PARAMETERS)
        # Not urlunsplit, which drops the slashes of a URL without a host.
        conninfo = f"postgresql://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}"
        if own.get("prepare", "auto") not in _PREPARE:
            raise BadOption("prepare", "it must be on, off or auto", "url")
        return cls(
            schema=_one_schema(own.get("schema"), schema),
            conninfo=_watchful(conninfo, stall),
            listen=_watchful(own.get("listen_url", conninfo), stall),
            prepare=_PREPARE[own.get("prepare", "auto")],
            stall=stall,
        )


def _one_schema(in_url: str | None, setting: str | None) -> str:
    found = in_url or setting or DEFAULT_SCHEMA
    if setting and setting != found:
        why = f"the URL says {in_url!r} and the setting {setting!r}: name one schema"
        raise BadOption("schema", why)
    return check_schema(found, "url" if in_url else "argument")


def _watchful(conninfo: str, stall: float) -> str:
    """Add the settings by which a dead peer is noticed; those in the URL win."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise _unreadable() from None
    settings: dict[str, str | int] = {
        # Not the session's choice: what the driver could not write would be no error of ours.
        "client_encoding": "UTF8",
        "connect_timeout": max(2, int(stall)),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": int(stall * 1000),
    }
    given.pop("client_encoding", None)
    return make_conninfo(conninfo, **{k: v for k, v in settings.items() if k not in given})


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        hosts = [host.rpartition(":") for host in parts.netloc.rpartition("@")[2].split(",")]
    except ValueError:
        raise _unreadable() from None
    # An unescaped "#" or "/" in a password cuts the URL short, and half of it becomes the port.
    if parts.fragment or not all(
        not colon or not port or port.isdecimal() or "]" in port for _, colon, port in hosts
    ):
        raise _unreadable()
    return parts


def _unreadable() -> BadOption:
    # Without libpq's words: they may quote a part of the password.
    why = (
        "PostgreSQL cannot read it: check its parameters, and write special characters of user "
        "and password as %XX"
    )
    return BadOption("url", why)
