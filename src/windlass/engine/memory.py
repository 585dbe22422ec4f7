"""How much memory this process uses."""

import os
import sys
from pathlib import Path

MEGABYTE = 1024 * 1024


def resident() -> int:
    """Bytes in memory now; where the system does not say, the most there were so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        pass
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
