"""View of a cluster's objects of one manifest, by names that do not change from run to run. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES, Kind
from hack.lab.corpus.facts import facts
from hack.lab.corpus.rollouts import waiting

Raw = dict[str, Any]

ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints")
_SLICE_MANAGERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io", names.SLICE_MANAGER)
_OF_EVERY_NAMESPACE = frozenset((("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")))
_UNSEEN_KINDS = frozenset(("ControllerRevision", ENDPOINTS.name, "Event", "PodMetrics"))
"""Kinds that controllers write for internal use. Endpoints are compared as a part of their Service."""
_STATES = (("addresses", "ready"), ("notReadyAddresses", "not ready"))


@dataclass(frozen=True)
class View:
    """Facts of objects by kind, namespace and name. Objects with generated names share a key.

    `waits` lists the objects that are not ready.
    """

    objects: Mapping[str, Sequence[Raw]]
    waits: Sequence[str] = field(default=())

    @property
    def ready(self) -> bool:
        """Whether every workload has rolled out, every pod runs or has ended and every claim is bound."""
        return not self.waits


def view(objects: Iterable[Raw], virtual_nodes: frozenset[str] = frozenset()) -> View:
    """Return the view of some namespaces' objects, without pods of DaemonSets on virtual nodes: plain clusters
    have none.
    """
    objects = list(objects)
    kept = [obj for obj in objects if not _is_unseen(obj)]
    by_uid = {obj["metadata"]["uid"]: obj for obj in kept}
    made_up = _made_up(kept)
    found: dict[str, list[Raw]] = {}
    waits = []
    for obj in kept:
        if _is_of_a_schedule(obj, by_uid) or _is_managed_slice(obj) or _is_extra(obj, virtual_nodes):
            continue
        key = _without(made_up, key_of(obj, by_uid))
        what = json.loads(_without(made_up, json.dumps(facts(obj))))
        if obj["kind"] == SERVICES.name:
            what["endpoints"] = _endpoints(obj, kept)
            what["references"] = json.loads(_without(made_up, json.dumps(_references(obj, objects, by_uid))))
        found.setdefault(key, []).append(what)
        if waits_for := waiting(obj):
            waits.append(f"{key}: {waits_for}")
    return View(found, sorted(waits))


def _made_up(objects: Sequence[Raw]) -> dict[str, str]:
    """Return the patterns of generated names, by name; labels and other names contain these names, too."""
    return {
        obj["metadata"]["name"]: f"{obj['metadata']['generateName']}*"
        for obj in objects
        if obj["metadata"].get("generateName") and not obj["metadata"].get("ownerReferences")
    }


def _without(made_up: Mapping[str, str], text: str) -> str:
    for name, known in made_up.items():
        text = text.replace(name, known)
    return text


def left(objects: Iterable[Raw]) -> list[str]:
    """Return the names of objects that should have been deleted."""
    kept = [obj for obj in objects if not _is_unseen(obj) and not _is_managed_slice(obj)]
    by_uid = {obj["metadata"]["uid"]: obj for obj in kept}
    made_up = _made_up(kept)
    return sorted(_without(made_up, key_of(obj, by_uid)) for obj in kept)


def key_of(obj: Raw, by_uid: Mapping[str, Raw]) -> str:
    """Return `Kind namespace/name`; `*` replaces generated parts of the name."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{obj['kind']} {namespace + '/' if namespace else ''}{_name(obj, by_uid)}"


def _name(obj: Raw, by_uid: Mapping[str, Raw]) -> str:
    metadata = obj["metadata"]
    name = str(metadata["name"])
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if metadata.get("generateName") and (owner is None or owner["kind"] != "StatefulSet"):
        return f"{metadata['generateName']}*"
    above = by_uid.get(owner["uid"]) if owner else None
    if above is not None and above is not obj:
        return name.replace(above["metadata"]["name"], _name(above, by_uid), 1)
    return name


def _is_unseen(obj: Raw) -> bool:
    return obj["kind"] in _UNSEEN_KINDS or (obj["kind"], obj["metadata"]["name"]) in _OF_EVERY_NAMESPACE


def _is_of_a_schedule(obj: Raw, by_uid: Mapping[str, Raw]) -> bool:
    """Return whether a CronJob has created the object directly or indirectly; it does so every minute."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner["kind"] == "CronJob":
            return True
        above = by_uid.get(owner["uid"])
        if above is not None and above is not obj and _is_of_a_schedule(above, by_uid):
            return True
    return False


def _is_managed_slice(obj: Raw) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return obj["kind"] == ENDPOINT_SLICES.name and labels.get(names.LABEL_SLICE_MANAGED_BY) in _SLICE_MANAGERS


def _is_extra(obj: Raw, virtual_nodes: frozenset[str]) -> bool:
    owners = {each["kind"] for each in obj["metadata"].get("ownerReferences") or ()}
    return obj["kind"] == "Pod" and "DaemonSet" in owners and obj["spec"].get("nodeName") in virtual_nodes


def _endpoints(service: Raw, objects: Sequence[Raw]) -> Raw:
    """Return the number of endpoints of each port of a Service, ready and not."""
    found: dict[str, int] = {}
    for ready, port in _ready_ports(service, objects):
        key = f"{port} {'ready' if ready else 'not ready'}"
        found[key] = found.get(key, 0) + 1
    return found


def _ready_ports(service: Raw, objects: Sequence[Raw]) -> Iterator[tuple[bool, str]]:
    metadata = service["metadata"]
    for each in objects:
        labels = each["metadata"].get("labels") or {}
        if (
            each["kind"] != ENDPOINT_SLICES.name
            or each["metadata"].get("namespace") != metadata.get("namespace")
            or labels.get(names.LABEL_SERVICE_NAME) != metadata["name"]
        ):
            continue
        for endpoint in each.get("endpoints") or ():
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            for port in each.get("ports") or [{}]:
                yield ready, f"{port.get('name') or 'port'}:{port.get('port', '')}"


def _references(service: Raw, objects: Sequence[Raw], by_uid: Mapping[str, Raw]) -> Raw:
    """Return the names of the pods to which each port of a Service's core/v1 Endpoints refers, ready and not."""
    found: dict[str, list[str]] = {}
    metadata = service["metadata"]
    for each in objects:
        name = (each["metadata"].get("namespace"), each["metadata"]["name"])
        if each["kind"] != ENDPOINTS.name or name != (metadata.get("namespace"), metadata["name"]):
            continue
        for subset in each.get("subsets") or ():
            for port in subset.get("ports") or [{}]:
                for field_, state in _STATES:
                    key = f"{port.get('name') or 'port'}:{port.get('port', '')} {state}"
                    found.setdefault(key, []).extend(_reference(at, by_uid) for at in subset.get(field_) or ())
    return {key: sorted(names_) for key, names_ in found.items() if names_}


def _reference(address: Raw, by_uid: Mapping[str, Raw]) -> str:
    """Return the name of the pod to which an address refers, or the address if it refers to none."""
    reference = address.get("targetRef")
    if reference is None:
        return str(address["ip"])
    pod = by_uid.get(reference.get("uid", ""))
    return key_of(pod, by_uid) if pod else f"{reference['kind']} {reference['name']}, which does not exist"
