"""What a P2CodeSchedulingManifest is told: every state of P2CODE's scheduler, its reason and its words. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.model.p2code.bundles import Bundle

IN_PROGRESS = "SchedulingInProgress"
MISCONFIGURED = "Misconfigured"
FINALIZING = "Finalizing"
FAILED = "SchedulingFailed"
UNRELIABLE = "ScheduledWithUnreliableConnectivity"
TENTATIVE = "TentativelyScheduled"
SUCCESSFUL = "SchedulingSuccessful"
STATES = (IN_PROGRESS, MISCONFIGURED, FINALIZING, FAILED, UNRELIABLE, TENTATIVE, SUCCESSFUL)
"""Types of conditions, of which one is true."""
GOOD = frozenset((IN_PROGRESS, FINALIZING, SUCCESSFUL))
"""Those that nobody has to do anything about."""


class Verdict(NamedTuple):
    """One state, with its reason and its words."""

    state: str
    reason: str
    message: str


ANALYSING = Verdict(IN_PROGRESS, IN_PROGRESS, "Analysing scheduling requirements")
REANALYSING = Verdict(IN_PROGRESS, IN_PROGRESS, "Reanalysing scheduling requirements")
DELETING = Verdict(FINALIZING, FINALIZING, "Performing finalizing operations before deleting P2CodeSchedulingManifest")
RELEASING = Verdict(FINALIZING, FINALIZING, "Removing finalizer to allow instance to be deleted")
MISSING_TARGET = Verdict(
    MISCONFIGURED,
    "MissingTarget",
    "Target information missing from the scheduling manifest, no target managed cluster set provided",
)
NO_BINDINGS = Verdict(
    FAILED, "InaccessibleManagedClusterSet", "The scheduler is not authorized to access any managed cluster sets"
)
PLACED = Verdict(IN_PROGRESS, "PlacementDecisionReady", "A suitable cluster has been identified for each workload")
UNLINKED = Verdict(
    UNRELIABLE,
    "MultiClusterNetworkResourceMissing",
    "All workloads have been successfully scheduled, however network connectivity between components cannot be "
    "guaranteed as it is not possible to create the necessary MultiClusterLinks without the resource being present",
)
ORPHANED = Verdict(
    TENTATIVE,
    "OrphanedManifest",
    "All workloads have been successfully scheduled however orphaned manifests have been found, ensure all ancillary "
    "resources (services, configmaps, secrets, etc) are referenced by a workload resource",
)
SCHEDULED = Verdict(SUCCESSFUL, SUCCESSFUL, "All workloads have been successfully scheduled to a suitable cluster")


def wrong_namespace(only: str) -> Verdict:
    """It is not where they are served."""
    return Verdict(MISCONFIGURED, "IncorrectNamespace", f"Ignoring resource as it is not in the {only} namespace")


def unsupported_annotation(annotation: str) -> Verdict:
    """A global annotation that means nothing."""
    found = f"Unsupported annotations found, {annotation} is an unsupported annotation"
    return Verdict(MISCONFIGURED, "UnsupportedAnnotation", found)


def unknown_distribution(given: str) -> Verdict:
    """The annotation that says how bundles get to their clusters says something else."""
    found = f"The annotation multicluster/distribution is {given}, and has to be elect or works"
    return Verdict(MISCONFIGURED, "UnknownDistribution", found)


def no_works(refusal: str) -> Verdict:
    """Bundles are to get to their clusters as ManifestWorks, and there are none."""
    found = (
        f"ManifestWorks cannot be read ({refusal}): distribution as works needs a hub of Open Cluster Management, and "
        "agent.p2code.works of Flotilla's chart there; without a hub, set the annotation multicluster/distribution to "
        "elect, by which manifests are applied here and pods go to the clusters"
    )
    return Verdict(FAILED, "ManifestWorkResourceMissing", found)


def no_such_set(cluster_set: str) -> Verdict:
    """There is no ManagedClusterSet of that name."""
    return Verdict(FAILED, "InvalidTarget", f"Cannot find a managed cluster set with the name {cluster_set}")


def empty_set(cluster_set: str) -> Verdict:
    """No cluster is in it."""
    return Verdict(FAILED, "InvalidTarget", f"The managed cluster set selected ({cluster_set}) is empty")


def unbound_set(cluster_set: str) -> Verdict:
    """It is not bound to the namespace."""
    message = f"The scheduler is not authorized to access the {cluster_set} managed cluster set"
    return Verdict(FAILED, "InaccessibleManagedClusterSet", message)


def no_such_cluster(cluster: str, cluster_set: str) -> Verdict:
    """The one cluster for everything is not in the set."""
    message = f"Cannot find a managed cluster with the name {cluster} in the {cluster_set} managed cluster set"
    return Verdict(FAILED, "InvalidTarget", message)


def bad_manifest(error: str) -> Verdict:
    """A manifest, or an annotation of a workload, that is not taken."""
    return Verdict(MISCONFIGURED, "MisconfiguredManifest", sentence(error))


def unsatisfied(reason: str, message: str, cluster_set: str, *, exists: bool) -> Verdict:
    """A Placement decides for no cluster, as it says itself; `exists` is whether there is such a set."""
    match reason:
        case "NoManagedClusterMatched":
            told = (
                "Unable to find a suitable location for the workload as there are no managed clusters in the "
                f"{cluster_set} managed cluster set that satisfy the annotations requested"
            )
            return Verdict(FAILED, "SchedulingAnnotationsUnsatisfied", told)
        case "NoIntersection":
            return unbound_set(cluster_set) if exists else no_such_set(cluster_set)
        case "AllManagedClusterSetsEmpty":
            return empty_set(cluster_set)
        case "NoManagedClusterSetBindings":
            return NO_BINDINGS
        case _:
            return Verdict(FAILED, reason, message)


def not_applied(message: str) -> Verdict:
    """An object could not be written, or is not what it should be."""
    return Verdict(FAILED, "ManifestWorkFailed", sentence(message))


def undefined(bundles: Iterable[Bundle]) -> Verdict | None:
    """What workloads refer to and nobody defines."""
    found = "".join(
        f"Workload {bundle.name} is missing a {each.kind.lower()} with the name {each.name}."
        for bundle in bundles
        for each in bundle.absent
    )
    begin = (
        "All workloads have been successfully scheduled however some workloads referenced resources that could not be "
        "found : "
    )
    return Verdict(SUCCESSFUL, "UndefinedResources", begin + found) if found else None


def finished(bundles: Sequence[Bundle], *, unlinked: bool, orphaned: bool) -> Verdict:
    """Everything is applied."""
    if unlinked:
        return UNLINKED
    if orphaned:
        return ORPHANED
    return undefined(bundles) or SCHEDULED


def sentence(text: str) -> str:
    """With a capital at the beginning."""
    return text[:1].upper() + text[1:]
