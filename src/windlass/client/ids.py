"""Ids of runs as people and programs give them."""

from windlass.errors import RunNotFound


def check_id(run: object) -> str:
    """An id as the stores know it; what cannot be one is not found, alike on both."""
    text = run.strip().lower() if isinstance(run, str) else ""
    digits = text.replace("-", "")
    if len(digits) != 32 or any(c not in "0123456789abcdef" for c in digits):
        raise RunNotFound(str(run)[:100])
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
