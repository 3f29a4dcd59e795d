"""Which finalizers hold a proxy pod, what claims it, and which target is its home. Pure.

Before anything of a proxy pod leaves this cluster, the scheduler *claims* it for one target: an annotation names the
target's virtual node, and of all targets' finalizers only that one's is left. Once the delegate has a node there, the
proxy pod is *bound* to the virtual node. Its *home* is the target that it is bound to, or else claimed for.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, Protocol

from agent.api import names

PROXY_PODS = f"spec.schedulerName={names.SCHEDULER_PROXY}"
"""Field selector of proxy pods: whatever has our scheduler."""
OTHER_PODS = f"spec.schedulerName!={names.SCHEDULER_PROXY}"
"""Field selector of pods that run in the cluster where they are."""

ENDED = ("Succeeded", "Failed")
"""Phases that a pod never leaves."""


class _Claim(Protocol):
    @property
    def claim(self) -> str: ...

    @property
    def claim_uid(self) -> str: ...

    @property
    def claim_renewed(self) -> str: ...


class ProxyPod(Protocol):
    """What is looked at of a proxy pod as a store has it."""

    @property
    def node_name(self) -> str:
        """spec.nodeName, empty when absent."""

    @property
    def phase(self) -> str:
        """status.phase, empty when absent."""

    @property
    def finalizers(self) -> list[str]:
        """The finalizers that the pod has now."""

    @property
    def hot_annotations(self) -> _Claim:
        """The annotations that say what claims it."""


# Finalizers ---------------------------------------------------------------------------------------------------------


def is_target_finalizer(finalizer: str) -> bool:
    """Whether a finalizer stands for a target, or for all of them: whatever has Admiralty's prefix."""
    return finalizer.startswith(names.PREFIX)


def is_for_all_targets(finalizer: str) -> bool:
    """Whether it is the one finalizer that v0.10 put on an object for all targets together."""
    return finalizer == names.FINALIZER_V010


def is_our_finalizer(finalizer: str) -> bool:
    """Whether a finalizer is Admiralty's or Flotilla's, on an object of any kind."""
    return names.is_ours(finalizer)


def target_finalizers(finalizers: Iterable[str] | None) -> list[str]:
    """Those that stand for targets."""
    return [each for each in finalizers or () if is_target_finalizer(each)]


def other_finalizers(finalizers: Iterable[str] | None) -> list[str]:
    """Those that stand for no target, and are not ours to take off."""
    return [each for each in finalizers or () if not is_target_finalizer(each)]


def is_held(finalizers: Iterable[str] | None) -> bool:
    """Whether any target holds the object."""
    return any(map(is_target_finalizer, finalizers or ()))


def released(finalizers: Iterable[str] | None, held: Collection[str] = ()) -> list[str]:
    """The finalizers without those of targets, except for those that still hold the object."""
    return [each for each in finalizers or () if each in held or not is_target_finalizer(each)]


def without(finalizers: Iterable[str], gone: Collection[str]) -> list[str]:
    """The finalizers without some of them."""
    return [each for each in finalizers if each not in gone]


def held_by(finalizers: Iterable[str] | None, target: str, held: Collection[str] = ()) -> list[str]:
    """The finalizers of a proxy pod that one target holds from now on; those in `held` stay, too."""
    return list(dict.fromkeys([*released(finalizers, held), target]))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod, or what a chaperon tells of one, is in a phase that it never leaves."""
    return (pod.get("status") or {}).get("phase") in ENDED


# Claim and home -----------------------------------------------------------------------------------------------------


def is_claimed(annotations: Mapping[str, str]) -> bool:
    """Whether the scheduler has claimed the proxy pod with these annotations."""
    return names.ANNOTATION_CLAIM in annotations


def claimed_node(pod: ProxyPod) -> str:
    """Virtual node of the target that a proxy pod is claimed for, empty for none."""
    return pod.hot_annotations.claim


def claimed_chaperon(pod: ProxyPod) -> str:
    """UID of the one chaperon that the claim names, empty where it names none."""
    return pod.hot_annotations.claim_uid


def claim_as_written(pod: ProxyPod) -> tuple[str, str]:
    """The claim and its renewal: as long as both stay, nobody has written it again."""
    return pod.hot_annotations.claim, pod.hot_annotations.claim_renewed


def claim_mode(pod: ProxyPod) -> Literal["", "ranked", "reserve"]:
    """The scheduling mode in which a proxy pod was claimed, empty for one without a claim.

    In mode `reserve` a claim names one chaperon by its UID, in mode `ranked` whatever the pod has in the target.
    """
    if not pod.hot_annotations.claim:
        return ""
    return "reserve" if pod.hot_annotations.claim_uid else "ranked"


def claims_chaperon(pod: ProxyPod, node_name: str, uid: str) -> bool:
    """Whether the claim is for the target of a virtual node, and for this chaperon of the pod there."""
    return pod.hot_annotations.claim == node_name and not claims_other_chaperon(pod, uid)


def claims_other_chaperon(pod: ProxyPod, uid: str) -> bool:
    """Whether the claim names a chaperon, and not this one."""
    return pod.hot_annotations.claim_uid not in ("", uid)


def claim_stands(claim: str, *, held: bool, connected: bool) -> bool:
    """Whether the pod may not go to another target yet.

    A claim ends by itself when the target is no more: it is not connected, and its finalizer is off the pod.
    """
    return bool(claim) and (held or connected)


def home_node(pod: ProxyPod) -> str:
    """Virtual node that a proxy pod is bound to, or else claimed for; empty for none."""
    return pod.node_name or pod.hot_annotations.claim


def kept_home_node(pod: ProxyPod) -> str:
    """The same, where a claim counts only as long as a finalizer holds the pod: without one it was let go."""
    return home_node(pod) if pod.node_name or is_held(pod.finalizers) else ""


def occupied_node(pod: ProxyPod) -> str:
    """Virtual node in whose target the pod takes room: its home, until it has ended."""
    return "" if pod.phase in ENDED else home_node(pod)


def home_finalizer(pod: ProxyPod, connected: str | None) -> str:
    """Finalizer of the home target; empty when there is none, or it cannot be told.

    :param connected: finalizer of the target that is connected under the home's virtual node, None if there is none;
        its own finalizer then tells of the home, where it is the only one
    """
    if connected is not None:
        return connected
    holding = target_finalizers(pod.finalizers)
    return holding[0] if home_node(pod) and len(holding) == 1 else ""
