"""A signal at an exact instant of a process's start: before a given line of a given function.

`sitecustomize` is imported by Python itself before anything of ours. Ours watches the lines of all
threads, and stops before the line that was asked for until the test has sent the signal. To a
supervised worker it is its supervisor that sends it, which the test has told.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SITE = """
import os, sys, threading, time

def watch(role, place, number, flag):
    if "windlass" not in sys.orig_argv or ("--supervised" in sys.orig_argv) != (role == "worker"):
        return
    seen = 0

    def line(frame, event, arg):
        nonlocal seen
        if event != "line":
            return line
        seen += 1
        if seen != number:
            return line
        sys.settrace(None)
        threading.settrace(None)
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:  # the other worker was first
            return None
        while not os.path.exists(flag + ".sent"):
            time.sleep(0.002)
        if role == "worker":
            time.sleep(0.3)  # for it to be passed on; if that takes longer it is fine as well
        return None

    def call(frame, event, arg):
        code = frame.f_code
        where = code.co_filename.rpartition("/windlass/")
        return line if where[1] and place in (f"{where[2]}:{code.co_name}", "*") else None

    sys.settrace(call)
    threading.settrace(call)

if "TOLD_AT" in os.environ:
    role, place, number, flag = os.environ["TOLD_AT"].split(" ")
    watch(role, place, int(number), flag)
"""


@dataclass(frozen=True)
class Instant:
    """Before the line `number`, as they are run, of a function; `*`: of all that is ours."""

    place: str
    number: int = 1

    def flag(self, folder: Path) -> Path:
        """A file that is there once the process has come so far."""
        return folder / f"told at {self}".replace("/", " ").replace(" ", "_")

    def environ(self, role: str, folder: Path) -> Mapping[str, str]:
        """What a process in this folder needs for it; `role`: it is told, or one of its workers."""
        site = folder / "sitecustomize.py"
        if not site.exists():  # it is not written while one that was started before reads it
            site.write_text(SITE)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        told = f"{role} {self.place} {self.number} {self.flag(folder)}"
        return {"PYTHONPATH": path, "TOLD_AT": told}

    def __str__(self) -> str:
        return f"{self.place} {self.number}"
