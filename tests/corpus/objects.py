"""Objects as API servers return them."""

from typing import Any

Raw = dict[str, Any]

NAMESPACE = "shop"


def obj(kind: str, name: str, *, owner: Raw | None = None, generate: str = "", **more: Any) -> Raw:
    """Return an object in the namespace, controlled by its owner if given."""
    metadata: Raw = {"name": name, "namespace": NAMESPACE, "uid": f"{kind}-{name}", **more.pop("metadata", {})}
    if generate:
        metadata["generateName"] = generate
    if owner is not None:
        owned = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**owned, "controller": True}]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def pod(name: str, owner: Raw | None = None, phase: str = "Running", generate: str = "", **spec: Any) -> Raw:
    """Return a pod with one container."""
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
    spec = {"containers": [{"name": "main", "image": "app:1"}], **spec}
    return obj("Pod", name, owner=owner, generate=generate, spec=spec, status=status)


def slice_of(service: str, ready: int, port: int = 80, *, managed: str = "endpointslice-controller.k8s.io") -> Raw:
    """Return an EndpointSlice with this many ready endpoints."""
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": managed}
    endpoints = [{"addresses": [f"10.0.0.{number}"], "conditions": {"ready": True}} for number in range(ready)]
    return obj(
        "EndpointSlice",
        f"{service}-{managed[-3:]}-{ready}",
        metadata={"labels": labels},
        endpoints=endpoints,
        ports=[{"name": "http", "port": port}],
    )


def endpoints_of(service: str, pods: list[Raw], port: int = 80) -> Raw:
    """Return the core/v1 Endpoints of a Service, with one address per pod."""
    addresses = [
        {"ip": f"10.0.0.{number}", "targetRef": {"kind": "Pod", "name": name, "uid": f"Pod-{name}"}}
        for number, name in enumerate(each["metadata"]["name"] for each in pods)
    ]
    ports = [{"name": "http", "port": port}]
    return obj("Endpoints", service, subsets=[{"addresses": addresses, "ports": ports}] if pods else [])
