"""The gateway benchmark: its verdict and a run."""

from dataclasses import replace

import pytest

from agent.cli.progress import default
from hack.lab.benchmarks import gateway
from hack.lab.benchmarks.gateway import Measured, gateway_budgets, gateway_lines
from hack.lab.benchmarks.gatewayudp import Datagrams
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.stats import Spread

FOUND = Measured(
    mib=1024,
    streams=([1.0, 0.5], [2.0, 3.0]),
    connects=(Spread(0.0005, 0.001, 0.002), Spread(0.002, 0.004, 0.009)),
    rss={"1 Service": 70 * 1024, gateway.ALL: 180 * 1024, gateway.WEIGHED: 300 * 1024},
    beside={"1 Service": 40 * 1024, gateway.ALL: 60 * 1024, gateway.WEIGHED: 70 * 1024},
    stream_cpu=2.0,
    phase=Phase(10.0, {}, 0.0, {}),
    change=4.2,
)


def test_budgets_are_kept_by_the_best_stream_the_median_and_the_larger_envoy() -> None:
    assert [(round(each.measured, 3), each.kept) for each in gateway_budgets(FOUND)] == [
        (0.25, True),
        (2.0, True),
        (180.0, True),
    ]
    worse = replace(
        FOUND, streams=([0.5], [2.6]), connects=(FOUND.connects[0], Spread(0.0051, 1, 1)), rss={gateway.ALL: 205_000}
    )
    assert [each.kept for each in gateway_budgets(worse)] == [False, False, False]


def test_both_ways_stand_side_by_side() -> None:
    text = "\n".join(gateway_lines(FOUND))
    assert "2048 MiB/s  512 MiB/s" in text
    assert "the last one answers after 4.2 s" in text


@pytest.mark.seldom
async def test_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "SERVICES", 20)
    lines, figures = await gateway.gateway(8, default())
    assert len(figures["stream_gateway_seconds"]) == gateway.ROUNDS
    assert "budget" in "\n".join(lines)


def test_datagrams_are_told_beside_those_that_go_directly() -> None:
    spreads = (Spread(0.00005, 0.0001, 0.001), Spread(0.0004, 0.002, 0.003))
    text = "\n".join(Datagrams(spreads, 21.4).lines())
    assert "200 of 200: p50 0.05 ms, p99 0.10 ms directly, p50 0.40 ms, p99 2.00 ms through gateways" in text
    assert "memory of a UDP session, 1000 at once: 21 KiB" in text
