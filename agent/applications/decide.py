"""Decisions for one P2CodeSchedulingManifest: objects to write, and its status. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import SCHEDULING_MANIFESTS
from agent.api.names.moves import TARGETS
from agent.api.names.p2code import DISTRIBUTIONS, WORKS, bundle_placement
from agent.applications.fit import Newcomer, unfit
from agent.applications.plan import Plan, Raw, View, decisions_of, knows, unsearched, waiting
from agent.applications.render import Write, differs, placement, rendered
from agent.applications.works import distributed
from agent.model.p2code import following, linked, verdicts
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.check import Application, check
from agent.model.p2code.manifests import Identity, Manifest, at
from agent.model.p2code.progress import cannot_move, readiness
from agent.model.p2code.status import RIGHTS, Decision, Told, decided, said, told
from agent.model.p2code.verdicts import Verdict
from agent.model.targetchoice import CLUSTER_TARGET

_SATISFIED = "PlacementSatisfied"
_UNKNOWN_SECONDS = 0.5
"""Poll interval while a target connects: no event reports that it has no ClusterSummary."""


def decide(view: View) -> Plan:
    """Return the plan for an application. Report the first fault; apply nothing before every bundle has a cluster."""
    found = _wrong(view) or check(view.draft, view.world)
    if isinstance(found, Verdict):
        return Plan(tell=found, decisions=[])
    beside = (*told(found.bundling), unsearched(view.unknown_calls))
    if view.distribution == WORKS and view.hub.refusal:
        return Plan(tell=verdicts.no_works(view.hub.refusal), decisions=[], beside=beside)
    if found.bundling.mode == "cluster":
        (bundle,) = found.bundling.bundles
        return _arranged(view, found, beside, {bundle.name: found.wishes.cluster}, quiet=True)
    stale, create, patch = [], [], []
    for bundle in found.bundling.bundles:
        wanted = placement(bundle, found.wishes.cluster_set, view.psm)
        there = view.placements.get(wanted["metadata"]["name"])
        if there is None:
            create.append(wanted)
        elif _is_stale(there, view.psm):
            stale.append(there)
        elif not _is_own(there, view.psm):
            return Plan(tell=_foreign(wanted), decisions=[], beside=beside)
        elif differs(there, wanted):
            patch.append(wanted)
    chosen = _chosen(view, found)
    if stale or create or patch or chosen is None:
        return Plan(stale, create, patch, tell=waiting(view.psm), beside=beside)
    if isinstance(chosen, Verdict):
        return Plan(tell=chosen, decisions=[], beside=beside)
    return _arranged(view, found, beside, chosen, quiet=False)


def _wrong(view: View) -> Verdict | None:
    return verdicts.unknown_distribution(view.distribution) if view.distribution not in DISTRIBUTIONS else None


def _arranged(
    view: View, found: Application, beside: Sequence[Told], clusters: Mapping[str, str], *, quiet: bool
) -> Plan:
    """Return the plan once every bundle has a cluster, including the deletion of unneeded Placements.

    :param quiet: do not report the placement separately, as the user named the cluster
    """
    arrange = distributed if view.distribution == WORKS else _applied
    plan = arrange(view, found, beside, clusters, quiet=quiet)
    if plan.apply is None:
        return plan
    wanted = {_placement_of(bundle, view.psm) for bundle in found.bundling.bundles} if not quiet else set()
    mine = [each for name, each in view.placements.items() if name not in wanted and _is_own(each, view.psm)]
    return replace(plan, surplus=mine)


def _chosen(view: View, found: Application) -> dict[str, str] | Verdict | None:
    """Return the cluster of each bundle, a verdict if one has none, or None while a Placement is undecided."""
    clusters, waiting = {}, False
    for bundle in found.bundling.bundles:
        there = view.placements.get(_placement_of(bundle, view.psm))
        condition = condition_of(there or {}, _SATISFIED) or {}
        generation = ((there or {}).get("metadata") or {}).get("generation")
        if condition.get("observedGeneration", generation) != generation or not condition:
            waiting = True
        elif condition.get("status") != "True":
            cluster_set = found.wishes.cluster_set
            reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
            return verdicts.unsatisfied(reason, message, cluster_set, exists=cluster_set in view.world.sets)
        else:
            clusters[bundle.name] = view.decisions.get(_placement_of(bundle, view.psm), "")
    return None if waiting or not all(clusters.values()) else clusters


def _applied(
    view: View, found: Application, beside: Sequence[Told], clusters: Mapping[str, str], *, quiet: bool
) -> Plan:
    bundles = found.bundling.bundles
    unreachable = _unreachable(view, bundles, clusters)
    decisions = decisions_of(bundles, clusters)
    if unreachable is not None:
        return Plan(tell=unreachable, decisions=[], beside=beside)
    objects = rendered(bundles, clusters, view.target, lambda identity: view.workloads(identity).raw or {})
    try:
        lacking = unfit(_newcomers(view, bundles, clusters, objects), view.capacities)
    except LookupError:
        return Plan(tell=waiting(view.psm), beside=beside, unfit=True, again=_UNKNOWN_SECONDS)
    if lacking is not None:
        return Plan(tell=lacking.verdict(said(view.psm)), decisions=[], beside=beside, unfit=True)
    elsewhere = view.elsewhere and view.links is not None
    needs = linked.needs(bundles, clusters, view.calls, elsewhere=elsewhere, live=view.live)
    made = linked.service_links(view.psm["metadata"]["name"], needs, _called(view)) if elsewhere else []
    links = _links(view, needs)
    follow = [each for bundle in bundles for each in bundle.following.values()]
    stays = following.rights_left(follow)
    rights = Told(RIGHTS, "ClusterRolesStay" if stays else "", stays, "False")
    return Plan(
        tell=None if quiet or knows(view.psm, decisions) else verdicts.PLACED,
        decisions=decisions,
        beside=(
            *beside,
            linked.with_policies(links.told, following.policies_left(follow)),
            rights,
            readiness(bundles, view.workloads),
            cannot_move(bundles, view.workloads),
        ),
        apply=[*objects.values(), *made],
        finish=verdicts.finished(bundles, unlinked=links.broken, orphaned=bool(found.bundling.orphans)),
        again=links.again,
    )


def _newcomers(
    view: View, bundles: Sequence[Bundle], clusters: Mapping[str, str], objects: Mapping[Identity, Write]
) -> Iterator[Newcomer]:
    """Yield workloads that are new to their cluster: neither reported as decided for it nor annotated with it.

    Other workloads have been checked before, and may be the load that fills the cluster.
    """
    known = decided(view.psm)
    for bundle in bundles:
        cluster = clusters[bundle.name]
        for each in bundle.manifests if Decision(bundle.name, cluster) not in known else ():
            if each.is_workload and _sent(view, each) != view.target(each.namespace, cluster):
                yield Newcomer(bundle.name, cluster, each, objects[each.identity])


def _sent(view: View, workload: Manifest) -> str:
    """Return the target annotation of an existing workload; empty if the workload or annotation does not exist."""
    there = view.workloads(workload.identity).raw
    return str(names.annotation(at(there, "metadata", "annotations"), TARGETS) or "")


def _called(view: View) -> Callable[[str, str], str]:
    """Return a function from namespace and ManagedCluster to the Target's name as ServiceLinks write it."""
    return lambda namespace, cluster: view.target(namespace, cluster).removeprefix(CLUSTER_TARGET)


def _links(view: View, needs: Sequence[linked.Need]) -> linked.Standing:
    """Return the state of links from ServiceLinks, or from the drivers of Targets if ServiceLinks are not served."""
    conditions, called = (view.psm.get("status") or {}).get("conditions"), _called(view)
    rows = view.links or linked.by_drivers(needs, view.path, called)
    return linked.standing(needs, rows, called, conditions, view.now)


def _unreachable(view: View, bundles: Sequence[Bundle], clusters: Mapping[str, str]) -> Verdict | None:
    """Return a verdict if the chosen cluster has no Target: Open Cluster Management may choose such clusters."""
    for bundle in bundles:
        for each in bundle.manifests:
            cluster = clusters[bundle.name]
            if each.is_workload and not view.target(each.namespace, cluster):
                message = (
                    f"No target of the namespace {each.namespace} leads to the managed cluster {cluster}, which was "
                    f"selected for {each.kind.lower()} {each.name}: make a Target there, or a ClusterTarget, or take "
                    "the cluster out of the set"
                )
                return Verdict(verdicts.FAILED, "NotAllDecisionsScheduled", message)
    return None


def _placement_of(bundle: Bundle, psm: Raw) -> str:
    return bundle_placement(bundle.name, psm["metadata"]["name"])


def _is_own(there: Raw, psm: Raw) -> bool:
    owners = there["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == psm["metadata"]["uid"] for each in owners)


def _is_stale(there: Raw, psm: Raw) -> bool:
    """Return True if a Placement belongs to a deleted manifest of the same name: its controller has another UID."""
    uid, name = psm["metadata"]["uid"], psm["metadata"]["name"]
    owner: Raw = next((each for each in there["metadata"].get("ownerReferences") or () if each.get("controller")), {})
    is_psm = str(owner.get("apiVersion")).partition("/")[0] == SCHEDULING_MANIFESTS.group
    return is_psm and owner["kind"] == SCHEDULING_MANIFESTS.name and owner["name"] == name and owner["uid"] != uid


def _foreign(wanted: Write) -> Verdict:
    name = wanted["metadata"]["name"]
    return verdicts.not_applied(
        f"Placement {name} is there already and of something else: delete it, or give this manifest another name"
    )
