"""A connection pooler, as PgBouncer is before 1.21.

In transaction mode a connection to the server belongs to a client only from its first message to
the end of its transaction. What a session would keep is then another's: LISTEN, SET, prepared
statements. In session mode it belongs to the client from its first message until that goes; whoever
comes when none is free waits. Clients are let in without a password, under a process id of the
pooler's own making, whether or not a connection is free.

The pooler logs in by libpq and then takes the socket over; the rest of the protocol is messages of
a letter, a length and a body. A thread for each client: it asks, and the server answers until it is
ready for the next query.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from psycopg import pq

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_FIRST = struct.Struct("!ii")
_HEAD = struct.Struct("!ci")
_FAKE_PIDS = itertools.count(900_000)
_ASKS = (b"Q", b"S")  # what the server answers with ReadyForQuery


class _Closed(Exception):
    """One side is gone."""


class _Server:
    """One connection to the server, logged in."""

    def __init__(self, url: str) -> None:
        separator = "&" if "?" in url else "?"
        conninfo = f"{url}{separator}sslmode=disable&gssencmode=disable"
        self.libpq = pq.PGconn.connect(conninfo.encode())  # kept: it owns the socket
        assert self.libpq.status == pq.ConnStatus.OK, self.libpq.error_message
        self.socket = socket.socket(fileno=self.libpq.socket)
        self.socket.setblocking(True)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def parameters(self) -> Iterator[tuple[bytes, bytes]]:
        """What a client is told when it connects."""
        for name in (b"server_version", b"client_encoding", b"standard_conforming_strings",
                     b"integer_datetimes", b"DateStyle", b"TimeZone"):  # fmt: skip
            value = self.libpq.parameter_status(name)
            if value is not None:
                yield name, value

    def close(self) -> None:
        self.socket.detach()
        self.libpq.finish()


class Pooler:
    """Listens on a port of its own, with so many connections to a database; a context manager."""

    def __init__(self, url: str, size: int = 3, *, mode: str = "transaction") -> None:
        self._url = url
        self._mode = mode
        self._told = b""
        self._free: SimpleQueue[_Server] = SimpleQueue()
        self._size = size
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: set[socket.socket] = set()
        self._serving: dict[int, _Server] = {}  # by the process id that the client was told
        self._over = False
        self._opening = threading.Lock()
        self.transactions = 0

    @property
    def url(self) -> str:
        """The same database, through the pooler."""
        parts = urlsplit(self._url)
        port = self._listener.getsockname()[1]
        return parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()

    def __enter__(self) -> Self:
        servers = [_Server(self._url) for _ in range(self._size)]
        parameters = servers[0].parameters()
        self._told = b"".join(_message(b"S", n + b"\0" + v + b"\0") for n, v in parameters)
        for server in servers:
            self._free.put(server)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._opening:
            self._over = True  # the database may be dropped now: nobody opens a connection any more
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in list(self._clients):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        with suppress(Empty):
            while True:
                self._free.get(timeout=0.2).close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(_Closed, OSError):
            pid = self._greet(client)
            turn = self._session if self._mode == "session" else self._transaction
            while pid is not None:
                turn(client, pid)
        self._clients.discard(client)

    def _greet(self, client: socket.socket) -> int | None:
        """The process id that the client is told; none where it came to cancel another's call."""
        while True:
            length, code = _FIRST.unpack(_exactly(client, 8))
            rest = _exactly(client, length - 8)
            if code == _CANCEL:
                server = self._serving.get(_FIRST.unpack(rest)[0])
                if server is not None:
                    server.libpq.get_cancel().cancel()
                return None
            if code not in (_SSL, _GSS):
                break
            client.sendall(b"N")
        pid = next(_FAKE_PIDS)
        key = _message(b"K", struct.pack("!ii", pid, 7))
        client.sendall(
            _message(b"R", struct.pack("!i", 0)) + self._told + key + _message(b"Z", b"I")
        )
        return pid

    def _session(self, client: socket.socket, pid: int) -> None:
        """Lend a connection until the client goes; its successor finds nothing of it."""
        kind, data = _receive(client)
        if kind == b"X":
            raise _Closed
        server = self._serving[pid] = self._free.get()
        hearing = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
        hearing.start()
        try:
            while kind != b"X":
                server.socket.sendall(data)
                kind, data = _receive(client)
            raise _Closed
        finally:
            self._serving.pop(pid)
            server.socket.shutdown(socket.SHUT_RDWR)
            hearing.join()
            server.close()
            self._replace()

    def _replace(self) -> None:
        """Open a connection in the place of one that was given up."""
        with self._opening:
            if not self._over:
                self._free.put(_Server(self._url))

    def _pass_on(self, server: _Server, client: socket.socket) -> None:
        """Answers, and notifications that nobody asked for."""
        with suppress(_Closed, OSError):
            while True:
                client.sendall(_receive(server.socket)[1])

    def _transaction(self, client: socket.socket, pid: int) -> None:
        """Lend a connection until the client's transaction is over."""
        kind, data = _receive(client)
        if kind == b"X":
            raise _Closed
        self._serving[pid] = server = self._free.get()
        try:
            while True:
                server.socket.sendall(data)
                if kind in _ASKS and self._answer(server, client) == b"I":
                    break
                kind, data = _receive(client)
                if kind == b"X":
                    raise _Closed
        except BaseException:
            # Nobody knows what state it is in.
            server.close()
            self._replace()
            raise
        finally:
            del self._serving[pid]
        self.transactions += 1
        self._free.put(server)

    def _answer(self, server: _Server, client: socket.socket) -> bytes:
        while True:
            kind, data = _receive(server.socket)
            client.sendall(data)
            if kind == b"Z":
                return data[5:6]


def _message(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body) + 4) + body


def _receive(source: socket.socket) -> tuple[bytes, bytes]:
    """One message: its letter, and all of it."""
    head = _exactly(source, _HEAD.size)
    kind, length = _HEAD.unpack(head)
    return kind, head + _exactly(source, length - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = source.recv(size - len(parts))
        if not data:
            raise _Closed
        parts += data
    return bytes(parts)
