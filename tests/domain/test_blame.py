"""Who is to blame for a crash, and how a run that kills its worker is found among many."""

from __future__ import annotations

import math
import random  # noqa: TID251 - of a seed: how the suspects are dealt out

import pytest

from windlass.domain.blame import after_lost_worker, group_size, is_suspect
from windlass.domain.states import Verb


def test_half_of_the_suspects_run_together() -> None:
    assert [group_size(n, crashes=1) for n in (1, 2, 3, 20)] == [1, 1, 2, 10]


def test_the_other_half_runs_together_once_the_first_has_come_through() -> None:
    assert group_size(10, crashes=1, cleared=10) == 10
    assert group_size(10, crashes=1, cleared=3) == 5


def test_a_crowd_of_suspects_is_down_to_one_at_the_ninth_crash() -> None:
    assert [group_size(100_000, crashes=n) for n in range(1, 11)] == [
        256, 128, 64, 32, 16, 8, 4, 2, 1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("number", [2, 3, 7, 20, 100, 500])
@pytest.mark.parametrize("max_crashes", [2, 3])
def test_only_the_run_that_kills_its_worker_is_given_up(number: int, max_crashes: int) -> None:
    """Workers that know nothing of each other, each of which gets some of the suspects."""
    for seed in range(20):
        chance = random.Random(seed)
        crashes = dict.fromkeys(range(number), 1)  # the first crash, of all of them
        poison, deaths = chance.randrange(number), 1
        while poison in crashes:
            claimed = chance.sample(sorted(crashes), chance.randint(1, len(crashes)))
            most = max(crashes[run] for run in claimed)
            alike = [run for run in claimed if crashes[run] == most]
            group = alike[: group_size(len(alike), crashes=most)]
            if poison not in group:
                for run in group:
                    del crashes[run]
                continue
            deaths += 1
            for run in group:
                crashes[run] += 1
                alone = len(group) == 1
                verb = after_lost_worker(crashes[run], alone=alone, max_crashes=max_crashes)
                if verb is Verb.CRASH:
                    assert run == poison, "an innocent run was given up"
                    del crashes[run]
        assert deaths <= max(math.ceil(math.log2(number)) + 2, max_crashes)
        assert all(is_suspect(count) for count in crashes.values())
