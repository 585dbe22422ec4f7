"""A checkup of a store and of the work in it: `windlass doctor`, `examine(app)`.

Each check gives findings, none raises. Checks that build on something that was found broken are
not made, and say so; one that takes too long is given up, and says so.
"""

from windlass.doctor.running import examine

__all__ = ["examine"]
