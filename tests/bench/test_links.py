"""The links benchmark: criterion for a working link, limits of a resync, verdict, and a run."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from agent.cli.progress import default
from hack.lab.benchmarks import links
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.linkreport import Found, Work, link_budgets, link_lines, stored
from hack.lab.benchmarks.linktimes import is_programmed, reaches


def work(**writes: float) -> Work:
    found = {f"source-agent PATCH {name} 200": count for name, count in writes.items()}
    return Work(Phase(10.0, {}, 0.0, found), 1.0, {"links": 20.0})


FOUND = Found(
    links=100,
    targets=10,
    programmed=[0.5] * 99 + [4.0],
    well=([0.5, 0.6], [0.7]),
    dark=([0.6, 0.9], [1.0]),
    work={
        "created": work(services=200.0),
        "last": work(services=2.0),
        "touched": work(leases=3.0, selfsubjectaccessreviews=4.0),
        "restarted": work(),
        "well": work(),
        "dark": work(),
    },
)


def verdict(found: Found) -> list[bool]:
    return [each.kept for each in link_budgets(found)]


def test_budgets_are_kept() -> None:
    assert verdict(FOUND) == [True] * 6


def test_each_budget_can_be_broken() -> None:
    assert verdict(replace(FOUND, programmed=[5.1] * 100))[0] is False
    assert verdict(replace(FOUND, work={**FOUND.work, "touched": work(servicelinks=1.0)}))[1] is False
    assert verdict(replace(FOUND, work={**FOUND.work, "restarted": work(endpointslices=1.0)}))[2] is False
    assert verdict(replace(FOUND, dark=([5.1], [1.0])))[3] is False
    assert verdict(replace(FOUND, dark=([0.6, 1.2], [1.0])))[4] is False
    assert verdict(replace(FOUND, dark=([0.6], [11.0])))[5] is False


def test_questions_and_heartbeats_are_no_writes() -> None:
    asked = {"source-agent POST subjectaccessreviews 201": 4.0, "source-agent PUT leases 200": 9.0}
    assert stored({**asked, "source-agent PATCH servicelinks/status 200": 2.0}) == {
        "source-agent PATCH servicelinks/status": 2.0
    }


def test_what_a_resync_writes_is_told_by_resource() -> None:
    worse = replace(FOUND, work={**FOUND.work, "restarted": work(servicelinks=26.0)})
    text = "\n".join(link_lines(worse, 5.0))
    assert "started again, and a target's: source-agent PATCH servicelinks" in text
    assert "writes of a resync" not in "\n".join(link_lines(FOUND, 5.0))


def link(status: str, *rows: tuple[str, list[str], str]) -> dict[str, Any]:
    clusters = [{"cluster": cluster, "from": sources, "ready": ready} for cluster, sources, ready in rows]
    return {"status": {"clusters": clusters, "conditions": [{"type": "Programmed", "status": status}]}}


def test_a_link_counts_once_it_tells_of_all_pairs() -> None:
    rows = ("cd", ["us", "eu"], "True"), ("us", ["eu"], "True")
    assert is_programmed(link("True", *rows), 3)
    assert not is_programmed(link("True", *rows), 4)
    assert not is_programmed(link("False", *rows), 3)
    assert not is_programmed({}, 0)


def test_a_pair_counts_whatever_is_with_others() -> None:
    found = link("False", ("cd", ["us", "eu"], "True"), ("us", ["eu"], "False"))
    assert reaches(found, "cd", "eu")
    assert not reaches(found, "us", "eu")
    assert not reaches(found, "eu", "us")


def test_services_are_spread_over_namespaces_and_over_where_endpoints_are() -> None:
    found = links.services([f"team-{number}" for number in range(10)], 0, 90)
    assert set(Counter(space for space, _ in found).values()) == {9}
    for number in range(10):
        kinds = Counter(name.partition("-")[0] for space, name in found if space == f"team-{number}")
        assert set(kinds.values()) == {3}
    assert (
        links.service(("team-1", "eu-7"))["spec"]["selector"].keys()
        <= links.endpoint("eu", "x")["metadata"]["labels"].keys()
    )
    assert (
        not links.service(("team-1", "us-7"))["spec"]["selector"].keys()
        <= links.endpoint("eu", "x")["metadata"]["labels"].keys()
    )


@pytest.mark.parametrize("count", [links.FEWEST, 13, 24, 60, links.LINKS])
@pytest.mark.parametrize("spaces", [2, 3, 50, 5000])
def test_some_are_created_before_those_that_are_created_apart(count: int, spaces: int) -> None:
    assert sum(links.apart(count, spaces)) < count


async def test_too_few_are_refused() -> None:
    with pytest.raises(BenchError, match="--links 11: at least 12"):
        await links.links((11, 4), default())


@pytest.mark.cluster
@pytest.mark.seldom
@pytest.mark.timeout(600)
@pytest.mark.parametrize("driver", links.DRIVERS)
async def test_it_runs(driver: str) -> None:
    lines, figures = await links.links((24, 4), default(), driver)
    assert figures["driver"] == driver
    assert len(figures["programmed_seconds"]) == 24
    assert "budget" in "\n".join(lines)
