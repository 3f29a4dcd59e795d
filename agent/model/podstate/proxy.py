"""Finalizers, claim and home of a proxy pod. Pure.

Before the agent creates anything for a proxy pod in a target, the scheduler *claims* the pod for that target.
An annotation names the target's virtual node, and only that target's finalizer remains. Once the delegate has a
node, the proxy pod is *bound* to the virtual node. Its *home* is the target that it is bound to, or else
claimed for.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, Protocol

from agent.api import names

PROXY_PODS = f"spec.schedulerName={names.SCHEDULER_PROXY}"
"""Field selector of proxy pods: all pods with the proxy scheduler."""
OTHER_PODS = f"spec.schedulerName!={names.SCHEDULER_PROXY}"
"""Field selector of pods that run in the local cluster."""

ENDED = ("Succeeded", "Failed")
"""Final phases of a pod."""


class _Claim(Protocol):
    @property
    def claim(self) -> str: ...

    @property
    def claim_uid(self) -> str: ...

    @property
    def claim_renewed(self) -> str: ...


class ProxyPod(Protocol):
    """The part of a cached proxy pod that this module reads."""

    @property
    def node_name(self) -> str:
        """spec.nodeName, empty when absent."""

    @property
    def phase(self) -> str:
        """status.phase, empty when absent."""

    @property
    def finalizers(self) -> list[str]:
        """Present finalizers of the pod."""

    @property
    def hot_annotations(self) -> _Claim:
        """Annotations with the claim."""


# Finalizers ---------------------------------------------------------------------------------------------------------


def is_target_finalizer(finalizer: str) -> bool:
    """Return whether a finalizer represents one target or all of them: those with Admiralty's prefix do."""
    return finalizer.startswith(names.PREFIX)


def is_for_all_targets(finalizer: str) -> bool:
    """Return whether it is the finalizer that v0.10 added to an object for all targets together."""
    return finalizer == names.FINALIZER_V010


def is_our_finalizer(finalizer: str) -> bool:
    """Return whether a finalizer is Admiralty's or Flotilla's, on an object of any kind."""
    return names.is_ours(finalizer)


def target_finalizers(finalizers: Iterable[str] | None) -> list[str]:
    """Return the finalizers that represent targets."""
    return [each for each in finalizers or () if is_target_finalizer(each)]


def other_finalizers(finalizers: Iterable[str] | None) -> list[str]:
    """Return the finalizers that represent no target; only their owners may remove them."""
    return [each for each in finalizers or () if not is_target_finalizer(each)]


def is_held(finalizers: Iterable[str] | None) -> bool:
    """Return whether a finalizer of any target is on the object."""
    return any(map(is_target_finalizer, finalizers or ()))


def released(finalizers: Iterable[str] | None, held: Collection[str] = ()) -> list[str]:
    """Return the finalizers without those of targets, except for those in `held`."""
    return [each for each in finalizers or () if each in held or not is_target_finalizer(each)]


def without(finalizers: Iterable[str], gone: Collection[str]) -> list[str]:
    """Return the finalizers without some of them."""
    return [each for each in finalizers if each not in gone]


def held_by(finalizers: Iterable[str] | None, target: str, held: Collection[str] = ()) -> list[str]:
    """Return the finalizers of a proxy pod for one target; keep those in `held`, too."""
    return list(dict.fromkeys([*released(finalizers, held), target]))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod, or a chaperon's status, has a final phase."""
    return (pod.get("status") or {}).get("phase") in ENDED


# Claim and home -----------------------------------------------------------------------------------------------------


def is_claimed(annotations: Mapping[str, str]) -> bool:
    """Return whether the scheduler has claimed the proxy pod with these annotations."""
    return names.ANNOTATION_CLAIM in annotations


def claimed_node(pod: ProxyPod) -> str:
    """Return the virtual node of the target that a proxy pod is claimed for, empty for none."""
    return pod.hot_annotations.claim


def claimed_chaperon(pod: ProxyPod) -> str:
    """Return the UID of the chaperon that the claim names, empty if it names none."""
    return pod.hot_annotations.claim_uid


def claim_as_written(pod: ProxyPod) -> tuple[str, str]:
    """Return the claim and its renewal: while both are unchanged, the claim has not been written again."""
    return pod.hot_annotations.claim, pod.hot_annotations.claim_renewed


def claim_mode(pod: ProxyPod) -> Literal["", "ranked", "reserve"]:
    """Return the scheduling mode in which a proxy pod was claimed, empty for one without a claim.

    In mode `reserve` a claim names one chaperon by its UID. In mode `ranked` it covers any chaperon of the pod
    in the target.
    """
    if not pod.hot_annotations.claim:
        return ""
    return "reserve" if pod.hot_annotations.claim_uid else "ranked"


def claims_chaperon(pod: ProxyPod, node_name: str, uid: str) -> bool:
    """Return whether the claim is for the target of a virtual node, and covers this chaperon."""
    return pod.hot_annotations.claim == node_name and not claims_other_chaperon(pod, uid)


def claims_other_chaperon(pod: ProxyPod, uid: str) -> bool:
    """Return whether the claim names another chaperon."""
    return pod.hot_annotations.claim_uid not in ("", uid)


def claim_stands(claim: str, *, held: bool, connected: bool) -> bool:
    """Return whether a claim prevents a move of the pod to another target.

    A claim expires when its target no longer exists: it is not connected, and its finalizer has been removed
    from the pod.
    """
    return bool(claim) and (held or connected)


def home_node(pod: ProxyPod) -> str:
    """Return the virtual node that a proxy pod is bound to, or else claimed for; empty for none."""
    return pod.node_name or pod.hot_annotations.claim


def kept_home_node(pod: ProxyPod) -> str:
    """Return the home, but ignore a claim without a finalizer: such a pod has been released."""
    return home_node(pod) if pod.node_name or is_held(pod.finalizers) else ""


def occupied_node(pod: ProxyPod) -> str:
    """Return the virtual node of the target whose capacity the pod uses: its home, until it has ended."""
    return "" if pod.phase in ENDED else home_node(pod)


def home_finalizer(pod: ProxyPod, connected: str | None) -> str:
    """Return the finalizer of the home target; empty if there is none, or if it is unknown.

    :param connected: finalizer of the target that is connected under the home's virtual node; None if none is
        connected, then the pod's only target finalizer is returned
    """
    if connected is not None:
        return connected
    holding = target_finalizers(pod.finalizers)
    return holding[0] if home_node(pod) and len(holding) == 1 else ""
