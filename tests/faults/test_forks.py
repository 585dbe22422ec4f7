"""F35: processes that handlers and web servers fork, and the connections they must not share."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.harness import ROOT, Fleet, Stage, run_number
from tests.faults.test_crashes import jobs
from windlass import Windlass

__all__ = ["jobs"]


def test_what_a_handler_forks_uses_connections_of_its_own(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    worker = fleet.ready_command(lease=20.0)  # a machine that is busy is no crash
    runs = [jobs.jobs["fork"].enqueue(how=how) for how in ("os", "multiprocessing", "subprocess")]
    runs += [jobs.jobs["fork_on_loop"].enqueue()]
    stage.quiet()

    for run in runs:
        run.refresh()
        assert (run.result, run.attempt, run.crash_count) == ("the original", 1, 0)
    made = jobs.list(job="good")
    assert [run.status for run in made] == ["succeeded"] * 6
    stage.check(acked=[run.id for run in (*runs, *made)])
    assert worker.alive
    # The copies are gone: nothing waits on in the worker's name.
    assert len(stage.rows("workers")) == 1


PREFORK = """
import os, sys
from windlass import Windlass
app = Windlass(sys.argv[1])

@app.job
def work(n: int): ...

work.enqueue(n=0)                       # a connection is open
children = []
for number in (1, 2):
    child = os.fork()
    if child == 0:
        for n in range(20):
            work.enqueue(n=number * 100 + n)
        sys.exit()                      # with all that Python does at exit
    children.append(child)
for n in range(20):
    work.enqueue(n=n + 1)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
work.enqueue(n=21)                      # the connection still is
assert app.get(work.enqueue(n=22).id).status == "queued"
app.close()
"""


@pytest.mark.parametrize("server", ["sync", "async"])
def test_a_web_server_that_forks_after_the_import_needs_nothing_special(
    stage: Stage, server: str
) -> None:
    script = PREFORK
    if server == "async":
        script = script.replace("import os, sys", "import asyncio, os, sys").replace(
            "            work.enqueue(n=number * 100 + n)",
            "            asyncio.run(serve(number * 100 + n))",
        )
        script = script.replace(
            "work.enqueue(n=0) ",
            "async def serve(n):\n    await work.aenqueue(n=n)\n    await app.aclose()\n\n"
            "work.enqueue(n=0) ",
        )
    subprocess.run([sys.executable, "-c", script, stage.url], cwd=ROOT, check=True, timeout=40)

    assert len(stage.rows("runs")) == 1 + 3 * 20 + 2
    stage.check(settled=False)


TRANSACTION = """
import os, sys
from windlass import UsageError, Windlass
app = Windlass(sys.argv[1])

@app.job
def work(n: int): ...

work.enqueue(n=0)
with app.transaction() as tx:
    work.using(connection=tx).enqueue(n=1)
    child = os.fork()
    if child == 0:
        try:
            work.using(connection=tx).enqueue(n=2)
        except UsageError as error:
            if "before a fork" in str(error):
                raise                   # out of the with statement, which must end nothing
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    work.using(connection=tx).enqueue(n=4)
assert app.list(limit=10)[0].status == "queued"
app.close()
"""


def test_a_transaction_is_not_the_fork_s_to_use_or_to_end(stage: Stage) -> None:
    command = [sys.executable, "-c", TRANSACTION, stage.url]
    subprocess.run(command, cwd=ROOT, check=True, timeout=40)

    assert sorted(run_number(row["input"]) for row in stage.rows("runs")) == [0, 1, 4]
    stage.check(settled=False)
