"""A TCP proxy between Windlass and PostgreSQL that does what networks do.

It runs in threads of the test's own process. Faults are of two kinds: those that hold for all
connections until they are lifted (`pause`, `swallow`, `refuse`), and rules that wait for one
particular request and act on it once (`Rule`). A request is recognised by bytes in it, so the
client must send its statements unprepared: `?prepare=off`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

_READY = b"Z\x00\x00\x00\x05"  # ReadyForQuery: the server has answered a round trip
_CHUNK = 65536
_PATIENCE = 10.0
_RESET = struct.pack("ii", 1, 0)  # linger for no time: close by RST


class Fault(Enum):
    """What happens to a request that a rule was waiting for."""

    LOSE_REPLY = auto()  # the server does it, its reply is lost with the connection
    LOSE_REQUEST = auto()  # the connection breaks before the server has heard of it
    HOLD_REQUEST = auto()  # it reaches the server only when released
    HOLD_REPLY = auto()  # the server does it, its reply comes only when released


@dataclass(eq=False)
class Rule:
    """A fault for the next requests that contain all of these bytes."""

    fault: Fault
    needles: tuple[bytes, ...]
    times: int = 1
    struck: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    def matches(self, request: bytes) -> bool:
        """Whether this is such a request."""
        return self.times > 0 and all(needle in request for needle in self.needles)


class Proxy:
    """Listens on a port of its own and passes everything on, until told otherwise."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._rules: list[Rule] = []
        self._listener: socket.socket | None = None
        self._closing = threading.Event()
        self.flowing = threading.Event()
        self.flowing.set()
        self.swallowing = False
        self.round_trips = 0
        self.port = 0
        self.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- faults ---------------------------------------------------------------------------

    def pause(self) -> None:
        """Hold everything, both ways; new connections are taken and get no answer either."""
        self.flowing.clear()

    def resume(self) -> None:
        """Pass on what was held, and go on."""
        self.flowing.set()

    def swallow(self) -> None:
        """A black hole: no byte arrives, in either direction, and nobody is told.

        A connection from which bytes were lost stays dead afterwards.
        """
        self.swallowing = True

    def spit_out(self) -> None:
        """Lift the black hole, for new connections and those that had nothing to say."""
        self.swallowing = False

    def reset(self) -> None:
        """Break all connections by RST."""
        for link in self._all():
            link.break_off()

    def refuse(self) -> None:
        """Stop listening, and break what is connected."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.reset()

    def accept(self) -> None:
        """Listen, again on the same port."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def expect(self, fault: Fault, *needles: str, times: int = 1) -> Rule:
        """Let a fault befall the next request, or the next few, with these texts in it."""
        rule = Rule(fault, tuple(needle.encode() for needle in needles), times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def forget(self) -> None:
        """Drop all rules and release what they hold."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.released.set()

    def close(self) -> None:
        """Break everything and let the threads end."""
        self._closing.set()
        self.forget()
        self.flowing.set()
        self.refuse()

    # -- inside ---------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        """Whether nothing is held back any more."""
        return self._closing.is_set()

    def rule_for(self, request: bytes) -> Rule | None:
        """Return the rule that a request falls under, and use it up."""
        with self._lock:
            for rule in self._rules:
                if rule.matches(request):
                    rule.times -= 1
                    return rule
        return None

    def forgotten(self, link: _Link) -> None:
        """A connection has ended."""
        with self._lock:
            self._links.discard(link)

    def count(self, trips: int) -> None:
        """The server has answered so many round trips."""
        with self._lock:
            self.round_trips += trips

    def _all(self) -> Iterator[_Link]:
        with self._lock:
            links = list(self._links)
        return iter(links)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                _close(client, reset=True)
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._dead = False  # bytes were lost: nothing passes any more
        self._tail = b""
        self._asked: Rule | None = None
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for pump in (self._upward, self._downward):
            threading.Thread(target=pump, daemon=True).start()

    def break_off(self) -> None:
        for side in (self._client, self._server):
            _close(side, reset=True)
        self._proxy.forgotten(self)

    def _upward(self) -> None:
        for request in self._read(self._client):
            rule = self._proxy.rule_for(request)
            if rule is not None and rule.fault is Fault.LOSE_REQUEST:
                rule.struck.set()
                break
            if rule is not None and rule.fault is Fault.HOLD_REQUEST:
                rule.struck.set()
                rule.released.wait()
            if rule is not None:  # else it may be the rest of a request that is under one
                self._asked = rule
            if not self._pass(request, self._server):
                break
            if rule is not None and rule.fault is Fault.HOLD_REQUEST:
                # The client has long gone away. Its going must not overtake what it asked for.
                rule.answered.wait(_PATIENCE)
        self.break_off()

    def _downward(self) -> None:
        held = b""
        for part in self._read(self._server):
            reply, done, rule = part, self._count(part), self._asked
            if rule is not None:
                held += part
                if not done:
                    continue
                reply, held, self._asked = held, b"", None
                rule.struck.set()
                rule.answered.set()
                if rule.fault is Fault.LOSE_REPLY:
                    break
                rule.released.wait()
            if not self._pass(reply, self._client):
                break
        self.break_off()

    def _read(self, side: socket.socket) -> Iterator[bytes]:
        while True:
            try:
                data = side.recv(_CHUNK)
            except OSError:
                return
            if not data:
                return
            yield data

    def _pass(self, data: bytes, to: socket.socket) -> bool:
        self._proxy.flowing.wait()
        if self._proxy.closing:
            return False
        if self._dead or self._proxy.swallowing:
            self._dead = True
            return True
        try:
            to.sendall(data)
        except OSError:
            return False
        return True

    def _count(self, reply: bytes) -> int:
        """Count the ends of round trips, also where one lies across two chunks."""
        text = self._tail + reply
        trips = text.count(_READY)
        self._tail = text[-(len(_READY) - 1) :]
        self._proxy.count(trips)
        return trips


def _close(side: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Wakes the thread that reads from it; closing alone would not.
        side.shutdown(socket.SHUT_RDWR)
    side.close()
