"""A dispatcher alone: runs whose time has come go to their queues, and expired ones end."""

import asyncio

from windlass import Windlass, parts

app = Windlass("sqlite:///dispatcher_alone.db", poll="50ms")


@app.job
async def later() -> None: ...


async def main() -> None:
    run = await later.using(delay="100ms").aenqueue()
    print(run.status)
    dispatcher = parts.dispatcher(app)
    dispatcher.start()
    while (await run.arefresh()).status == "scheduled":
        await asyncio.sleep(0.02)
    print(run.status)  # it waits for a worker now
    await dispatcher.stop()
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
