"""Plan for one P2CodeSchedulingManifest whose bundles are distributed as ManifestWorks. Pure.

A bundle that moves is created in its new cluster first, and deleted from the former one once it is ready. If it has a
workload that must not run twice, the former ManifestWork is deleted first. The work agent of the former cluster
confirms that by removing its finalizer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent.applications.plan import Plan, Raw, View, decisions_of, knows, waiting
from agent.applications.work_bundles import Report, holds, manifest_work, once, report, work_name, workloads
from agent.model.abridged import abridged
from agent.model.p2code import linked, verdicts
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.check import Application
from agent.model.p2code.detect import Key
from agent.model.p2code.manifests import Identity
from agent.model.p2code.progress import CANNOT_MOVE, There, count, readiness
from agent.model.p2code.status import Told

_SHOWN = 3
_UNKNOWN_SECONDS = 0.5
"""Poll interval until ManifestWorks are read or refused: no event reports a refusal."""


class _Sent(NamedTuple):
    """A bundle, and the state of its ManifestWork."""

    bundle: Bundle
    key: Key
    """Cluster and name of its ManifestWork."""
    report: Report | None
    """Report of the work agent; None if the ManifestWork does not exist."""
    blockers: frozenset[Key]
    """ManifestWorks that must be deleted completely before this one can be created."""

    @property
    def current(self) -> bool:
        """True if the work agent has reported on the present ManifestWork, and nothing blocks it."""
        return self.report is not None and self.report.current and not self.blockers

    @property
    def ready(self) -> bool:
        """True if all objects are applied and all pods of its workloads are ready."""
        if self.report is None or not self.current or self.report.failures:
            return False
        there = _there([self])
        counts = [count(each, there[each.identity].raw) for each in self.bundle.manifests if each.is_workload]
        return all(found.ready >= found.wanted for found in counts)


def distributed(
    view: View, found: Application, beside: Sequence[Told], clusters: Mapping[str, str], *, quiet: bool
) -> Plan:
    """Return the plan once every bundle has a cluster; the caller adds Placements that are no longer needed.

    :param quiet: do not report the placement separately, as the user named the cluster
    """
    works, psm = view.hub.works, view.psm
    bundles = found.bundling.bundles
    if works is None:
        return Plan(tell=waiting(psm), beside=beside, again=_UNKNOWN_SECONDS)
    sent = list(_sent(found, psm["metadata"]["name"], clusters, works))
    decisions = decisions_of(bundles, clusters)
    needs = linked.needs(bundles, clusters, view.calls)
    failures = [each for one in sent if one.current and one.report for each in one.report.failures]
    if failures:
        finish = verdicts.not_applied(abridged(failures, _SHOWN, "; ", in_brackets=True))
    elif all(each.current for each in sent):
        finish = verdicts.finished(bundles, unlinked=bool(needs), orphaned=bool(found.bundling.orphans))
    else:
        finish = waiting(psm) if quiet else verdicts.PLACED
    return Plan(
        tell=None if quiet or knows(psm, decisions) else verdicts.PLACED,
        decisions=decisions,
        beside=(*beside, _unlinked(needs), _readiness(sent), _cannot_move(sent)),
        apply=[manifest_work(each.bundle, *each.key) for each in sent if not each.blockers],
        keep=_kept(works, sent),
        seen=works.keys(),
        finish=finish,
    )


def _sent(found: Application, psm: str, clusters: Mapping[str, str], works: Mapping[Key, Raw]) -> Iterator[_Sent]:
    bundling = found.bundling
    keys = {
        bundle.name: (clusters[bundle.name], work_name(bundle, clusters[bundle.name], psm, bundling.mode))
        for bundle in bundling.bundles
    }
    former = {key: holds(raw) for key, raw in works.items() if key not in keys.values()}
    for bundle in bundling.bundles:
        key = keys[bundle.name]
        there = works.get(key)
        blockers: frozenset[Key] = frozenset()
        if there is not None and _is_going(there):
            blockers = frozenset([key])
        elif there is None:
            mine = once(bundle)
            blockers = frozenset(each for each, held in former.items() if each[0] != key[0] and held & mine)
        yield _Sent(bundle, key, report(there) if there is not None else None, blockers)


def _is_going(work: Raw) -> bool:
    return bool(work["metadata"].get("deletionTimestamp"))


def _kept(works: Mapping[Key, Raw], sent: Sequence[_Sent]) -> frozenset[Key]:
    """Return former ManifestWorks to keep: those being deleted, and those whose workloads are not ready yet."""
    wanted = {each.key for each in sent}
    in_the_way = frozenset(key for each in sent for key in each.blockers)
    needed = frozenset(each for one in sent if not one.ready for each in workloads(one.bundle))
    former = {key: raw for key, raw in works.items() if key not in wanted}
    return frozenset(
        key for key, raw in former.items() if _is_going(raw) or (key not in in_the_way and holds(raw) & needed)
    )


def _there(sent: Iterable[_Sent]) -> dict[Identity, There]:
    """Return the state of workloads as reported by work agents."""
    found = {}
    for each in sent:
        statuses = each.report.statuses if each.report is not None and each.current else {}
        for manifest in each.bundle.manifests:
            status = statuses.get(manifest.identity)
            found[manifest.identity] = There({**manifest.raw, "status": status} if status is not None else None)
    return found


def _readiness(sent: Sequence[_Sent]) -> Told:
    there = _there(sent)
    found = readiness([each.bundle for each in sent], lambda identity: there[identity])
    silent = [f"{each.key[1]} in {each.key[0]}" for each in sent if not each.current and not each.blockers]
    if not silent:
        return found
    message = f"{found.message}; no word yet of ManifestWork {abridged(silent, _SHOWN)}: see that the work"
    return found._replace(status="False", reason="NotReported", message=f"{message} agent of the cluster runs")


def _cannot_move(sent: Sequence[_Sent]) -> Told:
    words = [
        f"workload {each.bundle.name}: ManifestWork {cluster}/{name} has to be gone first, and the work agent of "
        f"{cluster} has not let go of it"
        for each in sent
        for cluster, name in sorted(each.blockers)
    ]
    return Told(CANNOT_MOVE, "StillThere" if words else "", abridged(words, _SHOWN, "; "))


def _unlinked(needs: Sequence[linked.Need]) -> Told:
    """Return the condition for calls to Services in other clusters: ManifestWorks get no endpoints from the agent."""
    words = [f"workload {each.caller} in {each.consumer} calls {each.call} in {each.source}" for each in needs]
    remedy = (
        "Services of ManifestWorks are not linked from here: distribute by election, or connect them there, and say so "
        "by the annotation multicluster/ignore-links of the workload"
    )
    return Told(linked.READY, "NotLinked" if needs else "", f"{abridged(words, _SHOWN, '; ')}: {remedy}", "False")
