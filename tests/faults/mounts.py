"""Programs that see a file system mounted which nobody else sees.

Root may mount, of a machine and of most containers; elsewhere the user may be root of a namespace
of their own. Where neither is allowed the tests take another form, and their ids tell which.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_WAYS = (("unshare", "-m"), ("unshare", "-r", "-m"))


def mounted(mount: str, program: str) -> str:
    """Mount, then run a program; return what it printed. All is gone with the processes."""
    assert _WAY is not None
    done = subprocess.run(
        [*_WAY, "sh", "-c", f"{mount} && {program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    return done.stdout


def _find_way() -> tuple[str, ...] | None:
    """How this user may mount here, if at all."""
    if shutil.which("unshare") is None:
        return None
    for way in _WAYS:
        attempt = [*way, "mount", "-t", "tmpfs", "none", "/tmp"]
        if subprocess.run(attempt, capture_output=True).returncode == 0:
            return way
    return None


_WAY = _find_way()
MOUNTED = "mounted"
FORMS = ("pretended", MOUNTED) if _WAY is not None else ("no-mount-here-so-pretended",)
