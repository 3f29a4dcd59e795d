"""Inputs of a decision about one P2CodeSchedulingManifest, and the resulting plan."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.names.p2code import ELECTED
from agent.applications.fit import Capacities
from agent.applications.render import Write
from agent.model.abridged import abridged
from agent.model.links import Link
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.check import Draft, World
from agent.model.p2code.detect import CALLS, Book, Call, Key, Services, calls
from agent.model.p2code.linked import unknown_path
from agent.model.p2code.progress import There, Workloads
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
    """ManifestWorks of an application on a hub of Open Cluster Management."""

    works: Mapping[Key, Raw] | None = None
    """ManifestWorks by namespace (the name of their cluster) and name; None while they are unknown."""
    refusal: str = ""
    """The API server's reason why ManifestWorks cannot be read; empty if there is none."""


@dataclass(frozen=True)
class View:
    """Inputs of one decision."""

    psm: Raw
    draft: Draft
    world: World
    placements: Mapping[str, Raw]
    """Placements of the application, and foreign ones with a name that it needs, by name."""
    decisions: Mapping[str, str]
    """Decided cluster by Placement name; undecided Placements are left out."""
    target: Callable[[str, str], str]
    """Target of a namespace for a ManagedCluster, as annotations name it; empty if none exists."""
    now: datetime
    capacities: Capacities
    """Capacity of a ManagedCluster for pods of a namespace."""
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    """Services that the workload of each bundle calls, by bundle."""
    unknown_calls: Mapping[str, str] = field(default_factory=dict)
    """Workloads with unknown calls, and the limit that each exceeds."""
    live: Services = field(default_factory=dict)
    """Existing Services in the namespaces of the application, with their ports."""
    workloads: Workloads = lambda identity: There()
    """State of an applied workload by its identity."""
    links: Callable[[Key], Sequence[Raw]] | None = None
    """Rows of a Service's ServiceLinks, one per consuming cluster; None if ServiceLinks are not served."""
    path: Callable[[str, str, str], Link] = unknown_path
    """Link between two ManagedClusters by the drivers of a namespace's Targets."""
    elsewhere: bool = False
    """True if ServiceLinks may name callers in other namespaces."""
    distribution: str = ELECTED
    """Distribution of bundles to their clusters: by election of pods, or as ManifestWorks."""
    hub: Hub = field(default_factory=Hub)


@dataclass(frozen=True)
class Plan:
    """Writes for an application, in this order."""

    stale: Sequence[Raw] = ()
    """Placements of a deleted manifest of the same name that garbage collection has not deleted yet; deleted first."""
    create: Sequence[Write] = ()
    """Placements to create."""
    patch: Sequence[Write] = ()
    """Placements whose spec is patched."""
    tell: Verdict | None = None
    """Verdict written before anything is applied; None if the status stays until `finish`."""
    decisions: Sequence[Decision] | None = None
    """Decisions in the status; None leaves them unchanged."""
    beside: Sequence[Told] = ()
    apply: Sequence[Write] | None = None
    keep: AbstractSet[Key] = frozenset()
    """ManifestWorks to keep in addition to those in `apply`."""
    seen: AbstractSet[Key] | None = None
    """ManifestWorks that the decision was based on. If others exist, nothing is applied. None: no such check."""
    finish: Verdict | None = None
    """Verdict written once everything has been applied."""
    surplus: Sequence[Raw] = ()
    """Unneeded Placements, deleted after the apply."""
    again: float | None = None
    """Seconds until the next reconcile if nothing changes; None for no requeue."""
    unfit: bool = False
    """True if the application waits for a target to change."""


def waiting(psm: Raw) -> Verdict:
    """Return the verdict while Placements are evaluated: the first analysis, or a repeated one."""
    return ANALYSING if said(psm) in (None, ANALYSING) else REANALYSING


def knows(psm: Raw, decisions: Sequence[Decision]) -> bool:
    """Return True if the status has these decisions and a result other than "in progress"."""
    last = said(psm)
    return observed(psm) and decided(psm) == list(decisions) and last is not None and last.state != IN_PROGRESS


def decisions_of(bundles: Sequence[Bundle], clusters: Mapping[str, str]) -> list[Decision]:
    """Return the cluster of each bundle as decisions for the status."""
    return [Decision(bundle.name, clusters[bundle.name]) for bundle in bundles]


class Calls(NamedTuple):
    """Services that the workloads of an application call."""

    of: Mapping[str, Sequence[Call]] = {}
    """Calls by bundle."""
    unknown: Mapping[str, str] = {}
    """Workloads with unknown calls, and the limit that each exceeds."""


def searched_of(drafted: Draft) -> Searched:
    """Search the manifests for hosts. Calls are only computed per bundle if each bundle has one workload."""
    found = drafted.application
    if found is None or found.bundling.mode != "workloads":
        return Searched({}, {})
    return search(found.reading.manifests)


def calls_of(drafted: Draft, live: Services, searched: Searched | None = None) -> Calls:
    """Return the Services that the workload of each bundle calls.

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
    """Return the condition that names workloads with unknown calls."""
    words = [f"{workload}: {why}" for workload, why in unknown.items()]
    message = f"not all Services are known that these workloads call: {abridged(words, _SHOWN, '; ')}: {_REMEDY}"
    return Told(CALLS_KNOWN, "TooMuchToSearch" if unknown else "", message, "False")
