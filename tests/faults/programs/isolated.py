"""An application in a module, as child processes need it: `windlass worker --app` this module.

What it works on is in the environment (`FAULTS`, JSON). The functions are plain; `define` makes
them jobs of any application, so that a test can enqueue them without running them.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.faults.programs.jobs import Witness
from windlass import Context, SyncContext, Windlass
from windlass.store.sqlite.forks import gate

_LOOK = 0.01
_STEP = 16 * 1024 * 1024
_MORE = 256 * 1024 * 1024  # bytes of address space that a pill may take


class Config(msgspec.Struct, kw_only=True):
    """What the process is told."""

    url: str
    folder: str
    settings: dict[str, Any] = {}


async def good(ctx: Context, n: int, ms: int) -> int:
    """Some work, one effect."""
    witness.write("starts", ctx)
    await asyncio.sleep(ms / 1000)
    witness.write("effects", ctx)
    return n


async def pill(ctx: Context, kind: str) -> None:
    """Kills the process that it runs in."""
    witness.write("starts", ctx, kind)
    match kind:
        case "exit":
            os._exit(3)
        case "segv":
            ctypes.string_at(0)
        case "rlimit":
            _be_refused_memory()
        case group:
            _be_killed_for_memory(Path(group))


def _be_killed_for_memory(group: Path) -> None:
    """Take more than this process's control group has: the kernel kills it."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    taken = []
    while True:
        taken.append(bytearray(b"x") * _STEP)


def _be_refused_memory() -> None:
    """Take more than this process may address: a library in C++ gives up the process, as Python,
    which raises MemoryError, would not."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + _MORE, used + _MORE))
    operator_new = ctypes.CDLL("libstdc++.so.6")._Znwm
    operator_new.argtypes, operator_new.restype = [ctypes.c_size_t], ctypes.c_void_p
    while True:
        ctypes.memset(operator_new(_STEP), 1, _STEP)


async def stall(ctx: Context, seconds: float) -> int:
    """Blocks the event loop."""
    witness.write("starts", ctx)
    time.sleep(seconds)
    witness.write("effects", ctx)
    return ctx.attempt


async def block(ctx: Context) -> int:
    """The first attempt blocks the event loop until the flag `wake` is up."""
    witness.write("starts", ctx)
    while not witness.flag("go"):  # noqa: ASYNC110 - its neighbours are to have started
        await asyncio.sleep(_LOOK)
    while ctx.attempt == 1 and not witness.flag("wake"):
        time.sleep(_LOOK)
    witness.write("effects", ctx)
    return ctx.attempt


def hold_gil(ctx: SyncContext) -> int:
    """The first attempt does not let go of the interpreter, as a long call into C would not, until
    the flag `wake` is up; the second one holds the lease until the flag `release` is up."""
    witness.write("starts", ctx)
    if ctx.attempt == 1:
        _hold_interpreter(str(witness.folder / "wake").encode())
    while ctx.attempt == 2 and not witness.flag("release"):
        time.sleep(_LOOK)
    witness.write("effects", ctx)
    return ctx.attempt


def _hold_interpreter(path: bytes) -> None:
    libc = ctypes.PyDLL(None)  # whose calls keep the interpreter
    # None of our threads must stop inside a transaction: on SQLite nobody else could write then.
    gate.shut()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(3600)  # between two calls nobody gets it either
    while libc.access(path, os.F_OK) != 0:
        libc.usleep(int(_LOOK * 1_000_000))
    sys.setswitchinterval(usual)
    gate.reopen()


def stubborn(ctx: SyncContext) -> None:
    """Never ends, whatever it is told."""
    witness.write("starts", ctx)
    while True:
        time.sleep(_LOOK)


def patient(ctx: SyncContext) -> str:
    """Waits until it should end."""
    witness.write("starts", ctx)
    while not ctx.canceled:
        time.sleep(_LOOK)
    witness.write("told", ctx, "canceled")
    witness.write("effects", ctx)
    return "told"


def fork(ctx: SyncContext, how: str) -> str:
    """Another process uses the application, and may fall out of the handler."""
    witness.write("starts", ctx)
    match how:
        case "os":
            child = os.fork()
            if child == 0:
                _use_application(ctx)
                return "the copy"
            assert os.waitpid(child, 0)[1] == 0
        case "multiprocessing":
            context = multiprocessing.get_context("fork")
            process = context.Process(target=_use_application, args=(ctx,))
            process.start()
            process.join()
            assert process.exitcode == 0
        case _:
            program = (
                "from tests.faults.programs import isolated as i; i.app.enqueue('good', i.MORE)"
            )
            subprocess.run([sys.executable, "-c", program], check=True)
    _use_application(ctx)
    witness.write("effects", ctx)
    return "the original"


MORE = {"n": 1, "ms": 1}


def _use_application(ctx: SyncContext) -> None:
    assert app is not None
    app.enqueue("good", MORE)
    ctx.progress(0.5, str(os.getpid()))


async def fork_on_loop(ctx: Context) -> str:
    """A forked copy of the event loop's own thread."""
    witness.write("starts", ctx)
    child = os.fork()
    if child == 0:
        return "the copy"
    assert os.waitpid(child, 0)[1] == 0
    await ctx.progress(0.5)
    witness.write("effects", ctx)
    return "the original"


async def hold(ctx: Context) -> int:
    """Runs until the flag `release` is up."""
    witness.write("starts", ctx)
    while not witness.flag("release"):  # noqa: ASYNC110 - another process raises it
        await asyncio.sleep(_LOOK)
    witness.write("effects", ctx)
    return ctx.attempt


async def stopper(ctx: Context, kind: str) -> None:
    """Stops the worker that it runs in, without killing it, and goes on for ever if it can.

    In a child process signals do nothing; there it ends.
    """
    witness.write("starts", ctx, kind)
    while not witness.flag("go"):  # noqa: ASYNC110 - its neighbours are to have started
        await asyncio.sleep(_LOOK)
    loop = asyncio.get_running_loop()
    match kind:
        case "cancel":
            for task in asyncio.all_tasks():
                task.cancel()
        case "stop":
            loop.stop()
        case "exit in a callback":
            loop.call_soon(sys.exit)
        case "exit in a task":
            loop.create_task(_exit()).add_done_callback(lambda _: None)
        case "raise":
            await asyncio.to_thread(signal.raise_signal, signal.SIGTERM)
        case "descendant":
            # It stays long enough to be seen. Not at once: the thread that starts a program changes
            # what it blocks, and might take the signal before the main thread does.
            await asyncio.create_subprocess_exec(
                "sh", "-c", f"sleep 0.3; kill {os.getpid()}; sleep 5"
            )
        case _:
            os.kill(os.getpid(), getattr(signal, kind))
    if threading.main_thread() is threading.current_thread() or ctx.attempt == 1:
        await asyncio.Event().wait()
    witness.write("effects", ctx)


async def _exit() -> None:
    sys.exit(0)


async def masks(ctx: Context) -> list[str]:
    """Which signals are blocked in programs that are started on the loop, and in a thread."""
    witness.write("starts", ctx)
    command = ("grep", "SigBlk", "/proc/self/status")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    seen = [(await process.communicate())[0]]
    seen += [await asyncio.to_thread(subprocess.check_output, command)]
    witness.write("effects", ctx)
    return [line.decode().split()[1] for line in seen]


def parricide(ctx: SyncContext) -> None:
    """In a child process: tells the worker to stop."""
    witness.write("starts", ctx)
    while not witness.flag("go"):
        time.sleep(_LOOK)
    if ctx.attempt == 1:
        os.kill(os.getppid(), signal.SIGTERM)
        while True:
            time.sleep(_LOOK)


def define(made: Windlass) -> None:
    """Make the functions jobs of an application."""
    functions: list[Any] = [good, pill, stall, hold_gil, fork, fork_on_loop, hold, stopper]
    functions += [block, masks, parricide, stubborn, patient]
    for function in functions:
        made.job(max_attempts=1)(function)
    for function in functions[-3:]:
        name = f"{function.__name__}_process"
        made.job(name=name, executor="process", max_attempts=1)(function)


app: Windlass | None = None
if "FAULTS" in os.environ:
    config = msgspec.json.decode(os.environ["FAULTS"], type=Config)
    witness = Witness(Path(config.folder))
    app = Windlass(config.url, **config.settings)
    define(app)
