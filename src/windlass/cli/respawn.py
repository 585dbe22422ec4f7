"""The command that was typed, for a process of the same kind."""

import sys
from collections.abc import Collection

import click


def same_command(*more: str, without: Collection[str]) -> list[str]:
    """This command with the same options, as a process starts it, and with `more`.

    `without` names the parameters that are not passed on.
    """
    context = click.get_current_context()
    place = context.find_object(dict) or {}
    given = {f"--{name}": place[name] for name in ("app", "url") if place.get(name)}
    command = [sys.executable, "-m", "windlass", context.command.name or "", *more]
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in without or value in (None, False):
            continue
        given[option.opts[0]] = value
    for name, value in given.items():
        command += [name] if value is True else [name, str(value)]
    return command
