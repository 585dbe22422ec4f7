"""A worker in a process of its own, for latency across processes: prints each start."""

import asyncio
import sys
import time

from bench.ours import run
from windlass import Windlass


def main(url: str) -> None:
    """Serve until standard input closes."""
    app = Windlass(url)

    @app.job
    async def noop(user_id: int, template: str, locale: str, note: str) -> None:
        # CLOCK_MONOTONIC is the same for all processes of a machine.
        print(time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)

    async def serve() -> None:
        worker = app.worker()
        task = asyncio.create_task(worker.run())
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        worker.stop()
        await task

    run(serve())


if __name__ == "__main__":
    main(sys.argv[1])
