"""Chart values that correspond to flags of a sandbox's agents."""

import functools
from collections.abc import Sequence
from typing import Any

Raw = dict[str, Any]

IMAGE, SCHEDULER, ENVOY, TAG = "flotilla.local/flotilla", "flotilla.local/kube-scheduler", "flotilla.local/envoy", "e2e"
REPLICAS = 1
ON_REAL_NODES = {
    "nodeSelector": {"type": "real"},
    "tolerations": [{"key": "type", "value": "real", "effect": "NoSchedule"}],
}
OWN_VALUES: dict[str, tuple[str, ...]] = {"cluster-name": ("clusterName",), "scheduling": ("agent", "scheduling")}
"""Settings with a chart value of their own; all other settings are in `agent.settings`."""
FEATURES = {"ac3-networks": "ac3Networks", "p2code": "p2code"}
"""Features enabled by `agent.FEATURE.enabled`, since they also need rights and CRDs."""
LEFT_OUT = ("gateway",)
"""Flags that set no chart value: their features run additional pods, enabled by parameters of `values`."""


def values(cluster: str, flags: Sequence[str], *, candidate_scheduler: bool, gateways: bool = False) -> Raw:
    """Return the chart values that correspond to an agent's flags. Pure."""
    settings: Raw = {}
    found: Raw = {
        "clusterName": cluster,
        "image": {"repository": IMAGE, "tag": TAG},
        "agent": {"replicas": REPLICAS, "settings": settings, **ON_REAL_NODES},
        "webhook": {"replicas": REPLICAS, **ON_REAL_NODES},
    }
    if candidate_scheduler:
        found["candidateScheduler"] = {"enabled": True, "image": {"repository": SCHEDULER, "tag": TAG}}
    if gateways:
        image, service = {"repository": ENVOY, "tag": TAG}, {"type": "NodePort"}
        found["gateway"] = {"enabled": True, "image": image, "service": service, **ON_REAL_NODES}
    for flag in flags:
        name, equals, value = flag.removeprefix("--").partition("=")
        value = value if equals else "true"
        if name in LEFT_OUT:
            continue
        if name in FEATURES:
            found["agent"][FEATURES[name]] = {"enabled": True}
            continue
        *path, last = OWN_VALUES.get(name, ("agent", "settings", name))
        functools.reduce(lambda inner, key: inner[key], path, found)[last] = value
    return found
