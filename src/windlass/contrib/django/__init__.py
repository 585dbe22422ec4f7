"""Windlass in a Django project.

    INSTALLED_APPS = [..., "windlass.contrib.django"]
    WINDLASS_URL = "postgresql://…"         # else as everywhere: $WINDLASS_URL, windlass.toml

Jobs are in `jobs.py` of your apps, which is imported when Django starts:

    from windlass.contrib.django import get_app

    app = get_app()

    @app.job
    def send_invoice(order: int) -> None: ...

`manage.py windlass_worker` runs them. A project that makes its own `Windlass` names it instead, by
WINDLASS_APP = "module:name".
"""

from windlass.app import Windlass
from windlass.errors import UsageError


def get_app() -> Windlass:
    """The project's application; the same one at each call.

    Raises UsageError if `windlass.contrib.django` is not in INSTALLED_APPS.
    """
    from django.apps import apps

    from windlass.contrib.django.apps import WindlassConfig

    try:
        config = apps.get_app_config(WindlassConfig.label)
    except LookupError:
        why = 'Django does not know Windlass: add "windlass.contrib.django" to INSTALLED_APPS.'
        raise UsageError(why) from None
    assert isinstance(config, WindlassConfig)
    return config.windlass
