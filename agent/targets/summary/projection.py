"""Reduces pods to their requests: stores keep some hundred bytes per pod instead of several thousand. Pure."""

from typing import Any, TypedDict

import msgspec

from agent.api import names
from agent.kube.store import Object
from agent.model.requests import host_ports, requests

_Resources = dict[str, Any]


class _Port(TypedDict, total=False):
    hostPort: int
    protocol: str


class _Container(TypedDict, total=False):
    name: str
    restartPolicy: str
    resources: _Resources
    ports: list[_Port]


class _Spec(TypedDict, total=False):
    nodeName: str
    containers: list[_Container] | None
    initContainers: list[_Container]
    overhead: dict[str, Any]
    resources: _Resources


class _ContainerStatus(TypedDict, total=False):
    name: str
    resources: _Resources
    allocatedResources: dict[str, Any]


class _Condition(TypedDict, total=False):
    type: str
    reason: str


class _Status(TypedDict, total=False):
    conditions: list[_Condition]
    containerStatuses: list[_ContainerStatus]
    initContainerStatuses: list[_ContainerStatus]
    resources: _Resources
    allocatedResources: dict[str, Any]


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    resourceVersion: str
    labels: dict[str, str]


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class Held(msgspec.Struct, frozen=True, gc=False):
    """Requests of a pod on its node."""

    requests: dict[str, int] = {}
    """Amount by resource name, in 10^-9 of the base unit."""
    ports: list[str] = []
    """Host ports, as `TCP/80`."""
    source: str = ""
    """UID of a delegate's source cluster; empty for other pods."""


class _Reduced(msgspec.Struct):
    held: Held


_pod_decoder = msgspec.json.Decoder(_Pod)
_reduced_decoder = msgspec.json.Decoder(_Reduced)
_encode = msgspec.json.Encoder(order="sorted").encode


def reduce(raw: bytes) -> bytes:
    """Return JSON with a pod's key, version, node and requests."""
    pod = _pod_decoder.decode(raw)
    metadata, spec = pod["metadata"], pod.get("spec") or _Spec()
    source = metadata.pop("labels", {}).get(names.LABEL_PARENT_CLUSTER_UID, "")
    return _encode(
        {
            "metadata": metadata,
            "spec": {"nodeName": spec.get("nodeName", "")},
            "held": Held(requests(spec, pod.get("status")), sorted(host_ports(spec)), source),
        }
    )


def held(pod: Object) -> Held:
    """Return the requests of a reduced pod."""
    return _reduced_decoder.decode(pod.raw).held
