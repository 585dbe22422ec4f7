"""The program of a child process: runs the attempts that its worker gives it, one at a time.

The main thread runs sync handlers, so that what needs the main thread works; async ones, and the
resources of the application, live on a loop in a thread. Another thread listens to the worker. If
that falls silent for good, it is dead or has given the attempt up: the process ends at once,
whatever the handler is at, with all that this has started. Signals that tell a whole group or
service to stop are the worker's to answer: it tells its children itself.

This module does not catch what a handler raises: `Runner` does, as in the worker.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn

import msgspec

from windlass.artifacts.shelf import Shelf
from windlass.capture import lines_kept
from windlass.domain.job import JobSpec
from windlass.domain.report import ErrorInfo
from windlass.domain.run import Finish
from windlass.engine.attempt import Runner, prepared
from windlass.engine.holdings import Holding
from windlass.engine.memory import resident
from windlass.engine.throttle import Throttle
from windlass.engine.wire import (
    Answer,
    Assignment,
    Began,
    Done,
    Joining,
    Lacking,
    Ready,
    Setup,
    StandingNow,
    Told,
    Words,
)
from windlass.errors import LeaseLost, UsageError
from windlass.gauge import Gauge
from windlass.isolation.channel import Channel, LogLines, Questions, WorkersStore
from windlass.isolation.locate import Finder, move, url_of
from windlass.notebook import Notebook
from windlass.resources import OpenResources, belong, close_all
from windlass.sources import Sources

log = logging.getLogger(__name__)

_REPORT = 1.0  # seconds between two reports of progress

if TYPE_CHECKING:
    from windlass.app import Windlass


def main(fd: int) -> None:
    """Run attempts until the worker closes the socket."""
    channel = Channel(fd)
    setup = channel.receive()
    if not isinstance(setup, Setup):
        return
    sys.path[:] = map(os.fsdecode, setup.path)
    lines = LogLines(channel, setup.level)
    lines.take_over()
    with lines_kept():
        Program(channel, setup, lines.take_over).run()


def _no_store() -> NoReturn:
    raise UsageError(
        "Steps and ends of a job file in a process of its own cannot join your transaction: "
        "let it run in a thread, or define the job in code."
    )


class Program:
    """One child process."""

    def __init__(self, channel: Channel, setup: Setup, send_logs: Callable[[], None]) -> None:
        self._channel = channel
        self._setup = setup
        self._questions = Questions(channel)
        self._finder = Finder()
        self._sources = Sources.system()
        place = None if setup.artifacts is None else os.fsdecode(setup.artifacts)
        self._shelf = Shelf(place, setup.artifact_limit, self._sources.new_id)
        self._attempts: SimpleQueue[Assignment | None] = SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._resources: dict[int, OpenResources] = {}
        self._holding: Holding | None = None
        self._task: asyncio.Task[Finish | None] | None = None
        self._tell_soon = Throttle(_REPORT, self._tell)
        self._telling = threading.Lock()  # what is taken is sent before anything else is
        self._send_logs = send_logs
        self._given = self._ended = 0  # attempts, as counted by who gets and who ends them

    def run(self) -> None:
        """Work until there is nobody to work for."""
        for target in (self._serve, self._listen):
            threading.Thread(target=target, daemon=True).start()
        self._channel.send(Ready())
        while (attempt := self._attempts.get()) is not None:
            end = self._end(attempt)
            # Before the worker hears of it: after that it may give the next one, or go.
            self._ended += 1
            self._channel.send(end)
        for resources in self._resources.values():
            asyncio.run_coroutine_threadsafe(close_all(resources), self._loop).result()

    def _serve(self) -> None:
        """Run the loop. Only a handler stops it, or raises SystemExit through it: that would leave
        its attempt without an end, so it is the end of the process, and counts as a crash."""
        try:
            self._loop.run_forever()
        finally:
            log.error("a handler stopped the event loop of its process")
            os._exit(1)

    def _listen(self) -> None:
        while True:
            match self._channel.receive():
                case Assignment() as attempt:
                    self._given += 1
                    self._attempts.put(attempt)
                case StandingNow() as standing:
                    self._heed(standing)
                case Answer() as answer:
                    self._questions.answers.put(answer)
                case _:
                    break
        if self._ended < self._given:
            _leave()
        self._attempts.put(None)

    def _heed(self, standing: StandingNow) -> None:
        holding = self._holding
        if holding is None or (holding.claimed.id, holding.claimed.token) != (
            standing.run,
            standing.token,
        ):
            return  # of an attempt that is over
        holding.stopping = holding.stopping or standing.stopping
        holding.pausing = standing.pausing
        if standing.stop is not None:
            holding.stop, holding.reason = standing.stop, standing.reason
            self._loop.call_soon_threadsafe(self._stop_task)

    def _end(self, attempt: Assignment) -> Done | Lacking:
        found = prepared(lambda: self._finder.find(attempt.origin))
        self._send_logs()
        if isinstance(found, ErrorInfo):
            return Lacking(error=found)
        spec, app = found
        resources = self._resources_of(app)
        store = WorkersStore(self._questions, attempt.claimed)
        hooks = () if app is None else app.middleware.around
        runner = Runner(store, self._sources, resources, self._setup.result_limit, hooks)
        runner.worker, runner.max_steps = attempt.worker, self._setup.max_steps
        runner.joins = _no_store if app is None else lambda: app.store
        runner.enlist = runner.noted = self._enlist
        runner.run_logs = self._setup.run_logs
        runner.joining = self._say_joining
        runner.desk.shelf = self._shelf
        holding = self._holding = Holding(attempt.claimed, spec)
        self._channel.send(Began())
        finish = self._run(runner, holding, spec)
        # What it left behind tells nothing more.
        holding.concluded = True
        self._holding = self._task = None
        if holding.notebook is not None:
            holding.notebook.close()
        with self._telling:
            return Done.of(finish, resident(), _words_of(holding))

    def _run(self, runner: Runner, holding: Holding, spec: JobSpec) -> Finish | None:
        if not spec.signature.is_async:
            return runner.run_sync(holding)

        ends: list[Finish | None] = []

        async def attempt() -> None:
            self._task = asyncio.current_task()
            self._stop_task()  # it may have been told already
            ends.append(await runner.run_async(holding))

        try:
            asyncio.run_coroutine_threadsafe(attempt(), self._loop).result()
        except CancelledError:
            if not ends:  # a handler that cancels itself, and returns, has ended all the same
                return runner.conclude_error(holding, asyncio.CancelledError())
        return ends[0]

    def _enlist(self, _: Gauge | Notebook) -> None:
        """Something was told, in any thread: let the worker know, now or within a second."""
        self._loop.call_soon_threadsafe(self._tell_soon)

    def _tell(self) -> None:
        with self._telling:
            holding = self._holding
            if holding is not None and (words := _words_of(holding)):
                claimed = holding.claimed
                self._channel.send(Told(run=claimed.id, token=claimed.token, words=words))

    def _say_joining(self, holding: Holding) -> None:
        """Let the worker know before the commit: it may see that before it hears of it from here.

        On the loop this blocks, for as long as the answer of another process takes.
        """
        claimed, finish = holding.claimed, holding.joined
        if finish is not None:
            finish = msgspec.structs.replace(finish, result=None)
        joining = Joining(run=claimed.id, token=claimed.token, finish=finish)
        if self._questions.ask(joining).lost:
            raise LeaseLost(claimed.id, claimed.token)

    def _stop_task(self) -> None:
        """Cancel an async handler that is to end, once."""
        task, holding = self._task, self._holding
        if task is not None and holding is not None and holding.canceled and not task.cancelling():
            task.cancel()

    def _resources_of(self, app: "Windlass | None") -> OpenResources:
        if id(app) not in self._resources:
            if app is not None and url_of(app) != self._setup.url:
                move(app, self._setup.url)
            openers = {} if app is None else app.resource.openers
            self._resources[id(app)] = OpenResources(openers)
            belong(self._resources[id(app)], self._loop)
        return self._resources[id(app)]


def _words_of(holding: Holding) -> Words:
    """What an attempt has told since the last time."""
    return Words(
        progress=None if holding.gauge is None else holding.gauge.take(),
        lines=None if holding.notebook is None else holding.notebook.take(),
    )


def _leave() -> None:
    """End now, with all that the handler started: nobody is left who would end it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
