"""Which target first: filters, then scores, best first, ties broken evenly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.scheduling.filters import Verdict, refuse
from agent.scheduling.matching import preferred_weight
from agent.scheduling.snapshot import Demand, Place


@dataclass(frozen=True)
class Load:
    """How much of ours a target holds already."""

    pods: int
    """Proxy pods bound to it or claimed by it."""


@dataclass(frozen=True)
class Ranking:
    """The outcome for one pod."""

    order: tuple[Place, ...]
    """Targets the pod may go to, best first; those that it has not tried yet before the others."""
    untried: int
    """How many of them, from the first, it has not tried."""
    refused: tuple[tuple[Place, Verdict], ...]
    """The others, and why not."""


def rank(demand: Demand, places: Iterable[Place], loads: Mapping[str, Load]) -> Ranking:
    """Order the targets for a pod.

    Preferred node affinity of the proxy pod counts first, then how little of a target our pods take: a target with
    twice the room gets twice the pods.
    """
    feasible: list[Place] = []
    refused: list[tuple[Place, Verdict]] = []
    for place in places:
        verdict = refuse(demand, place)
        if verdict is None:
            feasible.append(place)
        elif verdict.reason != "OtherNamespace":
            refused.append((place, verdict))
    feasible.sort(key=lambda place: _cost(demand, place, loads.get(place.node_name, Load(0))))
    untried = [place for place in feasible if place.node_name not in demand.attempts]
    tried = [place for place in feasible if place.node_name in demand.attempts]
    return Ranking((*untried, *tried), len(untried), tuple(refused))


def _cost(demand: Demand, place: Place, load: Load) -> tuple[int, float]:
    affinity = preferred_weight(demand.proxy.get("affinity"), place.labels, place.node_name)
    room = place.allocatable.get("pods", 0) or 1
    return (-affinity, load.pods / room)


def explain(ranking: Ranking, tried: Mapping[str, str], claim: Mapping[str, str]) -> str:
    """One line that says why the pod waits: `0/3 targets are available: eu: ..., us: ...`.

    By virtual node: `tried` is why targets that pass the filters could not take it; `claim` is what the one target that
    it is claimed by has to say, which counts more than a filter's verdict.
    """
    known = {**tried, **claim}
    reasons = [(place.title, claim.get(place.node_name, verdict.message)) for place, verdict in ranking.refused]
    reasons += [(place.title, known[place.node_name]) for place in ranking.order if place.node_name in known]
    count = len(ranking.refused) + len(ranking.order)
    if not count:
        return "0/0 targets are available: create a Target in this namespace, or a ClusterTarget"
    listed = ", ".join(f"{title}: {message}" for title, message in sorted(reasons))
    return f"0/{count} targets are available: {listed}"
