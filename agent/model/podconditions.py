"""Conditions of a proxy pod: some are copied from the delegate, controllers in the source own the others.

type                                       the proxy pod shows     because
the kubelet's (`KUBELET`)                  the delegate's          the kubelet of the target runs the containers
DisruptionTarget                           the delegate's, or      Jobs read in the source why a pod is evicted in
                                           else its own            either cluster
under Flotilla's prefixes                  its own                 it is about the proxy pod
readiness gates recorded as live changes   its own                 the delegate has them from the proxy pod
any other, first written in the target     the delegate's          an annotation of the proxy pod lists it
any other, first written in the source     its own                 a controller in the source wrote it
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names import following
from agent.model.diff import equivalent

Raw = dict[str, Any]

KUBELET = frozenset(
    (
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "Ready",
        "PodReadyToStartContainers",
        "PodResizePending",
        "PodResizeInProgress",
        "AllContainersRestarting",
    )
)
"""Types that kubelets and schedulers write (kubelet/types/pod_status.go)."""

DISRUPTED = "DisruptionTarget"
"""Type with the reason of a pod's disruption: the evicting component writes it, Jobs' failure policies read it."""

MOST_GATES = 100
"""Maximum number of readiness gates of one pod whose conditions are applied to its delegate."""

_LIST_LIMIT = 4096
"""Maximum length of the annotation with the target's types in characters.

A type beyond it counts as the target's while delegate and proxy pod have the same condition.
"""


class Followed(NamedTuple):
    """Record on a chaperon of the changes that its delegate has from the proxy pod."""

    gates: Collection[str] = ()
    """Types of the conditions that the source has sent."""
    generation: int = 0
    """Generation of the proxy pod that the delegate's kubelet has observed; 0 if unknown."""


NOTHING = Followed()


def is_others(type: str) -> bool:
    """Return whether a condition type belongs neither to kubelets nor to Flotilla."""
    return type not in KUBELET and type != DISRUPTED and not names.is_ours(type)


def merged(
    proxy: Mapping[str, Any], delegate: Iterable[Raw], followed: Followed, observed: int | None = None
) -> list[Raw]:
    """Return the conditions that the proxy pod should have, the delegate's first.

    Each of the delegate's gets the generation of the proxy pod: the delegate counts changes of another spec. The API
    server keeps the old number of a condition without one, so that omitting it would cause a write at each comparison.

    :param observed: `observedGeneration` of the delegate's status; conditions with this number or a later one are
        current
    """
    current: list[Raw] = (proxy.get("status") or {}).get("conditions") or []
    delegate = list(delegate)
    from_target = {each["type"] for each in delegate if not is_others(each["type"])}
    from_target = {type for type in from_target if not names.is_ours(type)} | _of_target(proxy, delegate, followed)
    generations = {condition["type"]: condition.get("observedGeneration") for condition in current}
    home = []
    for condition in delegate:
        type = condition["type"]
        if type not in from_target:
            continue
        mine = {key: value for key, value in condition.items() if key != "observedGeneration"}
        number = generations.get(type)
        if followed.generation and observed and condition.get("observedGeneration", 0) >= observed:
            number = max(followed.generation, number or 0)
        home.append(mine | ({"observedGeneration": number} if number else {}))
    gone = _listed(proxy) - set(followed.gates)
    stays = [each for each in current if each["type"] not in from_target | gone and each["type"] not in KUBELET]
    return home + stays


def list_of_target(proxy: Mapping[str, Any], delegate: Iterable[Raw], followed: Followed) -> str:
    """Return the value of the annotation that lists the target's types, empty for none."""
    kept, length = [], 0
    for type in sorted(_of_target(proxy, delegate, followed)):
        length += len(type) + 1
        if length <= _LIST_LIMIT:
            kept.append(type)
    return ",".join(kept)


def gates(proxy: Mapping[str, Any], chaperon: Mapping[str, Any], known: Mapping[str, str | None]) -> Raw:
    """Return the statuses of readiness gates that controllers in the source write, by type; None for removed ones.

    A type that was sent once stays in the result: the delegate has to follow the condition's removal, too.
    """
    wanted = [each["conditionType"] for each in proxy["spec"].get("readinessGates") or ()]
    if not wanted:
        return {}
    own, listed = (proxy.get("status") or {}).get("conditions"), _listed(proxy)
    there = (chaperon.get("status") or {}).get("conditions")
    found: Raw = {}
    for type in dict.fromkeys(wanted[:MOST_GATES]):
        condition = find_condition(own, type)
        if type in known:
            found[type] = condition["status"] if condition else None
        elif is_others(type) and condition and type not in listed and not _is_same(condition, _find(there, type)):
            found[type] = condition["status"]
    return found


def gate_patch(wanted: Mapping[str, str | None], pod: Mapping[str, Any], now: str) -> Raw:
    """Return the strategic merge patch of a delegate's status with the gates of its source; {} if it has them.

    Only readiness gates of the delegate itself are written, and none that kubelets own.
    """
    own = {each["conditionType"] for each in pod["spec"].get("readinessGates") or ()} if wanted else set()
    there = (pod.get("status") or {}).get("conditions")
    changed: list[Raw] = []
    for type, status in wanted.items():
        condition = _find(there, type)
        if type not in own or not is_others(type) or status == condition.get("status"):
            continue
        if status is None:
            changed.append({"type": type, "$patch": "delete"})
        else:
            message = "as a controller in the source has set it on the proxy pod"
            told = {"status": status, "reason": "SetInSource", "message": message, "lastTransitionTime": now}
            changed.append({"type": type, **told})
    return {"status": {"conditions": changed}} if changed else {}


def _of_target(proxy: Mapping[str, Any], delegate: Iterable[Raw], followed: Followed) -> set[str]:
    """Return types other than the kubelet's that controllers of the target own, since they wrote them first.

    A condition with the same content on both sides was copied from the delegate, perhaps by an agent without the list.
    """
    found = {each["type"]: each for each in delegate if is_others(each["type"]) and each["type"] not in followed.gates}
    if not found:
        return set()
    listed, own = _listed(proxy), (proxy.get("status") or {}).get("conditions")
    return {
        type
        for type, condition in found.items()
        if type in listed or not (mine := _find(own, type)) or _is_same(mine, condition)
    }


def _listed(proxy: Mapping[str, Any]) -> set[str]:
    text = (proxy["metadata"].get("annotations") or {}).get(following.ANNOTATION_TARGET_CONDITIONS)
    return set(text.split(",")) if text else set()


def _find(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> Mapping[str, Any]:
    return find_condition(conditions, type) or {}


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    first, second = ({**each, "observedGeneration": None} for each in (one, other))
    return equivalent(first, second)
