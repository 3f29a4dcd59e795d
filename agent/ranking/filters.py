"""Filters of one target: reasons to reject it for a pod. `plugins.FILTERS` is the list of all."""

from collections.abc import Sequence

from agent.ranking.matching import any_term_matches, intolerable, required_terms
from agent.ranking.node_fit import described, reject_by_totals
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, PodTemplate, TargetInfo
from agent.ranking.usage import Usage


def volumes_elsewhere(pod: PodInfo, targets: Sequence[TargetInfo]) -> Sequence[tuple[TargetInfo, Rejection]]:
    """Reject targets that lack the volume of one of the pod's claims."""
    if not pod.volumes:
        return ()
    found = []
    titles = {target.node_name: target.title for target in targets}
    for target in targets:
        claims = sorted(claim for claim, node in pod.volumes.items() if node != target.node_name)
        if claims:
            node = pod.volumes[claims[0]]
            message = f"the volume of claim {claims[0]} is in {titles.get(node, node)}"
            found.append((target, Rejection("VolumeElsewhere", message)))
    return found


def other_namespace(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject a target that serves another namespace only."""
    if target.namespace and target.namespace != template.namespace:
        return Rejection("OtherNamespace", f"target in different namespace ({target.namespace})")
    return None


def not_ready(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject a target that reports that it cannot take pods, or does not answer."""
    return None if target.ready else Rejection("TargetNotReady", target.state)


def cordoned(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject a target whose virtual node is cordoned."""
    return Rejection("Cordoned", "virtual node is cordoned") if target.unschedulable else None


def closed(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject a target that is emptied, lost, or has just returned."""
    return Rejection("TargetClosed", target.closed) if target.closed else None


def tainted(template: PodTemplate, target: TargetInfo, usage: Usage | None = None) -> Rejection | None:
    """Reject a target if the proxy pod does not tolerate a taint of its virtual node."""
    if not target.taints:
        return None
    kind, known = target.taints_key, template.memo
    if kind not in known:
        taint = intolerable(target.taints, template.proxy.get("tolerations") or ())
        known[kind] = None if taint is None else Rejection("Tainted", f"taint {described(taint)}")
    rejection: Rejection | None = known[kind]
    return rejection


def not_selected(template: PodTemplate, target: TargetInfo, usage: Usage | None = None) -> Rejection | None:
    """Reject a target if its virtual node does not match the proxy pod's node selector or required node affinity."""
    labels = target.labels
    for key, value in template.selector:
        if labels.get(key) != value:
            return _SELECTOR
    if not template.affinity:
        return None
    terms = required_terms(template.affinity)
    if terms is not None and not any_term_matches(terms, labels, target.node_name):
        return Rejection("NodeAffinity", "virtual node does not match the proxy pod's node affinity")
    return None


_SELECTOR = Rejection("NodeSelector", "virtual node does not match the proxy pod's node selector")


def node_fit(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject a target without capacity on a single node, after pods sent there that it does not count yet."""
    return usage.node_fit(target, template) if target.shapes else reject_by_totals(target, template)


def selected(template: PodTemplate, target: TargetInfo) -> bool:
    """Return True if a target counts for topology spread with `nodeAffinityPolicy: Honor`."""
    return not_selected(template, target) is None


def tolerated(template: PodTemplate, target: TargetInfo) -> bool:
    """Return True if a target counts for topology spread with `nodeTaintsPolicy: Honor`."""
    return tainted(template, target) is None
