"""A Django project on disk, made anew for each test, and its programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.embedding.servers import PATIENCE

SETTINGS = "shop.settings"
ENVIRONMENT = {
    "DJANGO_SETTINGS_MODULE": SETTINGS,
    "WINDLASS_APP": "windlass.contrib.django.project",
}
WORKERS: dict[str, Sequence[str]] = {
    "manage.py windlass_worker": ("manage.py", "windlass_worker", "--threads", "1"),
    "windlass worker": ("-m", "windlass", "worker", "--threads", "1"),
    "app.running()": ("embedded.py",),
    "app.running_in_thread()": ("threaded.py",),
}
LONG = 150.0  # seconds for a whole run of Django's test runner on a busy machine
_SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent.parent
SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes", "django.contrib.auth", "windlass.contrib.django", "orders"
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
MIGRATION_MODULES = {"contenttypes": None, "auth": None}  # tables are made at once
"""
_MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
"""
_EMBEDDED = """
import asyncio, sys
from windlass.contrib.django.project import app

async def main():
    async with app.running(threads=1):
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
_THREADED = """
import sys
from windlass.contrib.django.project import app

with app.running_in_thread(threads=1):
    sys.stdin.read()
"""


def databases(url: str, **more: object) -> str:
    """The line of settings.py for a PostgreSQL database."""
    parts = urlsplit(url)
    default = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "PASSWORD": parts.password,
        "NAME": parts.path.lstrip("/"),
        **more,
    }
    return f"DATABASES = {{'default': {default!r}}}\n"


def make_project(folder: Path, settings: str, **files: str) -> Path:
    """A new project `shop` with an app `orders`; `files` are its modules, `settings` is added."""
    for package in ("shop", "orders"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    (folder / "shop/settings.py").write_text(_SETTINGS + settings)
    (folder / "manage.py").write_text(_MANAGE)
    for name, text in files.items():
        (folder / f"orders/{name}.py").write_text(text)
    (folder / "embedded.py").write_text(_EMBEDDED)
    (folder / "threaded.py").write_text(_THREADED)
    return folder


def manage(project: Path, *command: str, code: int = 0) -> str:
    """Run a command of manage.py; returns what it printed, its errors too."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=project,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@contextmanager
def working(project: Path, worker: str, **environment: str) -> Iterator[None]:
    """Run one of the WORKERS meanwhile."""
    process = subprocess.Popen(
        [sys.executable, *WORKERS[worker]],
        cwd=project,
        env={**os.environ, **ENVIRONMENT, **environment},
        stdin=subprocess.PIPE,
    )
    with process:
        try:
            yield
            if worker.startswith("app."):
                process.communicate(timeout=PATIENCE)  # it ends with its input
            else:
                process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
