"""Fields of proxy pods that moves depend on, decoded from JSON without the rest of the pod. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api.names import moves
from agent.kube.store import Object
from agent.model import replacement
from agent.moves.mover.view import Cause, Pod
from agent.ranking.explain import without_live_figures

OwnerKey = tuple[str, str, str, str]
"""Kind, namespace, name and UID of a pod's controller. For a pod without one: an empty kind and its own name and UID.

The group is appended to a kind that does not belong to Kubernetes: `StatefulSet.apps.kruise.io`.
"""
_GROUPS = ("", "apps", "batch")


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class _Claim(msgspec.Struct, rename="camel", gc=False):
    claim_name: str = ""


class _Volume(msgspec.Struct, rename="camel", gc=False):
    persistent_volume_claim: _Claim | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    volumes: list[_Volume] = []
    restart_policy: str = "Always"


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = []


class Facts(msgspec.Struct):
    """Fields of one pod. A wrong type raises msgspec.DecodeError; the API server validates types, so none occurs."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def annotations(self) -> Mapping[str, str]:
        """All annotations of the pod."""
        return self.metadata.annotations

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the volume claims that the pod mounts."""
        volumes = (volume.persistent_volume_claim for volume in self.spec.volumes)
        return tuple(claim.claim_name for claim in volumes if claim is not None)

    @property
    def ends(self) -> bool:
        """Whether the pod runs to completion, like the pods of a Job."""
        return self.spec.restart_policy != "Always"

    def condition(self, type: str) -> _Condition | None:
        """Return the condition of a type; None if the pod has none."""
        return next((each for each in self.status.conditions if each.type == type), None)

    def is_available(self, now: datetime, min_ready: float) -> bool:
        """Return True if the pod has been ready for `min_ready` seconds."""
        ready = self.condition("Ready")
        if ready is None or ready.status != "True":
            return False
        since = ready.last_transition_time
        return not min_ready or (since is not None and since + timedelta(seconds=min_ready) <= now)

    @property
    def told(self) -> str:
        """`REASON: MESSAGE` of the condition Placed; empty if that is missing or not False."""
        placed = self.condition(moves.CONDITION)
        return f"{placed.reason}: {placed.message}" if placed is not None and placed.status == "False" else ""

    @property
    def pending(self) -> str:
        """Reason why the pod has no node, from its condition PodScheduled, without figures of free capacity."""
        scheduled = self.condition("PodScheduled")
        is_pending = scheduled is not None and scheduled.status == "False"
        return without_live_figures(scheduled.message or "") if scheduled is not None and is_pending else ""


_decoder = msgspec.json.Decoder(Facts)


def facts_of(pod: Object) -> Facts:
    """Decode the fields of a pod that moves depend on."""
    return _decoder.decode(pod.raw)


def owner_of(pod: Object) -> OwnerKey:
    """Return the key of a pod's controller; for a replacement before its adoption, of the owner that will adopt it."""
    owner = pod.controller or next(iter(pod.head.metadata.owner_references or ()), None)
    if owner is None:
        return "", pod.namespace, pod.name, pod.uid
    kind = owner.kind if owner.group in _GROUPS else f"{owner.kind}.{owner.group}"
    return kind, pod.namespace, owner.name, owner.uid


def is_replacement(pod: Object) -> bool:
    """Return True if a pod is a replacement that no owner has adopted yet."""
    return bool(pod.hot_annotations.replaces) and pod.controller is None


def is_labelled(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if labels match the selector of an owner."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches(each, labels) for each in selector.get("matchExpressions") or ())


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values, value = expression["key"], expression.get("values") or (), labels.get(expression["key"])
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def viewed(pod: Object, facts: Facts, *, owner_uid: str, cause: tuple[Cause, str], **more: Any) -> Pod:
    """Build the view of an owner's pod or of a replacement."""
    annotations, controller = facts.annotations, pod.controller
    owned = controller is not None and controller.uid == owner_uid
    return Pod(
        name=pod.name,
        uid=pod.uid,
        created=facts.metadata.creation_timestamp,
        owned=owned or (pod.uid == owner_uid and not is_replacement(pod)),
        priority=pod.priority,
        placed=bool(pod.node_name),
        pending="" if pod.node_name else facts.pending,
        deleting=pod.deleting,
        ended=pod.phase in ("Succeeded", "Failed"),
        cause=cause[0],
        why=cause[1],
        replaces=annotations.get(moves.ANNOTATION_REPLACES, ""),
        replaced_by=annotations.get(moves.ANNOTATION_REPLACED_BY, ""),
        withdrawn=moves.ANNOTATION_WITHDRAWN in annotations and moves.ANNOTATION_REPLACED_BY not in annotations,
        rank=replacement.rank(annotations) or 0,
        told=facts.told,
        **more,
    )
