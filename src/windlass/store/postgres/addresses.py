"""Where a server is, looked up in a thread of ours.

To connect on an event loop, psycopg looks names up in the loop's default executor, which a handler
may have shut down: no connection could be made any more. So the addresses are given with the names.
Where nothing needs to be looked up (a socket's path, an address, a service) nothing is changed.
"""

import os
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from windlass.offloop import off_loop

_PORT = "5432"


async def with_addresses(conninfo: str) -> str:
    """The same connection, with the addresses of its hosts."""
    given = conninfo_to_dict(conninfo)
    hosts = str(given.get("host") or os.environ.get("PGHOST", "")).split(",")
    known = given.get("hostaddr") or os.environ.get("PGHOSTADDR")
    if known or not any(map(_is_name, hosts)):
        return conninfo
    ports = str(given.get("port") or os.environ.get("PGPORT") or _PORT).split(",")
    pairs = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False))
    found = await off_loop(lambda: _look_up(pairs), "windlass-addresses")
    names, addresses, numbers = zip(*found, strict=True)
    return make_conninfo(
        conninfo, host=",".join(names), hostaddr=",".join(addresses), port=",".join(numbers)
    )


def _look_up(pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str, str]]:
    """Each host with each of its addresses; those that have none are left out, if others have."""
    found: dict[tuple[str, str, str], None] = {}
    failure: OSError | None = None
    for host, port in pairs:
        if not _is_name(host):
            found[host, "" if host.startswith(("/", "@")) else host, port] = None
            continue
        try:
            answers = socket.getaddrinfo(
                host, port or _PORT, proto=socket.IPPROTO_TCP, type=socket.SOCK_STREAM
            )
        except OSError as error:
            failure = error
        else:
            found.update(dict.fromkeys((host, str(a[4][0]), port) for a in answers))
    if not found:
        raise psycopg.OperationalError(f"failed to resolve host {pairs[0][0]!r}: {failure}")
    return list(found)


def _is_name(host: str) -> bool:
    if not host or host.startswith(("/", "@")):
        return False
    try:
        ip_address(host)
    except ValueError:
        return True
    return False
