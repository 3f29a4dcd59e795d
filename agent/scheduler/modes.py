"""Modes: whether a proxy pod is scheduled by ranking or by reservation, and in which group. Pure."""

from agent.api import names
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED, claim_mode
from agent.settings import Mode

__all__ = ["Mode", "group_name", "group_of", "is_open", "mode_of"]

_GROUP = "group/"
"""Prefix of queue keys of groups; names of pods contain no slash."""


def mode_of(pod: Object, namespace: Object | None, default: Mode) -> Mode:
    """Return the mode set by the pod's annotations, else by its namespace's, else by the settings.

    A claimed pod keeps the mode in which it began.
    """
    known = pod.hot_annotations
    begun = claim_mode(pod)
    if begun:
        return begun
    if _group(pod):
        return "reserve"
    asked = known.scheduling or known.scheduling_short
    if not asked and (known.no_reservation is not None or known.no_reservation_short is not None):
        asked = "ranked"
    if not asked and namespace is not None:
        asked = names.annotation(namespace.annotations, names.SCHEDULING) or ""
    modes: tuple[Mode, ...] = ("ranked", "reserve")
    return next((mode for mode in modes if mode == asked), default)


def is_open(pod: Object) -> bool:
    """Return True if a pod still needs a target."""
    return not (pod.deleting or pod.node_name or pod.phase in ENDED)


def group_of(pod: Object) -> Key | None:
    """Return the key of the group that the pod starts with; None if it has no group."""
    name = _group(pod)
    return (pod.namespace, _GROUP + name) if name else None


def group_name(key: Key) -> str | None:
    """Return the name of the group that a key represents; None if it is the key of a pod."""
    return key[1].removeprefix(_GROUP) if key[1].startswith(_GROUP) else None


def _group(pod: Object) -> str:
    return pod.hot_annotations.group or pod.hot_annotations.group_short
