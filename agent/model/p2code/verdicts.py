"""Verdicts about a P2CodeSchedulingManifest: the states of P2CODE's scheduler, with reasons and messages. Pure."""

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
"""Condition types; exactly one is true."""
GOOD = frozenset((IN_PROGRESS, FINALIZING, SUCCESSFUL))
"""States that require no action."""


class Verdict(NamedTuple):
    """One state, with its reason and message."""

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
    """Return the verdict for a namespace that is not served."""
    return Verdict(MISCONFIGURED, "IncorrectNamespace", f"Ignoring resource as it is not in the {only} namespace")


def unsupported_annotation(annotation: str) -> Verdict:
    """Return the verdict for an unsupported global annotation."""
    found = f"Unsupported annotations found, {annotation} is an unsupported annotation"
    return Verdict(MISCONFIGURED, "UnsupportedAnnotation", found)


def unknown_distribution(given: str) -> Verdict:
    """Return the verdict for an unknown value of the annotation `multicluster/distribution`."""
    found = f"The annotation multicluster/distribution is {given}, and has to be elect or works"
    return Verdict(MISCONFIGURED, "UnknownDistribution", found)


def no_works(refusal: str) -> Verdict:
    """Return the verdict for distribution as ManifestWorks in a cluster without them."""
    found = (
        f"ManifestWorks cannot be read ({refusal}): distribution as works needs a hub of Open Cluster Management, and "
        "agent.p2code.works of Flotilla's chart there; without a hub, set the annotation multicluster/distribution to "
        "elect, by which manifests are applied here and pods go to the clusters"
    )
    return Verdict(FAILED, "ManifestWorkResourceMissing", found)


def no_such_set(cluster_set: str) -> Verdict:
    """Return the verdict for a ManagedClusterSet that does not exist."""
    return Verdict(FAILED, "InvalidTarget", f"Cannot find a managed cluster set with the name {cluster_set}")


def empty_set(cluster_set: str) -> Verdict:
    """Return the verdict for a ManagedClusterSet without clusters."""
    return Verdict(FAILED, "InvalidTarget", f"The managed cluster set selected ({cluster_set}) is empty")


def unbound_set(cluster_set: str) -> Verdict:
    """Return the verdict for a ManagedClusterSet that is not bound to the namespace."""
    message = f"The scheduler is not authorized to access the {cluster_set} managed cluster set"
    return Verdict(FAILED, "InaccessibleManagedClusterSet", message)


def no_such_cluster(cluster: str, cluster_set: str) -> Verdict:
    """Return the verdict for a target cluster that is not in the set."""
    message = f"Cannot find a managed cluster with the name {cluster} in the {cluster_set} managed cluster set"
    return Verdict(FAILED, "InvalidTarget", message)


def bad_manifest(error: str) -> Verdict:
    """Return the verdict for an invalid manifest, or an invalid annotation of a workload."""
    return Verdict(MISCONFIGURED, "MisconfiguredManifest", sentence(error))


def unsatisfied(reason: str, message: str, cluster_set: str, *, exists: bool) -> Verdict:
    """Return the verdict for a Placement without a decision.

    :param reason: of the Placement's condition, with `message`
    :param exists: whether the cluster set exists
    """
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
    """Return the verdict for an object that could not be written, or differs from its manifest."""
    return Verdict(FAILED, "ManifestWorkFailed", sentence(message))


def undefined(bundles: Iterable[Bundle]) -> Verdict | None:
    """Return the verdict for objects that workloads refer to and no manifest defines; None if there are none."""
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
    """Return the verdict for an application that has been applied completely."""
    if unlinked:
        return UNLINKED
    if orphaned:
        return ORPHANED
    return undefined(bundles) or SCHEDULED


def sentence(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]
