"""Effects of lost links on decisions of Placements: the source's own link, and that of one target."""

from typing import Any

import pytest

from agent.api.names.ocm import KEEP_DECIDED
from agent.placement.managed_clusters.decide import View
from agent.placement.managed_clusters.outages import Outages, are_silent
from tests.controllers.placement.test_managedclusters_decide import (
    DEAD,
    LOST,
    MISSING,
    READY,
    lead,
    said,
    taints,
    view,
    written,
)
from tests.ranking.placing.fleets import addon, evaluated, exact, names, placement, score

Raw = dict[str, Any]

AFTER = 300.0
TAINT = {"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}


class Source:
    """Placements of a source over clusters with one Target each; its agent creates the ManagedClusters."""

    def __init__(self, clusters: int, placements: list[Raw]) -> None:
        self.seconds = 0.0
        self.outages = Outages(lambda: self.seconds)
        self.silent: set[str] = set()
        self.clusters: dict[str, Raw | None] = {f"c{number:02}": None for number in range(clusters)}
        self.placements = placements
        self.decided: list[tuple[str, ...]] = [()] * len(placements)
        self.scores: list[Raw] = []
        self.look()

    def look(self) -> None:
        """Reconcile each ManagedCluster, then evaluate each Placement."""
        for name in self.clusters:
            said = LOST if name in self.silent else READY
            target = {"metadata": {}, "status": {"clusterUID": name, "conditions": said}}
            self.outages.put(("", name), target)
        for name, current in self.clusters.items():
            self.outages.note(name, silent=name in self.silent)
            self.clusters[name] = written(self._view(name, current))
        for index, each in enumerate(self.placements):
            others = [name for other, decided in enumerate(self.decided) if other != index for name in decided]
            elsewhere = {name: others.count(name) for name in others}
            clusters = [found for found in self.clusters.values() if found is not None]
            outcome = evaluated(each, clusters, decided=self.decided[index], elsewhere=elsewhere, scores=self.scores)
            self.decided[index] = tuple(sorted(names(outcome)))

    def _view(self, name: str, current: Raw | None) -> View:
        one = lead(LOST if name in self.silent else READY, failover_after=AFTER)
        return view(one, name=name, uid=name, current=current, silent_for=self.outages.seconds(name))

    def cut(self, *names: str) -> None:
        """Disconnect clusters, one after the other."""
        for name in names:
            self.silent.add(name)
            self.look()

    def mend(self, *names: str) -> None:
        """Reconnect clusters, one after the other."""
        for name in names:
            self.silent.discard(name)
            self.look()

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.look()


@pytest.mark.parametrize("seconds", [15, 290, 3600])
def test_a_loss_of_the_own_link_moves_nothing_of_one_placement(seconds: float) -> None:
    source = Source(2, [placement(numberOfClusters=1)])
    (before,) = source.decided
    (other,) = set(source.clusters) - {*before}
    source.cut(*source.clusters)
    source.wait(seconds)
    source.mend(other)
    source.wait(10)
    assert source.decided == [before], "only the other one is back"
    source.mend(*before)
    assert source.decided == [before]


def test_a_loss_of_the_own_link_moves_nothing_of_forty_placements_whatever_order_targets_come_back_in() -> None:
    source = Source(4, [placement(numberOfClusters=1) for _ in range(40)])
    before = list(source.decided)
    assert len(set(before)) == 4, "they are balanced"
    for order in (source.clusters, reversed(source.clusters)):
        names_in_order = tuple(order)
        source.cut(*names_in_order)
        source.wait(3600)
        for name in names_in_order:
            source.mend(name)
            source.wait(20)
        assert source.decided == before


def test_a_cluster_that_is_silent_alone_keeps_its_decisions_for_as_long_as_failover_waits() -> None:
    source = Source(3, [placement(numberOfClusters=1)])
    (before,) = source.decided
    source.cut(*before)
    source.wait(AFTER - 1)
    assert source.decided == [before]
    source.wait(1)
    assert source.decided != [before]
    after = list(source.decided)
    source.mend(*before)
    assert source.decided == after, "what is decided is steady"


REFUSED, FORBIDDEN = said("False", "Unauthorized", "Unknown"), said("False", "Forbidden", "Unknown")
ELSEWHERE, CONNECTING = said("False", "WrongCluster", "Unknown"), said("False", "Connecting", "Unknown")
UNUSABLE = said("False", "InvalidKubeconfig", "Unknown")


@pytest.mark.parametrize(
    ("targets", "want"),
    [
        pytest.param([LOST], True, id="it does not answer"),
        pytest.param([said("False", "Failing", "Unknown")], True, id="it answers with errors only"),
        pytest.param([REFUSED], False, id="it refuses the credentials"),
        pytest.param([FORBIDDEN], False, id="it forbids what the agent needs"),
        pytest.param([MISSING], False, id="no agent is installed"),
        pytest.param([ELSEWHERE], False, id="another cluster answers"),
        pytest.param([CONNECTING], False, id="it is connecting"),
        pytest.param([[]], False, id="nothing is known yet"),
        pytest.param([], False, id="no Target leads there"),
        pytest.param([LOST, LOST], True, id="neither of two answers"),
        pytest.param([LOST, READY], False, id="one of two answers"),
        pytest.param([LOST, REFUSED], False, id="one of two refuses the credentials"),
        pytest.param([LOST, UNUSABLE], True, id="one of two has no usable kubeconfig"),
        pytest.param([LOST, ELSEWHERE], True, id="one of two leads to another cluster"),
    ],
)
def test_silence_is_what_no_target_contradicts(targets: list[list[Raw]], want: bool) -> None:
    assert are_silent(targets) is want


@pytest.mark.parametrize("refusal", [REFUSED, FORBIDDEN, DEAD])
@pytest.mark.parametrize("after", [0.0, AFTER])
def test_a_cluster_that_refuses_the_agent_is_never_lost(refusal: list[Raw], after: float) -> None:
    seconds = [0.0]
    outages = Outages(lambda: seconds[0])
    before = written(view(lead(READY, failover_after=after)))
    outages.note("eu", silent=are_silent([refusal]))
    seconds[0] = 10 * AFTER
    refused = view(lead(refusal, failover_after=after), current=before, silent_for=outages.seconds("eu"))
    assert ("cluster.open-cluster-management.io/unreachable", "NoSelect") not in taints(written(refused))
    assert outages.due("eu", after) is None


def test_seconds_in_which_most_clusters_are_silent_do_not_count() -> None:
    source = Source(4, [placement(numberOfClusters=1)])
    (before,) = source.decided
    others = set(source.clusters) - {*before}
    source.cut(*source.clusters)
    source.wait(3600)
    source.mend(*others)
    source.wait(AFTER - 1)
    assert source.decided == [before]
    source.wait(1)
    assert source.decided != [before]


def test_a_new_placement_decides_for_no_cluster_that_is_silent() -> None:
    source = Source(3, [placement(numberOfClusters=3)])
    source.cut("c00")
    source.placements.append(placement(numberOfClusters=3))
    source.decided.append(())
    source.look()
    assert source.decided == [("c00", "c01", "c02"), ("c01", "c02")]


def test_a_taint_that_a_person_has_written_counts_at_once_also_while_the_own_link_is_lost() -> None:
    source = Source(2, [placement(numberOfClusters=1)])
    (before,) = source.decided
    source.cut(*source.clusters)
    kept = source.clusters[before[0]]
    assert kept is not None
    kept["spec"]["taints"].append(TAINT)
    source.look()
    assert source.decided == [()]


@pytest.mark.parametrize("annotations", [{}, {KEEP_DECIDED: "true"}])
def test_scores_that_a_silent_cluster_has_no_longer_take_no_decision_from_it(annotations: dict[str, str]) -> None:
    best = addon("usage", "cpu")
    source = Source(2, [placement(annotations, numberOfClusters=1, prioritizerPolicy=exact(best))])
    source.scores = [score("usage", "c01", {"cpu": 100}), score("usage", "c00", {"cpu": 10})]
    source.look()
    before = list(source.decided)
    source.cut(*source.clusters)
    source.scores = []
    source.mend(*(set(source.clusters) - {*before[0]}))
    source.scores = [score("usage", "c00", {"cpu": 10})]
    source.look()
    assert source.decided == before


def test_a_cluster_that_answers_may_lose_its_decision_to_a_better_one() -> None:
    source = Source(2, [placement(numberOfClusters=1, prioritizerPolicy=exact(addon("usage", "cpu")))])
    source.scores = [score("usage", "c01", {"cpu": 100})]
    source.look()
    assert source.decided == [("c01",)]
    source.scores = [score("usage", "c00", {"cpu": 100})]
    source.look()
    assert source.decided == [("c00",)]
