"""The peers benchmark: its verdict and a run."""

import pytest

from agent.cli.progress import default
from hack.lab.benchmarks import peers
from hack.lab.benchmarks.peers import Standstill, peers_budgets, peers_lines

FOUND = [Standstill(0.0, 9.1, 9.9, 10.4), Standstill(2.5, 6.6, 7.2, 7.3)]


def test_the_longest_counts() -> None:
    (kept,) = peers_budgets(FOUND)
    assert (kept.measured, kept.limit, kept.kept) == (10.4, 12.0, True)
    (broken,) = peers_budgets([*FOUND, Standstill(1.0, 9.0, 9.9, 12.1)])
    assert not broken.kept


def test_a_peer_is_stopped_at_moments_between_two_checks_of_health() -> None:
    assert 1 <= peers.pause() < peers.LIMIT_SECONDS


def test_where_the_time_goes_is_told() -> None:
    assert "2.5 s after a check has begun" in peers_lines(FOUND)[3]
    assert "after 6.6 s" in peers_lines(FOUND)[3]


@pytest.mark.cluster
@pytest.mark.seldom
async def test_it_runs() -> None:
    lines, figures = await peers.peers(1, default())
    (one,) = figures["tries"]
    assert one["noticed"] <= one["told"] + peers.LOOK_SECONDS
    assert "budget" in "\n".join(lines)
