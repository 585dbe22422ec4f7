"""What the free space of a disk means."""

from windlass.domain.checkup import Finding, Limits, error, fine, warning

_LAST = 10  # of the space that is warned of, this part is an error


def judge_room(free: int, place: str, limits: Limits) -> Finding:
    """Whether so many free bytes are enough."""
    text = f"{free / 1024**2:,.0f} MiB are free for {place}"
    if free >= limits.free_bytes:
        return fine(f"{text}.")
    advice = "Make room on the disk: without it nothing can be enqueued, finished or deleted."
    if free < limits.free_bytes / _LAST:
        return error(f"Only {text}.", advice)
    return warning(f"Only {text}.", advice)
