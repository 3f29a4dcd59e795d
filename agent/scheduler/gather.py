"""What a proxy pod asks for, read from its manifest and its annotations."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.model.proxypod import source_pod
from agent.scheduling.snapshot import Demand, requests

_CONSTRAINTS = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def demand_of(proxy: Mapping[str, Any]) -> Demand:
    """The demand of a proxy pod.

    :raises InvalidPod: if its manifest is unusable
    """
    source = source_pod(proxy)
    annotations = source.get("metadata", {}).get("annotations")
    stripped = names.annotation(annotations, names.USE_CONSTRAINTS) is not None
    spec = source["spec"]
    return Demand(
        namespace=proxy["metadata"]["namespace"],
        proxy=proxy["spec"],
        source={key: value for key, value in spec.items() if not (stripped and key in _CONSTRAINTS)},
        requests=requests(spec),
        attempts=attempts_of(proxy),
    )


def attempts_of(proxy: Mapping[str, Any]) -> dict[str, str]:
    """Virtual nodes that could not take the pod, with the reason."""
    text = (proxy["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTEMPTS)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def attempts_annotation(known: Mapping[str, str], node_name: str, reason: str) -> str:
    """The annotation's value with one more attempt."""
    return msgspec.json.encode({**known, node_name: reason}).decode()
