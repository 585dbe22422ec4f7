"""A process that forks while its threads are inside SQLite: the copy can use the file."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from windlass.store.sqlite.forks import ForkGate

PROGRAM = """
import os, sys, threading
from windlass import Windlass

app = Windlass(sys.argv[1])

@app.job
def work(n: int) -> None: ...

app.migrate()
over = threading.Event()

def write() -> None:
    while not over.is_set():
        work.enqueue(1)

threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        copy = Windlass(sys.argv[1])
        copy.job(name="work")(work.spec.handler)
        copy.enqueue("work", {"n": 2})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over.set()
for thread in threads:
    thread.join()
print("done")
"""


def test_forks_in_the_midst_of_writes_can_use_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/windlass.db"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, url],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.stdout == "done\n", done.stderr


def test_gate_lets_its_own_thread_in_while_it_is_shut() -> None:
    gate = ForkGate()
    with gate:
        gate.shut()
        with gate:  # or a fork by a handler in the midst of its own call would never end
            pass
        gate.reopen()


def test_gate_waits_for_others_and_keeps_new_ones_out() -> None:
    gate = ForkGate()
    inside, leave, shut, forked, entered = (threading.Event() for _ in range(5))

    def stay() -> None:
        with gate:
            inside.set()
            leave.wait(10)

    def fork() -> None:
        gate.shut()
        shut.set()
        forked.wait(10)
        gate.reopen()

    def enter() -> None:
        with gate:
            entered.set()

    threads = [threading.Thread(target=target) for target in (stay, fork, enter)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    assert not shut.wait(0.05)
    leave.set()
    assert shut.wait(10)
    threads[2].start()
    assert not entered.wait(0.05)
    forked.set()
    assert entered.wait(10)
    for thread in threads:
        thread.join(10)


def test_gate_stays_shut_while_another_thread_forks() -> None:
    gate = ForkGate()
    shut, second = threading.Event(), threading.Event()

    def fork() -> None:
        shut.set()
        gate.shut()
        second.set()
        gate.reopen()

    gate.shut()
    thread = threading.Thread(target=fork)
    thread.start()
    assert shut.wait(10)
    assert not second.wait(0.05)
    gate.reopen()
    assert second.wait(10)
    thread.join(10)
    with gate:
        pass
