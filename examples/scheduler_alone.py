"""A scheduler alone: slots that are due become runs, for workers elsewhere."""

import asyncio
from datetime import timedelta

from windlass import Windlass, parts

app = Windlass("sqlite:///scheduler_alone.db")


@app.job
async def report() -> None: ...


async def main() -> None:
    soon = app.sources.now() + timedelta(milliseconds=300)
    schedule = await app.schedules.aput(report, key="one-report", once=soon)
    print("next slot:", "known" if schedule.next_slot else "none")
    scheduler = parts.scheduler(app)
    scheduler.start()
    while not (runs := await app.alist(job="report")):
        await asyncio.sleep(0.02)
    print(runs[0].job, runs[0].status, "for its slot:", runs[0].slot == soon)
    await scheduler.stop()
    await app.aclose()


if __name__ == "__main__":
    asyncio.run(main())
