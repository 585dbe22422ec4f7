"""A worker in a process of its own, for pickup across processes: prints the times of each start."""

import asyncio
import sys

from bench.claims import worker_on
from bench.ours import now, run
from bench.pickup import Stamped
from windlass import Windlass


def main(url: str) -> None:
    """Serve until standard input closes."""
    app = Windlass(url)
    store = Stamped(app.store)

    @app.job
    async def noop(user_id: int, template: str, locale: str, note: str) -> None:
        started = now()
        print(store.sent, store.answered, started, flush=True)

    async def serve() -> None:
        worker = worker_on(store, app)
        task = asyncio.create_task(worker.run())
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        worker.stop()
        await task

    run(serve())


if __name__ == "__main__":
    main(sys.argv[1])
