"""A worker without services: it runs what is ready and leaves everything else to others."""

import asyncio

from windlass import Windlass

app = Windlass("sqlite:///worker_alone.db")


@app.job
async def greet(name: str) -> str:
    return f"Hello, {name}"


async def main() -> None:
    runs = [await greet.aenqueue(name) for name in ("Ada", "Grace")]
    worker = app.worker(services=False, concurrency=10)
    working = asyncio.create_task(worker.run())
    await worker.drained()
    worker.stop()  # begins the stop; run() returns when all is finished or given back
    await working
    for run in runs:
        print((await run.arefresh()).result)
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
