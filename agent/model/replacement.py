"""Replacements: the pod that takes another one's place in a ReplicaSet, and the marks of a pod that is replaced.

A ReplicaSet adopts a pod without controller as soon as its labels match. So a replacement is created without
one label of the ReplicaSet's selector. Once it has the label, the ReplicaSet adopts it, has one pod too many,
and deletes the pod with the lowest deletion cost.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.names import moves
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.model.owner_labels import controller_of

Raw = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_HASH_LENGTH = 10
_LOWEST_COST = -(2**31)
_CHOICES = tuple(
    prefix + suffix
    for prefix in (names.PREFIX, names.SHORT_PREFIX)
    for suffix in (moves.TARGETS, moves.ALLOWED_TARGETS)
)
_RANKS = 2**20
"""More than the number of pods that any owner has in replacement."""


class Moved(msgspec.Struct, rename={"from_": "from"}, omit_defaults=True):
    """The annotation `multicluster/moved`."""

    from_: str = ""
    """Virtual node of the target of the replaced pod."""
    cause: str = ""
    since: str = ""
    """Time when the replacement began, in RFC 3339."""
    template: str = ""
    """Digest of the pod's template."""


def name(owner: str, old_uid: str, round: int) -> str:
    """Return the name of a replacement, the same at every attempt of a round."""
    digest = hashlib.sha256(f"{old_uid}/{round}".encode()).hexdigest()[:_HASH_LENGTH]
    return f"{owner[: names.SHORT_LIMIT - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def label_to_leave_out(selector: Mapping[str, Any], labels: Mapping[str, str], selected: Collection[str]) -> str:
    """Return the selector label to omit so that the ReplicaSet does not adopt the pod yet; empty if there is none.

    Prefer `pod-template-hash`, then labels that no Service selects.
    """
    keys = dict.fromkeys(selector.get("matchLabels") or ())
    keys |= dict.fromkeys(
        each["key"] for each in selector.get("matchExpressions") or () if each.get("operator") in ("In", "Exists")
    )
    found = sorted((key for key in keys if key in labels), key=lambda key: (key != HASH_LABEL, key in selected, key))
    return found[0] if found else ""


def digest(template: Mapping[str, Any]) -> str:
    """Return a digest that identifies a template."""
    return hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:_HASH_LENGTH]


def manifest(owner: Raw, old: Mapping[str, Any], name: str, left_out: str, moved: Moved) -> Raw:
    """Return the manifest of the replacement of a ReplicaSet's pod.

    :param left_out: key of the label that it receives only for its adoption
    """
    template: Raw = owner["spec"]["template"]
    given: Raw = template.get("metadata") or {}
    was: dict[str, str] = old["metadata"].get("annotations") or {}
    creator = was.get(names.ANNOTATION_CREATED_BY)
    # A pod that moves for its own target annotations keeps them: the template does not have them.
    chosen = {key: was[key] for key in _CHOICES if key in was} if moved.cause == "Targets" else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **given,
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {key: value for key, value in (given.get("labels") or {}).items() if key != left_out},
            "annotations": {
                **(given.get("annotations") or {}),
                **chosen,
                # Elect it however the other pods are elected: it must never run in the source.
                names.PREFIX + names.ELECT: "",
                moves.ANNOTATION_REPLACES: old["metadata"]["uid"],
                moves.ANNOTATION_MOVED: msgspec.json.encode(moved).decode(),
                **({names.ANNOTATION_CREATED_BY: creator} if creator else {}),
            },
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": False,
                }
            ],
        },
        "spec": template["spec"],
    }


def stand_in(pod: Mapping[str, Any]) -> Raw | None:
    """Return an approximation of a pod's controller, with the pod as its user sent it as the template.

    Return None if no object controls the pod, or its manifest cannot be read.
    """
    metadata, owner = pod["metadata"], controller_of(pod)
    if owner is None:
        return None
    try:
        source = source_pod(pod)
    except InvalidPod:
        return None
    kept = {key: value for key in ("labels", "annotations") if (value := source["metadata"].get(key))}
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": {"name": owner["name"], "namespace": metadata["namespace"], "uid": owner["uid"]},
        "spec": {"template": {"metadata": kept, "spec": source["spec"]}},
    }


def mark(old: Mapping[str, Any], new_uid: str, rank: int) -> Raw:
    """Return the merge patch of annotations that mark a pod for its deletion.

    :param rank: among several pods, the ReplicaSet deletes the one with the lowest rank first
    """
    was: dict[str, str] = old["metadata"].get("annotations") or {}
    cost = was.get(moves.ANNOTATION_COST_WAS, was.get(moves.DELETION_COST, ""))
    return {
        moves.ANNOTATION_REPLACED_BY: new_uid,
        moves.ANNOTATION_COST_WAS: cost,
        moves.DELETION_COST: str(_LOWEST_COST + rank),
    }


def restore(old: Mapping[str, Any]) -> Raw:
    """Return the merge patch of annotations that unmark a pod. Keep a deletion cost that a user has set meanwhile."""
    annotations: dict[str, str] = old["metadata"].get("annotations") or {}
    patch: dict[str, str | None] = dict.fromkeys(moves.MARKS)
    if rank(annotations) is not None:
        patch[moves.DELETION_COST] = annotations.get(moves.ANNOTATION_COST_WAS) or None
    return patch


def rank(annotations: Mapping[str, str]) -> int | None:
    """Return a pod's rank among those marked for deletion; None if the agent did not set its deletion cost."""
    try:
        found = int(annotations.get(moves.DELETION_COST, "")) - _LOWEST_COST
    except ValueError:
        return None
    return found if 0 <= found < _RANKS else None


def withdrawn(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return keys of labels that an earlier version removed from a delegate, until they are restored."""
    text = annotations.get(moves.ANNOTATION_WITHDRAWN)
    if text is None:
        return frozenset()
    try:
        return msgspec.json.decode(text, type=frozenset[str])
    except (msgspec.DecodeError, RecursionError):
        return frozenset()


def moved(annotations: Mapping[str, str]) -> Moved | None:
    """Return the move that created a pod; None if it is not a replacement."""
    text = annotations.get(moves.ANNOTATION_MOVED)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Moved)
    except (msgspec.DecodeError, RecursionError):
        return None
