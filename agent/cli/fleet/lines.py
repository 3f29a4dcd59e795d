"""Targets and proxy pods as lines of a table. Pure."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import find_condition
from agent.base.clock import parse
from agent.cli.fleet.source_queries import SourceView
from agent.cli.fleet.target_queries import Answer, Delegate
from agent.cli.options import Failed
from agent.kube.store import Object
from agent.model.podstate import ENDED, home_node
from agent.targets.target.gather import reference

Raw = dict[str, Any]

CLUSTER_SCOPE = "all namespaces"


@dataclass(frozen=True)
class Room:
    """Amounts of one resource as Kubernetes quantities, empty if unknown."""

    free: str = ""
    allocatable: str = ""


class TargetLine(msgspec.Struct, frozen=True):
    """A target as its source records it."""

    name: str
    namespace: str
    """The only namespace that the target serves, empty for a ClusterTarget."""
    node: str
    """Its virtual node, empty if none exists."""
    ready: str
    reason: str
    message: str
    cordoned: bool
    pods: int
    """Number of unfinished pods that are bound to its virtual node."""
    pending: int
    """Number of these pods, and of pods claimed for the target, that are not running yet."""
    cpu: Room
    memory: Room
    kubernetes: str
    agent: str
    last_answer: str
    """RFC 3339 time since which it has not answered the agent; `now` while it answers, empty if it never has."""
    seconds: float | None
    """Latency of the target's answer to this command."""
    credentials: str
    """Name of the kubeconfig Secret, `self` for a self-target."""
    unread: str
    """Why the target itself could not be read."""

    @property
    def scope(self) -> str:
        """The namespace that the target serves, or all."""
        return self.namespace or CLUSTER_SCOPE


class PodLine(msgspec.Struct, frozen=True):
    """Line of `flotilla pods` for one proxy pod."""

    namespace: str
    name: str
    status: str
    target: str
    """Target that the pod is bound to, or claimed for."""
    bound: bool
    node: str
    delegate: str
    delegate_node: str
    created: str
    message: str
    """Reason why the pod waits."""
    ip: str


def target_lines(fleet: SourceView, answers: dict[tuple[str, str], Answer]) -> list[TargetLine]:
    """Return a line for every target, by namespace and name."""
    bound: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    for pod in fleet.proxies:
        if pod.phase in ENDED:
            continue
        node = home_node(pod)
        bound[pod.node_name] += 1
        pending[node] += pod.phase != "Running"
    return [
        _target_line(target, fleet.nodes.get(node), bound[node], pending[node], answers.get(target.key, Answer()))
        for target in sorted(fleet.targets, key=lambda each: each.key)
        for node in (names.virtual_node(*target.key),)
    ]


def known(fleet: SourceView, name: str) -> None:
    """Raise Failed if no target that could be read has this name."""
    there = {target.name for target in fleet.targets}
    if name not in there:
        listed = ", ".join(sorted(there)) or "none"
        raise Failed(f"no target {name} serves this namespace (there is: {listed}); -A looks in all namespaces")


def unplaced(fleet: SourceView) -> int:
    """Return the number of proxy pods without a target and without a claim for one."""
    return sum(1 for pod in fleet.proxies if not home_node(pod) and not pod.deleting)


def _target_line(target: Object, node: Object | None, pods: int, pending: int, answer: Answer) -> TargetLine:
    manifest = target.decode()
    conditions = (manifest.get("status") or {}).get("conditions")
    ready = find_condition(conditions, "Ready") or {}
    found = node.decode() if node is not None else {}
    status = found.get("status") or {}
    room = _rooms(node, status)
    place = reference(manifest)
    return TargetLine(
        name=target.name,
        namespace=target.namespace,
        node=node.name if node is not None else "",
        ready=ready.get("status") or "Unknown",
        reason=ready.get("reason") or "NothingSaid",
        message=ready.get("message") or "no agent of this cluster has said anything about this Target",
        cordoned=bool((found.get("spec") or {}).get("unschedulable")),
        pods=pods,
        pending=pending,
        cpu=room["cpu"],
        memory=room["memory"],
        kubernetes=answer.kubernetes or (status.get("nodeInfo") or {}).get("kubeletVersion", ""),
        agent=answer.agent,
        last_answer=_last_answer(find_condition(conditions, "Reachable") or {}),
        seconds=answer.seconds,
        credentials=str(place) if place is not None else "self",
        unread=answer.unread,
    )


def _rooms(node: Object | None, status: Raw) -> dict[str, Room]:
    text = node.annotations.get(names.ANNOTATION_FREE, "") if node is not None else ""
    try:
        free = msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        free = {}
    allocatable = status.get("allocatable") or {}
    return {each: Room(free.get(each, ""), str(allocatable.get(each, ""))) for each in ("cpu", "memory")}


def _last_answer(reachable: Any) -> str:
    """Return the time of the last answer: the condition is only written when it changes, so True means now."""
    if reachable.get("status") == "True":
        return "now"
    return str(reachable.get("lastTransitionTime", "")) if reachable.get("status") == "False" else ""


def pod_lines(
    fleet: SourceView, delegates: dict[str, Delegate], namespace: str | None, target: str = ""
) -> list[PodLine]:
    """Return a line for every proxy pod of a namespace (None: all), or only for those of a named target."""
    by_node = {names.virtual_node(*each.key): each.name for each in fleet.targets}
    lines = [
        _pod_line(pod, by_node, delegates.get(pod.uid))
        for pod in sorted(fleet.proxies, key=lambda each: each.key)
        if namespace in (None, pod.namespace)
    ]
    return [line for line in lines if target in ("", line.target)]


def _pod_line(pod: Object, by_node: dict[str, str], delegate: Delegate | None) -> PodLine:
    manifest = pod.decode()
    status = manifest.get("status") or {}
    scheduled = find_condition(status.get("conditions"), "PodScheduled") or {}
    node = home_node(pod)
    return PodLine(
        namespace=pod.namespace,
        name=pod.name,
        status=_status(pod, status),
        target=by_node.get(node, node),
        bound=bool(pod.node_name),
        node=pod.node_name,
        delegate=delegate.name if delegate else names.chaperon(pod.name, pod.uid) if pod.node_name else "",
        delegate_node=delegate.node if delegate else "",
        created=pod.head.metadata.creation_timestamp or "",
        message="" if scheduled.get("status") == "True" else scheduled.get("message", ""),
        ip=status.get("podIP", ""),
    )


def _status(pod: Object, status: Raw) -> str:
    """Return the status as kubectl shows it: a container's waiting reason is preferred to the phase."""
    if pod.deleting:
        return "Terminating"
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return str(waiting["reason"])
    return str(status.get("reason") or pod.phase or "Unknown")


def moment(text: str) -> datetime | None:
    """Parse a time that an API server has written."""
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def recent(text: str, now: datetime, limit: timedelta) -> bool:
    """Return True if a time is no longer ago than the limit."""
    found = moment(text)
    return found is not None and now - found <= limit
