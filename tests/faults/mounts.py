"""Programs that see a file system mounted which nobody else sees."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAY_NOT_MOUNT = 77


def mounted(mount: str, program: str) -> tuple[int, str]:
    """Mount, then run a program; return its exit code and what it printed.

    Where this user may not mount (or this system cannot), the code is MAY_NOT_MOUNT and the
    program was not run. Everything is gone with the processes.
    """
    if shutil.which("unshare") is None:
        return MAY_NOT_MOUNT, ""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} 2>/dev/null || exit {MAY_NOT_MOUNT}\n{program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    denied = "unshare" in done.stderr and not done.stdout
    return (MAY_NOT_MOUNT if denied else done.returncode), done.stdout
