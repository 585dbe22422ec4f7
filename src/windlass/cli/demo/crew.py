"""The demo's worker processes: real ones, to be killed before your eyes. None outlives it."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = "windlass.cli.demo.program"
_PATIENCE = 4.0


@dataclass(slots=True)
class _Place:
    """Where a worker works; when it dies, another takes its place."""

    app: str
    queues: Sequence[str]
    process: Process


class Crew:
    """Starts workers on a store, replaces those that die, and ends them all."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder  # not the user's: a windlass.toml and job files may be there
        self._places: list[_Place] = []
        self.killed: set[int] = set()

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        return [place.process.pid for place in self._places]

    async def hire(self, app: str, *queues: str) -> None:
        """Start one more worker."""
        self._places.append(_Place(app, queues, await self._start(app, queues)))

    async def replace_dead(self) -> None:
        """Start a new worker for each that has died."""
        for place in self._places:
            if place.process.returncode is not None:
                place.process = await self._start(place.app, place.queues)

    def kill(self, pid: int) -> None:
        """Kill one of ours with -9, once."""
        for place in self._places:
            if place.process.pid == pid and pid not in self.killed:
                self.killed.add(pid)
                place.process.kill()

    async def dismiss(self) -> None:
        """End them all; whoever does not hear is killed."""
        left = [place.process for place in self._places if place.process.returncode is None]
        for process in left:
            process.terminate()
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*(process.wait() for process in left))
        except TimeoutError:
            for process in left:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _start(self, app: str, queues: Sequence[str]) -> Process:
        clean = {n: v for n, v in os.environ.items() if not n.startswith("WINDLASS_")}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "windlass",
            "worker",
            "--app",
            f"{_PROGRAM}:{app}",
            "--queues",
            ",".join(queues),
            cwd=self._folder,
            env=clean | {"WINDLASS_URL": self._url},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
