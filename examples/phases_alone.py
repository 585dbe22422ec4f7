"""The phase runner alone: functions in order, with progress, and a place to go on from."""

from collections.abc import Sequence

from windlass.phases import PhaseContext, PhaseRunner, PhaseState


def download(url: str) -> str:
    print("downloading", url)
    return "film.mov"


def process(ctx: PhaseContext, download: str) -> str:
    ctx.progress(0.5, "half of it")
    if "process" not in broken:
        broken.append("process")
        raise ConnectionError("the machine went away")
    return f"{download}.mp4"


def upload(process: str, url: str) -> str:
    return f"{url} is now {process}"


def show(phases: Sequence[PhaseState], overall: float) -> None:
    print(f"{overall:4.0%}", *(f"{phase.name}={phase.status}" for phase in phases))


broken: list[str] = []
kept: dict[str, object] = {}  # a database of your own
runner = PhaseRunner(download, process, upload)
try:
    runner.run({"url": "a"}, completed=kept.__setitem__, changed=show)
except ConnectionError as error:
    print("failed:", error, "- done so far:", list(kept))
print(runner.run({"url": "a"}, done=kept, completed=kept.__setitem__, changed=show))
