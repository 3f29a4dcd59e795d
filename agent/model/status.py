"""Feedback: copies status and annotations of a delegate from its PodChaperon to its proxy pod.

See wire contract, 5, with ruling 6. Results share objects with the arguments: treat them as read-only.
"""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names import following, links, moves
from agent.api.names.lifecycle import POD_LOST
from agent.model import baseline
from agent.model.delegate_annotations import USUAL, Homecoming
from agent.model.diff import merge_patch
from agent.model.errors import InvalidPod
from agent.model.followed import followed
from agent.model.livechanges import told
from agent.model.manifest import source_pod
from agent.model.podconditions import DISRUPTED, NOTHING, Followed, list_of_target, merged
from agent.model.podranges import ANYWHERE, LeftOut, PodRanges, strangers, without_outside
from agent.model.podstate import has_ended, other_finalizers

Raw = dict[str, Any]

_OWN = (
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)
"""Fields about the proxy pod's own spec: the API server rejects changes, or checks the fields against that spec."""

_OBSERVED = "observedGeneration"

_NOT_HOME = frozenset((*_OWN, _OBSERVED, "nominatedNodeName"))
"""Fields that are not copied. observedGeneration counts changes of the delegate's spec. nominatedNodeName is a
node of the target, and the API server rejects it on a bound pod."""

CONDITION = "multicluster/PodIPsAllowed"
"""Condition of proxy pods: False if addresses of the delegate have been omitted."""

_EPHEMERAL = "ephemeralContainerStatuses"

_CONTAINERS = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    _EPHEMERAL: "ephemeralContainers",
}


def restarts_always(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod, or a chaperon's, restarts containers whatever their exit code."""
    return bool((pod.get("spec") or {}).get("restartPolicy", "Always") == "Always")


def proxy_status(
    proxy: dict[str, Any],
    chaperon_status: Mapping[str, Any],
    ranges: PodRanges = ANYWHERE,
    known: Followed = NOTHING,
) -> dict[str, Any]:
    """Return the whole status for the proxy pod; its present one while the delegate has none.

    Omit containers that the proxy pod lacks (injected in the target), and never lower restart counts. Keep
    conditions that controllers in the source own (`podconditions`). `observedGeneration` is the proxy pod's
    generation that the delegate has applied and its kubelet observed; never lower it.

    :param ranges: of the target; pod IPs outside them, or that belong to other pods in the source, are omitted and
        reported in a condition
    :param known: changes of the proxy pod that the delegate has applied
    """
    current: dict[str, Any] = proxy.get("status") or {}
    if not chaperon_status:
        return current
    status = {key: value for key, value in chaperon_status.items() if key not in _NOT_HOME}
    status.update({key: current[key] for key in _OWN if key in current})
    observed = chaperon_status.get(_OBSERVED)
    # API servers before 1.33 do not count generations of pods, and drop this field.
    known = known._replace(generation=min(known.generation, proxy["metadata"].get("generation") or 0))
    generation = max(known.generation if observed else 0, current.get(_OBSERVED) or 0)
    if generation:
        status[_OBSERVED] = generation
    status, left_out = without_outside(status, ranges)
    if "conditions" in status or "conditions" in current or left_out:
        home = merged(proxy, status.get("conditions") or [], known, observed)
        status["conditions"] = _with_left_out(home, current.get("conditions") or [], left_out)
    for field, of in _CONTAINERS.items():
        if field in status:
            declared = {container["name"] for container in proxy.get("spec", {}).get(of) or ()}
            status[field] = _containers(declared, current.get(field) or [], status[field] or [])
    # API servers omit empty fields: writing them would differ from the stored status forever.
    return {field: value for field, value in status.items() if value != []}


def brought(proxy: dict[str, Any], chaperon: Mapping[str, Any], ranges: PodRanges) -> tuple[Raw, dict[str, str | None]]:
    """Return the status for the proxy pod, and the merge patch of annotations that record facts about it.

    The facts are the delegate's addresses that cannot be used in the source, and the condition types that the
    target owns.
    """
    status, known = chaperon.get("status") or {}, followed(chaperon)
    current = proxy["metadata"].get("annotations") or {}
    facts = {
        links.ANNOTATION_POD_IPS: strangers(status, ranges),
        following.ANNOTATION_TARGET_CONDITIONS: list_of_target(proxy, status.get("conditions") or (), known),
    }
    noted = {key: value or None for key, value in facts.items() if value != current.get(key, "")}
    return proxy_status(proxy, status, ranges, known), noted


def annotations_home(
    proxy_annotations: Mapping[str, str] | None,
    chaperon_annotations: Mapping[str, str] | None,
    homecoming: Homecoming = USUAL,
) -> dict[str, str | None]:
    """Return the merge patch of the proxy pod's annotations; {} if they are up to date.

    Keys of Flotilla are never copied, others only if `homecoming` allows them. Annotations that only the proxy
    pod has stay. If both values differ, copy the delegate's unless it was created with that value. In that case
    a user has changed or removed the proxy pod's annotation. A key that is recorded as a live change is not
    copied: the delegate follows the proxy pod.

    A key with addresses that `homecoming` withholds was copied earlier, by an older agent or for a Target
    without `spec.podCIDRs`. Restore the value that the proxy pod was created with, or remove the key.
    """
    mine = proxy_annotations or {}
    known = told({"metadata": {"annotations": chaperon_annotations}})
    live = known.get("annotations") or ()
    changed: dict[str, str | None] = {
        key: value
        for key, value in (chaperon_annotations or {}).items()
        if not names.is_ours(key) and mine.get(key) != value and key not in live and homecoming.lets(key)
    }
    withheld = [key for key in mine if key not in live and homecoming.withholds(key)]
    if not changed and not withheld:
        return changed
    original = _original_annotations(mine, known)
    if original is None:
        # Without a manifest the origin of a change is unknown: the delegate's value takes precedence.
        return changed
    found = {key: value for key, value in changed.items() if original.get(key) != value}
    return found | {key: original.get(key) for key in withheld if original.get(key) != mine[key]}


def _original_annotations(annotations: Mapping[str, str], known: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the annotations that the proxy pod was created with; None without a manifest."""
    try:
        source = source_pod({"metadata": {"annotations": annotations}})
    except InvalidPod:
        return None
    found: Mapping[str, str] = baseline.of(source, known)["annotations"]
    return found


def _with_left_out(
    conditions: list[dict[str, Any]], current: list[dict[str, Any]], left_out: LeftOut | None
) -> list[dict[str, Any]]:
    """Return the conditions, with the one about omitted addresses if there are any."""
    kept = [condition for condition in conditions if condition["type"] != CONDITION]
    if left_out is None:
        return kept
    before: dict[str, Any] = next((each for each in current if each["type"] == CONDITION), {})
    found = {"type": CONDITION, "status": "False", "reason": left_out.reason, "message": left_out.message}
    return [*kept, {**before, **found}]


def _containers(
    declared: set[str], current: list[dict[str, Any]], delegate: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    restarts = {status["name"]: status.get("restartCount", 0) for status in current}
    return [
        {**status, "restartCount": max(status.get("restartCount", 0), restarts.get(status["name"], 0))}
        for status in delegate
        if status["name"] in declared
    ]


def restarts_left_behind(status: Mapping[str, Any]) -> dict[str, int]:
    """Return restart counts with which the next delegate starts: each container's count, plus one."""
    return {
        container["name"]: container.get("restartCount", 0) + 1
        for field in _CONTAINERS
        for container in status.get(field) or ()
    }


def with_restarts(status: Mapping[str, Any], before: Mapping[str, int]) -> dict[str, Any]:
    """Return a delegate's status with restarts of earlier delegates added: a new pod never lowers the count."""
    raised = dict(status)
    for field in _CONTAINERS:
        if field in raised:
            raised[field] = [
                {**container, "restartCount": container.get("restartCount", 0) + before.get(container["name"], 0)}
                for container in raised[field] or ()
            ]
    return raised


def with_ended(status: Mapping[str, Any], pod: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a delegate's status with the ephemeral containers of earlier delegates, which have ended with them.

    Kubelets never restart them, and API servers reject a status in which a terminated one runs.

    :param before: the present status of the chaperon
    """
    lost = ended_before(pod, before)
    if not lost:
        return dict(status)
    entries = [entry for entry in before.get(_EPHEMERAL) or () if entry["name"] in lost]
    return {**status, _EPHEMERAL: [*map(_ended, entries), *(status.get(_EPHEMERAL) or ())]}


def ended_before(pod: Mapping[str, Any], before: Mapping[str, Any]) -> set[str]:
    """Return names of ephemeral containers that ran in an earlier delegate."""
    there = {container["name"] for container in pod.get("spec", {}).get("ephemeralContainers") or ()}
    return {entry["name"] for entry in before.get(_EPHEMERAL) or ()} - there


def _ended(entry: Mapping[str, Any]) -> dict[str, Any]:
    if (entry.get("state") or {}).get("terminated"):
        return dict(entry)
    # The kubelet reports this for a container that it cannot find.
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "the delegate it ran in is gone"}
    return {**entry, "ready": False, "started": False, "state": {"terminated": terminated}}


def is_done(pod: Mapping[str, Any]) -> bool:
    """Return whether a proxy pod, or a chaperon's pod, has completed: losing its target does not restart it."""
    return has_ended(pod) and not restarts_always(pod)


def status_of_let_go(proxy: dict[str, Any], chaperon: Mapping[str, Any], ranges: PodRanges) -> dict[str, Any]:
    """Return the merge patch of the status of a proxy pod that is released; {} if nothing has to be written.

    Write only if another controller may read it: for pods that are not restarted, and for pods that have other
    finalizers, such as those of Jobs.
    """
    held = bool(other_finalizers(proxy["metadata"].get("finalizers")))
    if not proxy["spec"].get("nodeName") or (restarts_always(proxy) and not held):
        return {}
    if is_given_up(proxy) or (has_ended(proxy) and not has_ended(chaperon)):
        return {}
    wanted = proxy_status(proxy, chaperon.get("status") or {}, ranges, followed(chaperon))
    return merge_patch(proxy.get("status") or {}, wanted)


def status_of_lost(proxy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a proxy pod with other finalizers, whose delegate was deleted without a final status.

    Jobs with a failure policy, or that replace only failed pods, keep the pod until it has a final phase.
    Return {} if it has one, or never had a node.
    """
    if not proxy["spec"].get("nodeName") or has_ended(proxy):
        return {}
    message = "the pod was deleted, and its delegate has ended"
    return {"phase": "Failed", "reason": "DelegateGone", "message": message}


def status_of_given_up(message: str, now: str) -> dict[str, Any]:
    """Return the strategic merge patch of the status of a proxy pod whose delegate has certainly stopped.

    This one write makes the pod's controller create another pod; failure policies of Jobs read the condition.
    """
    over = {"status": "False", "reason": "PodFailed", "lastTransitionTime": now}
    disrupted = {"status": "True", "reason": POD_LOST, "message": message, "lastTransitionTime": now}
    conditions = [
        {"type": DISRUPTED, **disrupted},
        {"type": "Ready", **over},
        {"type": "ContainersReady", **over},
        {"type": moves.CONDITION, "$patch": "delete"},
    ]
    return {"phase": "Failed", "reason": POD_LOST, "message": message, "conditions": conditions}


def is_given_up(proxy: Mapping[str, Any]) -> bool:
    """Return whether `status_of_given_up` has been written: then the delegate's status is ignored."""
    status = proxy.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTED) or {}
    return has_ended(proxy) and status.get("reason") == POD_LOST == condition.get("reason")
