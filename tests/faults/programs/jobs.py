"""The jobs of the fault tests, and the lines by which they bear witness.

A line is one write with O_APPEND, so lines of many processes never mix, and what is written
stays written whoever is killed next: `run attempt token pid monotonic [word]`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from windlass import Context, ContinueAs, FailedRun, LeaseLost, SyncContext, Windlass, phase
from windlass.domain.artifact import Artifact
from windlass.domain.outcome import Outcome
from windlass.domain.policy import Retry
from windlass.domain.run import Finish, Held, Want

FLAKY_ATTEMPTS = 3
_LOOK = 0.01


class Line(NamedTuple):
    """What a handler saw, when it saw it."""

    run: str
    attempt: int
    token: int
    pid: int
    at: float
    word: str = ""


class Witness:
    """The folder in which the processes of a test write down what happened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, kind: str, ctx: Context | SyncContext, word: str = "") -> None:
        """Add a line to a file."""
        words = (ctx.run_id, ctx.attempt, ctx.token, os.getpid(), repr(time.monotonic()), word)
        self.append(kind, " ".join(map(str, words)).strip())

    def append(self, kind: str, line: str, *, sync: bool = False) -> None:
        """Add a line; `sync`: it is on the disk when this returns."""
        file = os.open(self.folder / kind, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode() + b"\n")
            if sync:
                os.fsync(file)
        finally:
            os.close(file)

    def lines(self, kind: str) -> list[Line]:
        """What was written so far; a line that is not yet whole does not count."""
        return [_parse(line) for line in self.raw(kind)]

    def raw(self, kind: str) -> list[str]:
        """The lines as they are."""
        try:
            text = (self.folder / kind).read_text()
        except FileNotFoundError:
            return []
        return text[: text.rfind("\n") + 1].splitlines()

    def raise_flag(self, name: str) -> None:
        """Let handlers that wait for this go on."""
        (self.folder / name).touch()

    def lower_flag(self, name: str) -> None:
        """Let them wait again."""
        (self.folder / name).unlink(missing_ok=True)

    def flag(self, name: str) -> bool:
        """Whether the flag is up."""
        return (self.folder / name).exists()


def _parse(line: str) -> Line:
    run, attempt, token, pid, at, *word = line.split(" ", 5)
    return Line(run, int(attempt), int(token), int(pid), float(at), *word)


def define_jobs(app: Windlass, witness: Witness, only: list[str] | None = None) -> None:
    """Define the jobs, or some of them."""
    for handler, options in _handlers(app, witness):
        if only is None or handler.__name__ in only:
            app.job(**options)(handler)
    for name, mixed in (("pipeline", True), ("pipeline_in_thread", False)):
        if only is None or name in only:
            app.pipeline(name, *pipeline_phases(witness, mixed=mixed), max_attempts=1)
    if only is None or "counting" in only:
        app.batch(name="counting", shard_size=500, parallel=8, split_after="1s", max_attempts=50)(
            counted_unit(witness)
        )
        # One shard at first; it is halved again and again.
        app.batch(name="halving", shard_size=100_000, parallel=6, split_after="100ms")(
            counted_unit(witness)
        )
        define_gathering(app)
    if "hopeless" in app.jobs:

        @app.jobs["hopeless"].on_failure(max_attempts=1)
        async def mourn(ctx: Context, failed: FailedRun) -> str:
            """Hears of each `hopeless` run that has failed."""
            witness.write("effects", ctx, failed.id)
            return failed.id


def _handlers(app: Windlass, witness: Witness) -> list[tuple[Any, dict[str, Any]]]:
    async def load(ctx: Context, n: int, ms: int) -> int:
        """The usual: some work, one effect."""
        witness.write("starts", ctx)
        await asyncio.sleep(ms / 1000)
        witness.write("effects", ctx)
        return n

    def block(ctx: SyncContext, n: int, ms: int) -> int:
        """As `load`, in a thread."""
        witness.write("starts", ctx)
        time.sleep(ms / 1000)
        witness.write("effects", ctx)
        return n

    async def flaky(ctx: Context, n: int, ms: int) -> int:
        """As `load`, after none, one or two failures, or one more than it is allowed."""
        witness.write("starts", ctx)
        await asyncio.sleep(ms / 1000)
        if ctx.failures < n % (FLAKY_ATTEMPTS + 1):
            raise ConnectionError(f"failure {ctx.failures + 1}")
        witness.write("effects", ctx)
        return n

    async def quick(n: int) -> int:
        """Next to nothing."""
        return n

    async def heavy(ctx: Context, text: str) -> int:
        """Next to nothing, with much to read."""
        witness.write("effects", ctx)
        return len(text)

    async def hold(ctx: Context, n: int = 0) -> str:
        """Runs until the flag `release` is up; says so when it is told to end."""
        witness.write("starts", ctx)
        try:
            while not witness.flag("release"):  # noqa: ASYNC110 - another process raises it
                await asyncio.sleep(_LOOK)
        except asyncio.CancelledError:
            witness.write("told", ctx, "canceled")
            raise
        witness.write("effects", ctx)
        return "held"

    def patient(ctx: SyncContext) -> str:
        """The first attempt waits until it should end; it says when it hears of a shutdown."""
        witness.write("starts", ctx)
        heard = False
        while ctx.attempt == 1:
            if ctx.stopping and not heard:
                heard = True
                witness.write("told", ctx, "stopping")
            if ctx.canceled:
                witness.write("told", ctx, "canceled")
                return "told"
            time.sleep(_LOOK)
        witness.write("effects", ctx)
        return "fresh"

    def zombie(ctx: SyncContext) -> str:
        """The first attempt is stopped, and when it wakes up the flag `woken` is up: it tries
        everything. The second one waits."""
        witness.write("effects", ctx)
        witness.write("starts", ctx)
        if ctx.attempt == 1:
            while not witness.flag("woken"):
                time.sleep(_LOOK)
            _try_everything(app, witness, ctx)
            return "zombie"
        while not witness.flag("release"):
            time.sleep(_LOOK)
        return "fresh"

    def doomed(ctx: SyncContext, n: int) -> int:
        """The first attempt has its effect, and dies before it can say so."""
        witness.write("starts", ctx)
        witness.write("effects", ctx)
        if ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    async def poison(ctx: Context) -> None:
        """Kills its worker whenever it runs; no child process finds it."""
        witness.write("starts", ctx)
        os._exit(3)

    def last(ctx: SyncContext) -> str:
        """The first attempt raises `armed` on its way out: what follows is the end of it."""
        witness.write("starts", ctx)
        if ctx.attempt == 1:
            witness.write("effects", ctx)
            witness.raise_flag("armed")
            return "first"
        while not witness.flag("release"):
            time.sleep(_LOOK)
        witness.write("effects", ctx)
        return "second"

    async def hopeless(ctx: Context, n: int = 0, ms: int = 0) -> None:
        """Fails for good, and raises `armed` on its way out: what follows is the record of it."""
        witness.write("starts", ctx)
        await asyncio.sleep(ms / 1000)
        witness.raise_flag("armed")
        raise ConnectionError(f"failure of {n}")

    # What is tested here is, mostly, what becomes of attempts that do not fail.
    plain: dict[str, Any] = {"max_attempts": 1}
    patiently: dict[str, Any] = {"max_attempts": FLAKY_ATTEMPTS, "retry": Retry.fixed("50ms")}
    return [
        *((handler, plain) for handler in durable_handlers(app, witness)),
        (load, plain),
        (block, plain),
        (flaky, patiently),
        (quick, plain),
        (heavy, plain),
        (hold, plain),
        (patient, plain),
        (zombie, plain),
        (doomed, plain),
        (poison, plain),
        (last, plain),
        (hopeless, plain),
    ]


def durable_handlers(app: Windlass, witness: Witness) -> list[Any]:
    """Handlers with durable steps. Each call of a step's body writes a line `run step nonce`, and
    returns the nonce: what is recorded must be the last one that was written."""

    def body(run: str, step: str) -> str:
        nonce = f"{os.getpid()}-{time.monotonic_ns()}"
        witness.append("bodies", f"{run} {step} {nonce}")
        return nonce

    async def abody(run: str, step: str) -> str:
        nonce = body(run, step)
        await asyncio.sleep(0.01)
        return nonce

    async def leaf(ctx: Context, n: int) -> int:
        """A child of a workflow."""
        witness.write("starts", ctx)
        await asyncio.sleep(0.05)
        witness.write("effects", ctx)
        return n * n

    async def workflow(ctx: Context, n: int) -> dict[str, Any]:
        """Steps, one after another and beside each other, a sleep, a signal, a race, an approval, a
        fan-out, and an end that is committed with its effect."""
        witness.write("starts", ctx)
        run = ctx.run_id
        found: dict[str, Any] = {"a": await ctx.step("a", abody, run, "a")}
        found["b"], found["c"] = await asyncio.gather(
            ctx.step("b", abody, run, "b"), ctx.step("c", body, run, "c")
        )
        await ctx.sleep("nap", "1200ms")
        found["go"] = await ctx.wait_for("go", timeout="10m")
        found["first"] = (
            await ctx.first(fast=ctx.wait_for("fast"), slow=ctx.sleep("slow", "1200ms"))
        ).name
        found["ok"] = (await ctx.approval("Go on?", name="ok", expires="10m")).approved
        found["squares"] = await ctx.map(app.jobs["leaf"], range(n, n + 4), parallel=2)
        found["d"] = await ctx.step("d", abody, run, "d")
        witness.write("effects", ctx)
        async with app.transaction() as tx:
            await tx.execute(f"insert into ends values ('{run}')")  # noqa: S608 - an id
            return await ctx.using(connection=tx).finish(found)

    def workflow_in_thread(
        ctx: SyncContext, n: int, a: str | None = None
    ) -> dict[str, Any] | ContinueAs:
        """The same in a thread, as far as that can; after its first step it goes on as another
        generation."""
        witness.write("starts", ctx)
        run = ctx.run_id
        if a is None:
            return ContinueAs(n=n, a=ctx.step("a", body, run, "a"))
        found: dict[str, Any] = {"a": a}
        ctx.sleep("nap", "1200ms")
        found["go"] = ctx.wait_for("go", timeout="10m")
        found["squares"] = ctx.map(app.jobs["leaf"], range(n, n + 4))
        found["d"] = ctx.step("d", body, run, "d")
        witness.write("effects", ctx)
        return found

    return [leaf, workflow, workflow_in_thread]


def counted_unit(witness: Witness) -> Any:
    """The function of a batch: every 97th unit fails, and each third takes a while."""

    async def counting(unit: int, nap: float = 0.0) -> None:
        if unit % 97 == 13:
            raise ValueError(f"unit {unit}")
        if unit % 3 == 0:
            await asyncio.sleep(nap)

    return counting


def define_gathering(app: Windlass) -> None:
    """Batches whose ends count: `gathered` hears of those that succeed, `grieved` of others."""

    @app.job(max_attempts=1)
    async def gathered(batch: dict[str, Any]) -> str:
        return str(batch["run"])

    @app.batch(shard_size=2, parallel=3, max_failed=0, on_complete=gathered)
    async def gathering(unit: int, fails: bool) -> None:
        if fails and unit == 5:
            raise ValueError("five")

    @gathering.on_failure(name="grieved", max_attempts=1)
    async def grieved(failed: FailedRun) -> str:
        return failed.id


def pipeline_phases(witness: Witness, *, mixed: bool) -> list[Any]:
    """The phases of a pipeline, with a step and a sleep; each body writes a line as above."""

    def body(ctx: Any, phase: str) -> str:
        nonce = f"{os.getpid()}-{time.monotonic_ns()}"
        witness.append("bodies", f"{ctx.run_id} {phase} {nonce}")
        return nonce

    def first(ctx: SyncContext, n: int) -> str:
        ctx.progress(0.5, "half")
        found = body(ctx, "first")
        time.sleep(0.05)
        return found

    def second(ctx: SyncContext, first: str) -> str:
        ctx.step("inner", body, ctx, "second/inner")
        ctx.sleep("nap", "1200ms")
        return body(ctx, "second")

    async def asecond(ctx: Context, first: str) -> str:
        await ctx.step("inner", body, ctx, "second/inner")
        await ctx.sleep("nap", "1200ms")
        return body(ctx, "second")

    def third(ctx: SyncContext, first: str, second: str) -> dict[str, str]:
        time.sleep(0.05)
        body(ctx, "third")
        return {"first": first, "second": second}

    return [first, phase("second", asecond if mixed else second), third]


def _try_everything(app: Windlass, witness: Witness, ctx: SyncContext) -> None:
    """Whatever a worker may record, under a lease that is another's by now."""
    try:
        for _ in range(1000):  # at the latest, the next write finds out
            ctx.progress(0.5, "half way")
            time.sleep(0.01)
        witness.write("tried", ctx, "progress recorded")
    except LeaseLost:
        witness.write("tried", ctx, "progress refused")
    kept = Artifact(
        id=app.sources.new_id(), name="a.txt", content_type="text/plain", size=1,
        sha256="0" * 64, location="file:///a.txt", tenant=ctx.tenant,
    )  # fmt: skip
    app.store.run(app.store.operations.put_artifact(kept))
    try:
        ctx.artifacts.delete(kept)
        witness.write("tried", ctx, "delete recorded")
    except LeaseLost:
        witness.write("tried", ctx, "delete refused")
    worker, held = ctx._worker, Held(ctx.tenant, ctx.run_id, ctx.token)
    renewed = app.store.run(app.store.operations.renew(worker, 60.0, [held], 0))
    witness.write("tried", ctx, f"renewal {'recorded' if renewed.alive else 'refused'}")
    want = Want(limit=1, jobs=("load",))
    claimed = app.store.run(app.store.operations.cycle(worker, 1_000_000, [], want))
    witness.write("tried", ctx, f"claim {'refused' if claimed.refused else 'granted'}")
    for outcome in Outcome:
        end = Finish(tenant=ctx.tenant, id=ctx.run_id, token=ctx.token, outcome=outcome)
        reply = app.store.run(app.store.operations.cycle("zombie", 0, [end], None))
        word = "refused" if reply.lost else "recorded"
        witness.write("tried", ctx, f"{outcome} {word}")
