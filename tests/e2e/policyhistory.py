"""Two NetworkPolicies, and a check of the recorded history of delegates that they select. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, NETWORK_POLICIES, PODS
from agent.api.names import LABEL_SERVING, PREFIX
from tests.e2e import shared
from tests.e2e.recorder import Version, moments
from tests.networkpolicies import Workload, lets_in, selecting

Raw = dict[str, Any]
PORT = 8080
RECORDED = (PODS, ENDPOINT_SLICES, NETWORK_POLICIES)
OPS = {"kubernetes.io/metadata.name": "ops"}
MONITOR = Workload("ops", {"app": "monitor"}, OPS)
STRANGER = Workload("ops", {"app": "stranger"}, OPS)
POLICIES: dict[str, Raw] = {
    "default-deny": {"podSelector": {}, "policyTypes": ["Ingress"]},
    "allow-web": {
        "podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [
                    {"podSelector": {"matchLabels": {"app": "client"}}},
                    {"namespaceSelector": {"matchLabels": OPS}, "podSelector": {"matchLabels": {"app": "monitor"}}},
                ],
                "ports": [{"port": PORT}],
            }
        ],
    },
}


@dataclass
class Judgement:
    """Faults found in the history of a target, and the number of moments in which each delegate served."""

    faults: list[str] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    called: set[str] = field(default_factory=set)
    """Delegates that served while a client pod existed."""
    withdrawn: set[str] = field(default_factory=set)
    """Delegates that were ready but no longer an endpoint of any Service, before they were deleted."""
    deleted: set[str] = field(default_factory=set)


def judge(versions: Sequence[Version]) -> Judgement:
    """Evaluate the policies at each moment, for each delegate of `web` that is ready or a serving endpoint."""
    found, apps = Judgement(), dict[str, str]()
    for number, objects in moments(versions):
        for uid, pod in objects[PODS].items():
            apps.setdefault(uid, pod["metadata"]["labels"].get(PREFIX + "app", ""))
        of_app = {uid: pod for uid, pod in objects[PODS].items() if apps[uid] == "web"}
        callers = [_workload(pod) for uid, pod in objects[PODS].items() if apps[uid] == "client"]
        behind = _serving(objects[ENDPOINT_SLICES].values())
        policies = list(objects[NETWORK_POLICIES].values())
        for uid, pod in of_app.items():
            if uid in behind or shared.is_ready(pod):
                found.served[uid] += 1
                found.faults += [f"version {number}: {fault}" for fault in _faults(policies, pod, callers)]
                if callers:
                    found.called.add(uid)
            if shared.is_ready(pod) and uid not in behind and _is_withdrawn(pod):
                found.withdrawn.add(uid)
    gone = {each.obj["metadata"]["uid"] for each in versions if each.deleted and each.kind == PODS}
    found.deleted = {uid for uid in gone if apps[uid] == "web"}
    return found


def _workload(pod: Raw) -> Workload:
    metadata = pod["metadata"]
    return Workload(metadata["namespace"], metadata.get("labels") or {})


def _serving(slices: Iterable[Raw]) -> set[str]:
    """Return the UIDs of pods to which a cluster may send requests, including terminating ones."""
    endpoints = [each for slice in slices for each in slice.get("endpoints") or ()]
    serving = [each for each in endpoints if each["conditions"].get("serving") is not False]
    return {each["targetRef"]["uid"] for each in serving if "targetRef" in each}


def _is_withdrawn(pod: Raw) -> bool:
    return LABEL_SERVING not in pod["metadata"]["labels"] and "deletionTimestamp" not in pod["metadata"]


def _faults(policies: list[Raw], pod: Raw, callers: list[Workload]) -> Iterable[str]:
    """Yield the faults in policies of a pod that serves."""
    web, name = _workload(pod), pod["metadata"]["name"]
    selected = {each["metadata"]["name"] for each in selecting(policies, web)}
    if selected != set(POLICIES):
        yield f"{name} is selected by {sorted(selected)}"
    for caller in (*callers, MONITOR):
        if not lets_in(policies, web, caller, PORT):
            yield f"{name} refuses {dict(caller.labels)}"
    if lets_in(policies, web, STRANGER, PORT):
        yield f"{name} lets in a stranger"
