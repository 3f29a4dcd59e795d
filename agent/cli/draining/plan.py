"""Pods of a node that a drain evicts, and pods that prevent it, by the rules of `kubectl drain`. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.model.owner_labels import controller_of
from agent.model.podstate import ENDED

Raw = Mapping[str, Any]


class Options(msgspec.Struct, frozen=True):
    """Losses that the user accepts, as by the flags of `kubectl drain`."""

    force: bool = False
    """Pods that no controller recreates."""
    ignore_daemonsets: bool = False
    """Pods of DaemonSets stay."""
    delete_emptydir_data: bool = False
    """Data in emptyDir volumes."""


@dataclass(frozen=True)
class Pod:
    """A pod that is evicted."""

    namespace: str
    name: str
    uid: str
    deleting: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Plan:
    """Plan of a drain. `refused` maps each remedy to the pods that prevent the drain."""

    evict: tuple[Pod, ...] = ()
    stay: tuple[Pod, ...] = ()
    """Pods of DaemonSets, which would recreate them at once."""
    refused: dict[str, tuple[Pod, ...]] = field(default_factory=dict)


EMPTYDIR = "pods whose data in emptyDir volumes are lost then (--delete-emptydir-data evicts them all the same)"
UNMANAGED = "pods that nothing makes again (--force evicts them all the same)"
DAEMONSETS = "pods of DaemonSets, which make them again at once (--ignore-daemonsets lets them stay)"


def plan(pods: Iterable[Raw], options: Options) -> Plan:
    """Decide for each pod of a node whether it is evicted, stays, or prevents the drain."""
    evict: list[Pod] = []
    stay: list[Pod] = []
    refused: dict[str, tuple[Pod, ...]] = {}
    for raw in sorted(pods, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"])):
        pod = _pod(raw)
        if (controller_of(raw) or {}).get("kind") == "DaemonSet":
            if options.ignore_daemonsets:
                stay.append(pod)
                continue
            why = DAEMONSETS
        else:
            why = "" if pod.deleting else _objection(raw, options)
        if why:
            refused[why] = (*refused.get(why, ()), pod)
        else:
            evict.append(pod)
    return Plan(tuple(evict), tuple(stay), refused)


def _objection(raw: Raw, options: Options) -> str:
    if (raw.get("status") or {}).get("phase") in ENDED:
        return ""
    if controller_of(raw) is None and not options.force:
        return UNMANAGED
    volumes = (raw.get("spec") or {}).get("volumes") or ()
    if any("emptyDir" in volume for volume in volumes) and not options.delete_emptydir_data:
        return EMPTYDIR
    return ""


def _pod(raw: Raw) -> Pod:
    metadata = raw["metadata"]
    return Pod(metadata["namespace"], metadata["name"], metadata["uid"], "deletionTimestamp" in metadata)
