"""Targets that Prometheus discovers for a Service by the roles `endpoints` and `endpointslice`. Pure.

Labels as discovery/kubernetes/endpoints.go and endpointslice.go of Prometheus make them, so far as Services and pods
decide about them. A target has labels of a pod only if its endpoint refers to one by a `targetRef` of kind Pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Raw = dict[str, Any]
Labels = dict[str, str]

_META = "__meta_kubernetes_"
_OF_THE_POD = ("pod_name", "pod_ip", "pod_node_name", "pod_controller_name")


def by_endpoints(endpoints: Raw, pods: Sequence[Raw]) -> list[Labels]:
    """Return the labels of each target of the role `endpoints`."""
    found = []
    for subset in endpoints.get("subsets") or ():
        for field, ready in (("addresses", "true"), ("notReadyAddresses", "false")):
            for address in subset.get(field) or ():
                for port in subset["ports"]:
                    labels = {"endpoints_name": endpoints["metadata"]["name"], "endpoint_ready": ready}
                    found.append(_target(labels, address["ip"], port, address, "endpoint", pods))
    return found


def by_slices(slices: Sequence[Raw], pods: Sequence[Raw]) -> list[Labels]:
    """Return the labels of each target of the role `endpointslice`."""
    return [
        _target(_conditions(endpoint), address, port, endpoint, "endpointslice", pods)
        for each in slices
        for endpoint in each.get("endpoints") or ()
        for address in endpoint["addresses"]
        for port in each["ports"]
    ]


def normal(target: Labels) -> Labels:
    """Return the labels without what differs between two pods; all of them if there are none of a pod.

    Raises AssertionError if they are of two pods.
    """
    address, pod = target["__address__"], target.get(_META + "pod_name")
    if pod is None:
        return target
    assert address.rpartition(":")[0] == target[_META + "pod_ip"]
    kept = {key: value for key, value in target.items() if key.removeprefix(_META) not in _OF_THE_POD}
    for key in list(kept):
        if key.endswith("_address_target_name"):
            assert kept.pop(key) == pod
        elif key.endswith(("_node_name", "_endpoint_node_name")):
            assert kept.pop(key) == target[_META + "pod_node_name"]
    return {**kept, "__address__": address.rpartition(":")[2]}


def _conditions(endpoint: Raw) -> Labels:
    conditions: Mapping[str, bool] = endpoint.get("conditions") or {}
    return {f"endpointslice_endpoint_conditions_{key}": str(value).lower() for key, value in conditions.items()}


def _target(labels: Labels, address: str, port: Raw, endpoint: Raw, role: str, pods: Sequence[Raw]) -> Labels:
    reference: Raw = endpoint.get("targetRef") or {}
    labels[f"{role}_port_name"] = port.get("name", "")
    if reference:
        labels |= {
            f"{role}_address_target_kind": reference.get("kind", ""),
            f"{role}_address_target_name": reference.get("name", ""),
        }
    if endpoint.get("nodeName"):
        labels["endpoint_node_name" if role == "endpoint" else "endpointslice_endpoint_node_name"] = endpoint[
            "nodeName"
        ]
    if reference.get("kind") == "Pod":
        labels |= dict(_pod_labels(reference["name"], pods))
    return {"__address__": f"{address}:{port['port']}", **{_META + key: value for key, value in labels.items()}}


def _pod_labels(name: str, pods: Sequence[Raw]) -> Iterator[tuple[str, str]]:
    for pod in pods:
        if pod["metadata"]["name"] != name:
            continue
        yield "pod_name", name
        yield "pod_ip", pod["status"].get("podIP", "")
        yield "pod_node_name", pod["spec"].get("nodeName", "")
        yield "pod_phase", pod["status"]["phase"]
        yield "pod_label_app", pod["metadata"]["labels"]["app"]
        for owner in pod["metadata"]["ownerReferences"]:
            yield "pod_controller_kind", owner["kind"]
            yield "pod_controller_name", owner["name"]
