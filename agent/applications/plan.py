"""What is known of one P2CodeSchedulingManifest at one moment, and what is to be done for it."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.names.p2code import ELECTED
from agent.applications.fit import Capacities
from agent.model.abridged import abridged
from agent.model.links import Link
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.check import Draft, World
from agent.model.p2code.detect import CALLS, Book, Call, Key, Services, calls
from agent.model.p2code.linked import unknown_path
from agent.model.p2code.progress import There, Workloads
from agent.model.p2code.render import Write
from agent.model.p2code.search import Searched, search
from agent.model.p2code.status import CALLS_KNOWN, Decision, Told, decided, observed, said
from agent.model.p2code.verdicts import ANALYSING, IN_PROGRESS, REANALYSING, Verdict

Raw = Mapping[str, Any]

_SHOWN = 3
_REMEDY = (
    "the application has too much text, or too many variables, hosts or calls; mount large ConfigMaps and Secrets as "
    "volumes, or name the Services in the annotation multicluster/depends-on of the workload"
)


@dataclass(frozen=True)
class Hub:
    """ManifestWorks of Open Cluster Management, as far as they can be read."""

    works: Mapping[Key, Raw] | None = None
    """Those of this application by namespace, which is their cluster, and name; None while they are not known."""
    refusal: str = ""
    """Why they cannot be, as the API server says."""


@dataclass(frozen=True)
class View:
    """What is known at one moment."""

    psm: Raw
    draft: Draft
    world: World
    placements: Mapping[str, Raw]
    """Those in its namespace that are its own, and others that have a name which one of its own needs."""
    decisions: Mapping[str, str]
    """Placement to the cluster that it has decided for, empty for none; of those that have any decision."""
    target: Callable[[str, str], str]
    """What leads from a namespace to a ManagedCluster, empty for nothing."""
    now: datetime
    capacities: Capacities
    """What is known of the target that leads from a namespace to a ManagedCluster."""
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    """What the workload of each bundle calls."""
    unknown_calls: Mapping[str, str] = field(default_factory=dict)
    """Workloads with calls that are not known, and the bound that they exceed."""
    live: Services = field(default_factory=dict)
    """What there is in the namespaces of the application."""
    workloads: Workloads = lambda identity: There()
    """Those that are there."""
    links: Callable[[Key], Sequence[Raw]] | None = None
    """What ServiceLinks tell of a Service by cluster; None where nothing is known of links."""
    path: Callable[[str, str, str], Link] = unknown_path
    """The link between two ManagedClusters that Targets of a namespace lead to, by the drivers of these."""
    elsewhere: bool = False
    """Whether ServiceLinks may name callers in other namespaces."""
    distribution: str = ELECTED
    """How bundles are to get to their clusters."""
    hub: Hub = field(default_factory=Hub)


@dataclass(frozen=True)
class Plan:
    """What is to be done, in this order."""

    stale: Sequence[Raw] = ()
    """Placements that go first: of one of that name that is no more, before garbage collection has come to them."""
    create: Sequence[Write] = ()
    """Placements."""
    patch: Sequence[Write] = ()
    """Placements, by their name."""
    tell: Verdict | None = None
    """Before anything is applied; there is nothing to apply where it is all."""
    decisions: Sequence[Decision] | None = None
    """None: those that it was told before stay."""
    beside: Sequence[Told] = ()
    apply: Sequence[Write] | None = None
    keep: AbstractSet[Key] = frozenset()
    """ManifestWorks that stay though they are not among these."""
    seen: AbstractSet[Key] | None = None
    """ManifestWorks over which this was decided: nothing is applied if there are others. None: that does not matter."""
    finish: Verdict | None = None
    """Once everything is applied."""
    surplus: Sequence[Raw] = ()
    """Placements that are needed no more, after that."""
    again: float | None = None
    """In how many seconds to look again, though nothing changes."""
    unfit: bool = False
    """Whether it waits for a target to change."""


def waiting(psm: Raw) -> Verdict:
    """What it is told while Placements are evaluated."""
    return ANALYSING if said(psm) in (None, ANALYSING) else REANALYSING


def knows(psm: Raw, decisions: Sequence[Decision]) -> bool:
    """Whether it was told of these decisions, and of what came of them."""
    last = said(psm)
    return observed(psm) and decided(psm) == list(decisions) and last is not None and last.state != IN_PROGRESS


def decisions_of(bundles: Sequence[Bundle], clusters: Mapping[str, str]) -> list[Decision]:
    """The cluster of each bundle, as it is told."""
    return [Decision(bundle.name, clusters[bundle.name]) for bundle in bundles]


class Calls(NamedTuple):
    """Services that the workloads of an application call."""

    of: Mapping[str, Sequence[Call]] = {}
    """By bundle."""
    unknown: Mapping[str, str] = {}
    """Workloads with calls that are not known, and the bound that they exceed."""


def searched_of(drafted: Draft) -> Searched:
    """Search for the hosts that workloads are given. Only bundles of a workload each have calls of their own."""
    found = drafted.application
    if found is None or found.bundling.mode != "workloads":
        return Searched({}, {})
    return search(found.reading.manifests)


def calls_of(drafted: Draft, live: Services, searched: Searched | None = None) -> Calls:
    """Return what the workload of each bundle calls.

    :param live: Services that exist in the namespaces of the application
    :param searched: result of `searched_of`, which does not depend on Services
    """
    found = drafted.application
    if found is None or found.bundling.mode != "workloads":
        return Calls()
    book = Book(found.reading.manifests, live, searched)
    unknown = {str(identity): why for identity, why in book.searched.unsearched.items()}
    known: dict[str, Sequence[Call]] = {}
    left = CALLS
    for each in found.bundling.bundles:
        its = calls(each.manifests[0], book)
        known[each.name] = its if len(its) <= left else ()
        left -= len(known[each.name])
        if len(its) > len(known[each.name]):
            unknown[str(each.manifests[0].identity)] = f"more than {CALLS} calls"
    return Calls(known, unknown)


def unsearched(unknown: Mapping[str, str]) -> Told:
    """Return the condition that names workloads with calls that are not known."""
    words = [f"{workload}: {why}" for workload, why in unknown.items()]
    message = f"not all Services are known that these workloads call: {abridged(words, _SHOWN, '; ')}: {_REMEDY}"
    return Told(CALLS_KNOWN, "TooMuchToSearch" if unknown else "", message, "False")
