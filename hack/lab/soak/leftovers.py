"""Differences between what every cluster contains after the faults and what the users want. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CHAPERONS,
    CONFIGMAPS,
    ENDPOINT_SLICES,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICES,
    Kind,
)
from agent.model.placeholder_volume import claim_uid
from hack.lab.soak.audit import moment
from hack.lab.soak.manifests import APP
from hack.lab.soak.plan import Step

Raw = dict[str, Any]

COPIED = (CONFIGMAPS, SECRETS, SERVICES, PERSISTENT_VOLUME_CLAIMS)
IN_NAMESPACE = (PODS, CHAPERONS, *COPIED, ENDPOINT_SLICES)
"""Kinds that are checked in the joined namespace. The next ones are checked in the whole cluster:"""
EVERYWHERE = (NODES, CERTIFICATE_REQUESTS, PERSISTENT_VOLUMES)


@dataclass(frozen=True)
class Listed:
    """All objects of these kinds in one cluster, and the leases of nodes."""

    cluster: str
    objects: Mapping[Kind, Sequence[Raw]]

    def of(self, kind: Kind) -> Sequence[Raw]:
        """Return the objects of a kind."""
        return self.objects[kind]


def problems(source: Listed, targets: Sequence[Listed], wanted: Mapping[str, Step]) -> list[str]:
    """Return all differences from the wanted state; some may disappear later."""
    proxies = _of_users(source)
    return [
        *_workloads(proxies, wanted),
        *_delegates(proxies, targets),
        *(problem for target in targets for problem in _copies(source, target)),
        *(problem for listed in (source, *targets) for problem in _ours(listed)),
    ]


def last_made(source: Listed, wanted: Mapping[str, Step]) -> float:
    """Return the creation time of the youngest pod of a wanted workload, in seconds since 1970; 0 if there is none."""
    pods = (pod["metadata"] for pod in _of_users(source))
    return max((moment(each["creationTimestamp"]) for each in pods if each["labels"][APP] in wanted), default=0.0)


def _of_users(source: Listed) -> list[Raw]:
    return [pod for pod in source.of(PODS) if APP in (pod["metadata"].get("labels") or {})]


def _workloads(proxies: Sequence[Raw], wanted: Mapping[str, Step]) -> Iterator[str]:
    """Check that each workload has the wanted number of pods, in the right phase, and that others have none."""
    found: dict[str, list[Raw]] = {name: [] for name in wanted}
    for pod in proxies:
        found.setdefault(pod["metadata"]["labels"][APP], []).append(pod)
    for name, pods in found.items():
        step = wanted.get(name)
        if step is None:
            yield f"{name} is not wanted any more and has {len(pods)} pods: {_told(pods[0])}"
            continue
        should = {"Job": "Succeeded", "Flop": "Failed", "Misfit": "Pending"}.get(step.sort, "Running")
        there = [pod for pod in pods if pod["status"].get("phase") == should]
        if len(there) != step.pods or len(pods) != step.pods:
            odd = next((_told(pod) for pod in pods if pod not in there), "")
            yield f"{step.sort} {name}: {len(there)} of {step.pods} pods are {should}, it has {len(pods)}; {odd}"


def _delegates(proxies: Sequence[Raw], targets: Sequence[Listed]) -> Iterator[str]:
    """Check that each bound pod has one delegate and one PodChaperon, in one target and phase; others have none."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in proxies}
    for kind in (PODS, CHAPERONS):
        found: Counter[str] = Counter()
        for target in targets:
            for obj in target.of(kind):
                uid = (obj["metadata"].get("labels") or {}).get(names.LABEL_PARENT_UID)
                proxy = by_uid.get(uid or "")
                if proxy is None:
                    yield f"{target.cluster}: {kind.name} {obj['metadata']['name']} is of no pod"
                    continue
                found[proxy["metadata"]["uid"]] += 1
                if kind is PODS and not _agree(proxy, obj):
                    yield f"{target.cluster}: delegate {_told(obj)}, its pod {_told(proxy)}"
        for uid, proxy in by_uid.items():
            bound = "nodeName" in proxy["spec"]
            if (bound and found[uid] != 1) or found[uid] > 1:
                yield f"{_told(proxy)} has {found[uid]} objects of kind {kind.name} in targets"


def _agree(proxy: Raw, delegate: Raw) -> bool:
    return bool(proxy["status"].get("phase") == delegate["status"].get("phase"))


def _copies(source: Listed, target: Listed) -> Iterator[str]:
    """Check that each copy in a target still has its original in the source.

    An agent that did not observe the deletion of a claim annotates the copy and keeps it for a day.
    """
    for kind in COPIED:
        originals = {obj["metadata"]["uid"]: obj for obj in source.of(kind)}
        for obj in target.of(kind):
            uid = (obj["metadata"].get("labels") or {}).get(names.LABEL_PARENT_UID)
            kept = names.ANNOTATION_ORPHANED_SINCE in (obj["metadata"].get("annotations") or {})
            if uid is not None and uid not in originals and not kept:
                yield f"{target.cluster}: the original of {kind.name} {obj['metadata']['name']} is gone"
    services = {obj["metadata"]["name"] for obj in target.of(SERVICES)}
    for obj in target.of(ENDPOINT_SLICES):
        service = (obj["metadata"].get("labels") or {}).get(names.LABEL_SERVICE_NAME)
        if service not in services:
            yield f"{target.cluster}: EndpointSlice {obj['metadata']['name']} is of no Service"


def _ours(listed: Listed) -> Iterator[str]:
    """Check that no object terminates, each certificate was issued, each lease has a node, virtual nodes are Ready."""
    for kind, objects in listed.objects.items():
        for obj in objects:
            if "deletionTimestamp" in obj["metadata"]:
                finalizers = ", ".join(obj["metadata"].get("finalizers") or ()) or "no finalizer"
                yield f"{listed.cluster}: {kind.name} {obj['metadata']['name']} is still going ({finalizers})"
    for obj in listed.of(CERTIFICATE_REQUESTS):
        status = obj.get("status", {})
        if not status.get("certificate") and not find_condition(status.get("conditions"), "Denied"):
            yield f"{listed.cluster}: CertificateSigningRequest {obj['metadata']['name']} has no certificate"
    claims = {obj["metadata"].get("uid") for obj in listed.of(PERSISTENT_VOLUME_CLAIMS)}
    for obj in listed.of(PERSISTENT_VOLUMES):
        if names.LABEL_STAND_IN in (obj["metadata"].get("labels") or {}) and claim_uid(obj) not in claims:
            yield f"{listed.cluster}: the claim that {obj['metadata']['name']} stands for is gone"
    nodes = {obj["metadata"]["name"]: obj for obj in listed.of(NODES)}
    for obj in listed.of(LEASES):
        if obj["metadata"]["name"] not in nodes:
            yield f"{listed.cluster}: the lease {obj['metadata']['name']} is of no node"
    for name, node in nodes.items():
        virtual = (node["metadata"].get("labels") or {}).get(names.PROVIDER_KEY) == names.PROVIDER_VALUE
        taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
        if virtual and (not _is_ready(node) or taints & {names.TAINT_UNREACHABLE, names.TAINT_AGENT}):
            yield f"{listed.cluster}: virtual node {name} is not Ready or has taints: {', '.join(sorted(taints))}"


def _is_ready(node: Raw) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _told(pod: Raw) -> str:
    going = ", going" if "deletionTimestamp" in pod["metadata"] else ""
    return (
        f"{pod['metadata']['name']} ({pod['status'].get('phase')}{going}, on {pod['spec'].get('nodeName', 'no node')})"
    )
