"""Applications that a function makes: `--app tasks:make_app`."""

import inspect
from collections.abc import Callable
from types import ModuleType

from windlass.app import Windlass
from windlass.domain.origin import ModuleMember
from windlass.errors import UsageError
from windlass.modules import guarded


def made_by(found: object, module: ModuleType, name: str) -> Windlass | None:
    """The application that a factory makes; None if what was found is no factory.

    The application knows its factory, so that child processes can call it too.
    """
    if not callable(found) or isinstance(found, type):
        return None
    place = f"{module.__name__}:{name}"
    if inspect.iscoroutinefunction(found):
        raise UsageError(f"{place} is async: a factory of an application is a plain function.")
    if _required(found):
        raise UsageError(f"{place} must make the application without arguments.")
    app = guarded(found, f"The factory {place} has failed")
    if not isinstance(app, Windlass):
        raise UsageError(f"{place} makes no Windlass but {type(app).__name__}.")
    app.made_by = ModuleMember(module.__name__, name)
    return app


def _required(factory: Callable[..., object]) -> bool:
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(factory).parameters.values()
    return any(p.default is p.empty and p.kind not in loose for p in parameters)
