"""Wake-ups: a hint to whoever listens that something may be ready.

Each process that listens binds a datagram socket in the folder ``<file>-wake`` beside the
database; a hint is one byte to each socket there. Within the process a listener is woken
without a socket. A hint may be lost, and several become one: a worker that was woken claims
again a little later, and polling finds everything. Where there are no such sockets (Windows,
a path that is too long, a folder that cannot be written) polling is all there is, silently.
"""

import asyncio
import contextlib
import os
import socket
import time
from pathlib import Path

from windlass.sources import Sources

# A worker claims again 25 ms after a wake-up, so a hint this soon after another adds nothing.
COALESCE_SECONDS = 0.005
_LONGEST_PATH = 103  # bytes of a socket's address: 107 on Linux


class Bell:
    """Sends hints, and knows the listeners of this process."""

    def __init__(self, path: Path, sources: Sources) -> None:
        self._folder = path.with_name(path.name + "-wake")
        self._sources = sources
        self._listeners: set[Listener] = set()
        self._sent = -1.0

    def ring(self) -> None:
        """Wake every listener, in this process and others. Never raises, never waits."""
        for listener in tuple(self._listeners):
            listener.wake_from_any_thread()
        now = time.monotonic()  # other processes do not share a test's clock
        if now - self._sent >= COALESCE_SECONDS:
            self._sent = now
            self._ring_others()

    def listen(self) -> "Listener":
        """Start listening, on the running loop."""
        listener = Listener(self, self._bind())
        self._listeners.add(listener)
        return listener

    def forget(self, listener: "Listener") -> None:
        """Stop waking a listener."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """End the listeners of the running loop, and those whose loops do not run.

        Those of other loops that run belong to who works there, and hear through their sockets of
        whoever rings from now on.
        """
        for listener in tuple(self._listeners):
            listener.close_from(asyncio.get_running_loop())

    def _ring_others(self) -> None:
        own = {listener.name for listener in tuple(self._listeners)}
        try:
            others = [entry for entry in self._folder.iterdir() if entry.name not in own]
            if others:
                with _datagram_socket() as sender:
                    for address in others:
                        _send(sender, address)
        except OSError:
            return  # nobody has ever listened here, or nothing can be opened any more

    def _bind(self) -> socket.socket | None:
        # The end of an id is random; addresses must be short.
        address = str(self._folder / self._sources.new_id()[-12:])
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(address)) > _LONGEST_PATH:
            return None
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            bound = _datagram_socket()
        except OSError:
            return None
        try:
            bound.bind(address)
        except OSError:
            bound.close()
            return None
        return bound


class Listener:
    """Waits for hints, on one loop."""

    def __init__(self, bell: Bell, bound: socket.socket | None) -> None:
        self._address = Path("" if bound is None else bound.getsockname())
        self.name = self._address.name
        self._bell = bell
        self._bound = bound
        self._loop = asyncio.get_running_loop()
        self._woken = False
        self._calling = False
        self._waiter: asyncio.Future[bool] | None = None
        if bound is not None:
            self._loop.add_reader(bound.fileno(), self._receive)

    async def wait(self, timeout: float) -> bool:
        """Return true when woken, false after ``timeout`` seconds."""
        if not self._woken and timeout > 0:
            self._waiter = self._loop.create_future()
            limit = self._loop.call_later(timeout, _give_up, self._waiter)
            try:
                await self._waiter
            finally:
                limit.cancel()
                self._waiter = None
        woken, self._woken = self._woken, False
        return woken

    async def close(self) -> None:
        """Stop listening."""
        self.stop()

    def stop(self) -> None:
        """As :meth:`close`, without waiting."""
        self._bell.forget(self)
        bound, self._bound = self._bound, None
        if bound is not None:
            self._loop.remove_reader(bound.fileno())
            bound.close()
            with contextlib.suppress(OSError):
                self._address.unlink()
        if not self._loop.is_closed():
            self._wake()

    def close_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop listening, asked on a loop that may be another one: only its own may touch it."""
        if self._loop is loop or self._loop.is_closed():
            self.stop()
        elif not self._loop.is_running():
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self.stop)  # when it goes on, if it does

    def wake_from_any_thread(self) -> None:
        """Wake the listener, whose loop may be another thread's."""
        if self._calling:
            return  # it was called and has not come round to it yet
        self._calling = True
        try:
            self._loop.call_soon_threadsafe(self._called)
        except RuntimeError:
            self.stop()  # its loop is closed: nobody else can

    def _called(self) -> None:
        self._calling = False
        self._wake()

    def _wake(self) -> None:
        self._woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while self._bound is not None:
                self._bound.recv(16)
        self._wake()


def _send(sender: socket.socket, address: Path) -> None:
    try:
        sender.sendto(b"\0", str(address))
    except ConnectionRefusedError:
        # Its process is gone; sockets are not removed when a process is killed.
        with contextlib.suppress(OSError):
            address.unlink()
    except OSError:
        pass  # its buffer is full (it is awake already), or it is just closing


def _give_up(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made
