"""A reaper alone: it takes back what a worker held when it was killed.

The worker is this program, started a second time.
"""

import asyncio
import sys

from windlass import Windlass, parts

app = Windlass("sqlite:///reaper_alone.db", lease="1s")


@app.job
async def endless() -> None:
    await asyncio.Event().wait()


async def main() -> None:
    run = await endless.aenqueue()
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "worker")
    while (await run.arefresh()).status != "running":
        await asyncio.sleep(0.02)
    process.kill()  # no last words
    await process.wait()
    reaper = parts.reaper(app)
    reaper.start()
    while (await run.arefresh()).status == "running":  # until its lease has run out
        await asyncio.sleep(0.05)
    print(run.status, "after", run.crash_count, "crash")
    await reaper.stop()
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(app.worker(services=False).run() if sys.argv[1:] else main())
