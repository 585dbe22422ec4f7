"""The configuration on the page about deployment is one that works."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import yaml

from windlass.cli import main
from windlass.config import Settings

PAGE = (Path(__file__).parents[2] / "docs/deployment.md").read_text("utf-8")
FILES: dict[str, str] = dict(
    re.findall(r"^```(?:ini|yaml|dockerfile)\n# (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)
NEEDED = Settings.load(environ={}).drain + 5


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(FILES[f"/etc/systemd/system/{name}"])
    return parser


def assert_understood(command: list[str]) -> None:
    """The command line is one that `windlass` takes; it is not run."""
    name, arguments = command[1], command[2:]
    found = main.get_command(
        main.make_context("windlass", [name, "--help"], resilient_parsing=True), name
    )
    assert found is not None, name
    found.make_context(name, arguments).close()


def test_commands_of_the_units_are_understood() -> None:
    for name in ("shop-worker.service", "shop-backup.service"):
        assert_understood(shlex.split(unit(name)["Service"]["ExecStart"]))


def test_commands_of_the_containers_are_understood() -> None:
    found = re.search(r"^CMD (\[.*\])$", FILES["Dockerfile"], re.MULTILINE)
    assert found is not None
    assert_understood(json.loads(found[1]))
    assert_understood(yaml.safe_load(FILES["compose.yaml"])["services"]["migrate"]["command"])


def test_whoever_stops_a_worker_waits_longer_than_it_drains() -> None:
    worker = yaml.safe_load(FILES["compose.yaml"])["services"]["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) >= NEEDED
    assert int(unit("shop-worker.service")["Service"]["TimeoutStopSec"]) >= NEEDED


def test_variables_of_the_containers_are_settings() -> None:
    for service in yaml.safe_load(FILES["compose.yaml"])["services"].values():
        told = {
            n: v for n, v in service.get("environment", {}).items() if n.startswith("WINDLASS_")
        }
        assert Settings.load(environ=told).app in ("shop.worker:app", None)
