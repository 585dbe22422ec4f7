"""The rounds: every entry once per round, so that the moods of the machine hit all of them.

An entry that fails is out of the race, and the report says why.
"""

from collections.abc import Callable, Iterator, Sequence

from bench.peers.catalogue import Peer, Unavailable
from bench.peers.environments import Environment
from bench.peers.results import Figures, Line

Install = Callable[[Peer], Environment]
Measure = Callable[[Line, Environment], Figures]
Tell = Callable[[str], None]


def race(
    lines: Sequence[Line], install: Install, measure: Measure, rounds: int, tell: Tell
) -> None:
    """Install all peers, then run the rounds. What comes of it is in the lines."""
    environments = [_enlist(line, install, tell) for line in lines]
    starters = [(line, found) for line, found in zip(lines, environments, strict=True) if found]
    for number in range(rounds):
        for line, environment in _turned(starters, number):
            if not line.failure:
                _run(line, environment, number, measure, tell)


def _enlist(line: Line, install: Install, tell: Tell) -> Environment | None:
    tell(f"installing {line.entry.peer.name}")
    try:
        environment = install(line.entry.peer)
    except Unavailable as error:
        line.failure = str(error)
        return None
    line.packages = environment.packages
    return environment


def _run(line: Line, environment: Environment, number: int, measure: Measure, tell: Tell) -> None:
    try:
        line.rounds[number] = measure(line, environment)
    except Unavailable as error:
        line.failure = str(error)
    said = line.failure or f"{line.rounds[number]}"
    tell(f"round {number + 1}: {line.entry.peer.name} on {line.entry.store}: {said}")


T = tuple[Line, Environment]


def _turned(starters: Sequence[T], number: int) -> Iterator[T]:
    """Begin one entry further in each round."""
    start = number % max(len(starters), 1)
    yield from starters[start:]
    yield from starters[:start]
