"""What `manage.py windlass_worker` shows on the console."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.embedding.django_project import make_project, manage

JOBS = """
from windlass.contrib.django import get_app

app = get_app()


@app.job
def greet(ctx) -> None:
    ctx.log.info("good morning")


@app.job(executor="process")
def greet_from_afar(ctx) -> None:
    ctx.log.info("good evening")
"""
ENQUEUE = "from orders.jobs import *; greet.enqueue(); greet_from_afar.enqueue()"


def shown(folder: Path, settings: str, *options: str) -> str:
    """What a worker writes that has two runs."""
    project = make_project(folder, settings, jobs=JOBS)
    manage(project, "shell", "--verbosity", "0", "-c", ENQUEUE)
    return manage(project, "windlass_worker", "--drain", *options)


ROOT = (
    "LOGGING = {'version': 1, 'disable_existing_loggers': False,"
    " 'handlers': {'console': {'class': 'logging.StreamHandler'}},"
    " 'root': {'handlers': ['console'], 'level': 'WARNING'}}\n"
)


@pytest.mark.parametrize("logging", ["", ROOT], ids=["unset", "root"])
def test_worker_shows_what_it_does(tmp_path: Path, logging: str) -> None:
    lines = shown(tmp_path, logging).splitlines()
    for words in ("worker started", "good morning", "good evening", "worker stopped"):
        assert len([line for line in lines if words in line]) == 1, words


def test_worker_follows_what_the_project_says_of_its_logs(tmp_path: Path) -> None:
    quiet = (
        "LOGGING = {'version': 1, 'disable_existing_loggers': False,"
        " 'loggers': {'windlass': {'level': 'ERROR'}}}\n"
    )
    assert shown(tmp_path, quiet) == ""


def test_command_line_counts_more_than_the_project(tmp_path: Path) -> None:
    quiet = "LOGGING = {'version': 1, 'loggers': {'windlass': {'level': 'ERROR'}}}\n"
    lines = shown(tmp_path, quiet, "--log", "json").splitlines()
    assert "worker started" in [json.loads(line)["message"] for line in lines]
