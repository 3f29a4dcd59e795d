"""The state of all clusters at one moment: proxy pods with their delegates. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api.conditions import find_condition, is_true
from agent.api.names import LABEL_PARENT_UID
from agent.model.proxypod import is_delegate, is_proxy
from hack.lab.demo.manifests import REGION

Raw = dict[str, Any]


class Delegate(msgspec.Struct, frozen=True):
    """A pod that a PodChaperon controls in a target; `region` is that of its node, empty before it has one."""

    cluster: str
    name: str
    parent_uid: str
    node: str
    region: str
    phase: str
    ready: bool
    deleting: bool


@dataclass(frozen=True)
class Proxy:
    """A proxy pod in the source, with its delegates in all clusters."""

    name: str
    app: str
    node: str
    phase: str
    ready: bool
    deleting: bool
    why: str
    """Message of its PodScheduled condition while it has no node; else empty."""
    delegates: tuple[Delegate, ...]


class Readings(msgspec.Struct, frozen=True):
    """Lists that were read at one moment. Chaperons, pods and nodes by cluster; the others are those of the source."""

    source: str
    pods: Mapping[str, list[Raw]]
    chaperons: Mapping[str, list[Raw]]
    nodes: Mapping[str, list[Raw]]
    targets: list[Raw]
    workloads: list[Raw]


class DemoState(msgspec.Struct, frozen=True):
    """Objects in the namespace of the demo, in all clusters, at one moment."""

    proxies: tuple[Proxy, ...]
    orphans: tuple[Delegate, ...]
    """Delegates without a proxy pod."""
    strangers: tuple[str, ...]
    """`CLUSTER/POD` of pods that are neither proxy nor delegate."""
    chaperons: Mapping[str, int]
    virtual_nodes: Mapping[str, Raw]
    targets: Mapping[str, Raw]
    workloads: Mapping[tuple[str, str], Raw]
    """By kind and name: Deployments, ReplicaSets and Jobs."""

    def of(self, app: str) -> list[Proxy]:
        """Return the proxy pods of one application, terminating ones included."""
        return [proxy for proxy in self.proxies if proxy.app == app]

    def workload(self, kind: str, name: str) -> Raw | None:
        """Return a Deployment or Job of the source, None if it does not exist."""
        return self.workloads.get((kind, name))

    @property
    def delegates(self) -> list[Delegate]:
        """Delegates in all clusters."""
        return [delegate for proxy in self.proxies for delegate in proxy.delegates] + list(self.orphans)


def assemble(readings: Readings) -> DemoState:
    """Join proxy pods, delegates and nodes."""
    regions = {
        (cluster, node["metadata"]["name"]): (node["metadata"].get("labels") or {}).get(REGION, "")
        for cluster, nodes in readings.nodes.items()
        for node in nodes
    }
    delegates = [
        _delegate(cluster, pod, regions) for cluster, pods in readings.pods.items() for pod in pods if is_delegate(pod)
    ]
    here = readings.pods[readings.source]
    proxies = tuple(_proxy(pod, delegates) for pod in sorted(here, key=_name) if is_proxy(pod))
    known = {delegate for proxy in proxies for delegate in proxy.delegates}
    return DemoState(
        proxies=proxies,
        orphans=tuple(delegate for delegate in delegates if delegate not in known),
        strangers=tuple(_strangers(readings.pods)),
        chaperons={cluster: len(chaperons) for cluster, chaperons in readings.chaperons.items()},
        virtual_nodes={_name(node): node for node in readings.nodes[readings.source]},
        targets={_name(target): target for target in readings.targets},
        workloads={(obj["kind"], _name(obj)): obj for obj in readings.workloads},
    )


def spread(values: Iterable[str]) -> str:
    """Count each value, as in `eu 10, us 10`."""
    return ", ".join(f"{value} {count}" for value, count in sorted(Counter(values).items()))


def is_ready(obj: Raw) -> bool:
    """Return True if the condition Ready of a pod, node or target is true."""
    return is_true((obj.get("status") or {}).get("conditions"), "Ready")


def _proxy(pod: Raw, delegates: list[Delegate]) -> Proxy:
    metadata, status = pod["metadata"], pod.get("status") or {}
    scheduled = find_condition(status.get("conditions"), "PodScheduled") or {}
    return Proxy(
        name=metadata["name"],
        app=(metadata.get("labels") or {}).get("app", ""),
        node=pod["spec"].get("nodeName", ""),
        phase=status.get("phase", ""),
        ready=is_ready(pod),
        deleting="deletionTimestamp" in metadata,
        why=scheduled.get("message", "") if scheduled.get("status") != "True" else "",
        delegates=tuple(delegate for delegate in delegates if delegate.parent_uid == metadata["uid"]),
    )


def _delegate(cluster: str, pod: Raw, regions: Mapping[tuple[str, str], str]) -> Delegate:
    metadata = pod["metadata"]
    node = pod["spec"].get("nodeName", "")
    return Delegate(
        cluster=cluster,
        name=metadata["name"],
        parent_uid=(metadata.get("labels") or {}).get(LABEL_PARENT_UID, ""),
        node=node,
        region=regions.get((cluster, node), ""),
        phase=(pod.get("status") or {}).get("phase", ""),
        ready=is_ready(pod),
        deleting="deletionTimestamp" in metadata,
    )


def _strangers(pods: Mapping[str, list[Raw]]) -> Iterable[str]:
    for cluster, found in pods.items():
        for pod in found:
            if not is_delegate(pod) and not is_proxy(pod):
                yield f"{cluster}/{_name(pod)}"


def _name(obj: Raw) -> str:
    return str(obj["metadata"]["name"])
