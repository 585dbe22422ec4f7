"""The worker's logs, in a project whose logs Django configures.

Django's own configuration says nothing of `windlass`, and its root logger shows warnings only: a
worker would work in silence. So `manage.py windlass_worker` shows its lines, unless LOGGING says
what is to become of them.
"""

import logging

from django.conf import settings as django_settings

from windlass import logs
from windlass.config import Settings


def show_logs(settings: Settings, kind: str | None = None, level: str | None = None) -> None:
    """Send Windlass' own lines to standard error, unless the project has configured them.

    `kind` and `level` are those of the command line; given, they count more than LOGGING.
    """
    told = Settings.load(log=kind, log_level=level)
    shown, least = (
        (told.log if kind else settings.log),
        (told.log_level if level else settings.log_level),
    )
    if kind is None and level is None:
        if _configured():
            return
        if logging.getLogger().handlers:
            # LOGGING has a place for everything. What is missing is the level.
            logging.getLogger(logs.LOGGER).setLevel(least)
            return
    logs.configure(shown, least, logger=logs.LOGGER)


def _configured() -> bool:
    """Whether LOGGING, or code of the project, says what becomes of Windlass' lines."""
    ours = logging.getLogger(logs.LOGGER)
    handlers = [h for h in ours.handlers if not isinstance(h, logging.NullHandler)]
    named = (getattr(django_settings, "LOGGING", None) or {}).get("loggers", {})
    below = any(name.startswith(f"{logs.LOGGER}.") for name in named)
    return bool(handlers or below or ours.level != logging.NOTSET or not ours.propagate)
