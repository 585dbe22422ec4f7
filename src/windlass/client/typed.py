"""The type of a run's result, as type checkers see it.

Where it is left out it is Any: `Run` means `Run[Any]`. Only type checkers know of such defaults
before Python 3.13, so the type variable that the program itself has is a plain one.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

R = TypeVar("R")
