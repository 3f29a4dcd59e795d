"""Decide the actions for one proxy pod and its chaperons: pure (wire contract, 5; rulings 1, 4, 5, 6)."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition, without_condition
from agent.model import podstate
from agent.model.annotations import fitting, message
from agent.model.delegate_annotations import USUAL, Homecoming
from agent.model.diff import merge_patch
from agent.model.podranges import ANYWHERE
from agent.model.podstate import has_ended
from agent.model.status import (
    annotations_home,
    brought,
    is_done,
    is_given_up,
    restarts_always,
    status_of_let_go,
    status_of_lost,
)
from agent.pods.feedback.view import (
    ENDING,
    GONE,
    MAY_HAVE_RUN,
    Action,
    DeleteChaperon,
    DeleteProxy,
    EndProxy,
    PatchProxy,
    ProxyAndDelegates,
    ReleaseProxy,
    ShortenGrace,
    TargetChaperon,
    Withdraw,
)

CONDITION = "multicluster/AnnotationsHome"
"""Annotation of a proxy pod: keys of its delegate's annotations that are not copied; absent if there are none."""


def decide(view: ProxyAndDelegates) -> list[Action]:
    """Return the actions that make a proxy pod and its chaperons agree."""
    proxy = view.proxy
    if proxy is None:
        return _delete(view, view.delegates)
    uid = proxy["metadata"]["uid"]
    others = tuple(delegate for delegate in view.delegates if delegate.parent_uid != uid)
    mine = tuple(delegate for delegate in view.delegates if delegate.parent_uid == uid)
    actions = _delete(view, others)
    if proxy["metadata"].get("deletionTimestamp"):
        return actions + _let_go(view, proxy, mine)
    if not proxy["spec"].get("nodeName"):
        lost = tuple(delegate for delegate in mine if delegate.lost and not is_done(delegate.chaperon))
        if any(delegate.may_have_run for delegate in lost):
            return [*actions, DeleteProxy(MAY_HAVE_RUN)]
        # The scheduler still waits for the chaperon and recreates it.
        actions += _delete(view, lost, certain=True)
        mine = tuple(delegate for delegate in mine if delegate not in lost)
    if not view.home:
        return actions
    actions += _delete(view, _strays(view, mine), certain=True)
    if proxy["spec"].get("nodeName"):
        actions += _bound(view, proxy, _at_home(view, mine))
    return actions


def _at_home(view: ProxyAndDelegates, mine: tuple[TargetChaperon, ...]) -> TargetChaperon | None:
    return next((delegate for delegate in mine if delegate.finalizer == view.home), None)


def _strays(view: ProxyAndDelegates, mine: tuple[TargetChaperon, ...]) -> tuple[TargetChaperon, ...]:
    """Return the delegates outside the pod's own target.

    Two Targets may point to the same cluster, so a chaperon that the own target has, too, is no stray. While the own
    target is unreachable, none is.
    """
    if view.home not in view.settled:
        return ()
    here = {delegate.chaperon["metadata"].get("uid") for delegate in mine if delegate.finalizer == view.home}
    return tuple(
        delegate
        for delegate in mine
        if delegate.finalizer != view.home and delegate.chaperon["metadata"].get("uid") not in here
    )


def _delete(view: ProxyAndDelegates, delegates: tuple[TargetChaperon, ...], *, certain: bool = False) -> list[Action]:
    """Orphans go only when they carry our cluster's UID: a name may be another cluster's, too (ruling 4)."""
    return [
        DeleteChaperon(delegate)
        for delegate in delegates
        if not delegate.deleting
        and (certain or delegate.chaperon["metadata"]["labels"].get(names.LABEL_PARENT_CLUSTER_UID) == view.cluster_uid)
    ]


def _let_go(view: ProxyAndDelegates, proxy: dict[str, Any], mine: tuple[TargetChaperon, ...]) -> list[Action]:
    """Keep copying status to a terminating proxy pod until its delegate has ended, then remove the finalizer."""
    here = _at_home(view, mine)
    said = _last_words(view, proxy, here)
    serving = here if here is not None and view.ending.wait and not here.deleting else None
    # Two Targets may point to the same cluster, and so to the same chaperon.
    ended = tuple(delegate for delegate in mine if serving is None or delegate.uid != serving.uid)
    ending = [*said, *_withdraw(view, serving), *_shorten(view, here), *_delete(view, ended, certain=True)]
    return ending if said and not mine else ending + _release(view, proxy, mine)


def _withdraw(view: ProxyAndDelegates, serving: TargetChaperon | None) -> list[Action]:
    """Take the delegate out of Services before it ends, once."""
    return [Withdraw(serving, view.ending.grace)] if serving is not None and not serving.withdrawn else []


def _shorten(view: ProxyAndDelegates, here: TargetChaperon | None) -> list[Action]:
    """Send the grace period of a deletion if it is shorter than the delegate's spec or than the one sent before."""
    if here is None or view.ending.wait or view.ending.grace is None:
        return []
    return [ShortenGrace(here, view.ending.grace)]


def _last_words(view: ProxyAndDelegates, proxy: dict[str, Any], here: TargetChaperon | None) -> list[Action]:
    """Copy the final status that a delegate reports while it ends, or has reported before its chaperon was deleted."""
    said = here or view.last
    told = status_of_let_go(proxy, said.chaperon, said.ranges) if said is not None else {}
    metadata = _metadata(proxy, guarded="conditions" in told)
    return [PatchProxy(metadata | {"status": told}, status=True, last=True)] if told else []


def _release(view: ProxyAndDelegates, proxy: dict[str, Any], mine: tuple[TargetChaperon, ...]) -> list[Action]:
    """Release a terminating proxy pod after its delegate has ended in every target."""
    held = {delegate.finalizer for delegate in mine} | _unsure(view, proxy) | view.doubtful
    if view.home and view.home not in view.settled:
        held.add(view.home)
    held -= view.lost - view.settled
    finalizers = proxy["metadata"].get("finalizers") or []
    kept = podstate.released(finalizers, held)
    actions: list[Action] = []
    if kept != finalizers:
        actions.append(ReleaseProxy(kept, status_of_lost(proxy) if kept and not held else {}))
    if not held and proxy["spec"].get("nodeName") and proxy["metadata"].get("deletionGracePeriodSeconds"):
        actions.append(EndProxy())
    return actions


def _unsure(view: ProxyAndDelegates, proxy: dict[str, Any]) -> set[str]:
    """Return finalizers of unreachable targets that may hold candidates which an earlier Admiralty agent made of the
    pod.

    Admiralty creates candidates in several targets without a claim; a claim by Flotilla leaves only its own finalizer.
    Unclaimed chaperons of Flotilla carry the cluster's UID, and are deleted as orphans.
    """
    metadata = proxy["metadata"]
    annotations = metadata.get("annotations") or {}
    if podstate.is_claimed(annotations) or (not proxy["spec"].get("nodeName") and _is_our_work(annotations)):
        return set()
    return set(podstate.target_finalizers(metadata.get("finalizers"))) - view.settled


def _is_our_work(annotations: Mapping[str, str]) -> bool:
    """Return whether Flotilla's webhook created the proxy pod: its manifest is JSON, Admiralty's is YAML (ruling 7)."""
    return annotations.get(names.ANNOTATION_MANIFEST, "{").startswith("{")


def _bound(view: ProxyAndDelegates, proxy: dict[str, Any], here: TargetChaperon | None) -> list[Action]:
    """Return the actions for a bound proxy pod; none while its target does not answer."""
    if view.home not in view.settled:
        return []
    if is_given_up(proxy):
        return _delete(view, (here,) if here is not None else (), certain=True)
    if here is None:
        return _without_delegate(view, proxy)
    return _deleted(view, proxy, here) if here.deleting else _living(view, proxy, here)


def _without_delegate(view: ProxyAndDelegates, proxy: dict[str, Any]) -> list[Action]:
    """Delete a proxy pod whose delegate has been deleted, unless it has ended or its final status is still to copy."""
    return _last_words(view, proxy, None) or ([] if is_done(proxy) else [DeleteProxy(GONE)])


def _deleted(view: ProxyAndDelegates, proxy: dict[str, Any], here: TargetChaperon) -> list[Action]:
    """Follow the deletion of a chaperon in the target: a pod that always restarts is replaced at once."""
    if restarts_always(proxy) and not here.lost:
        return [DeleteProxy(ENDING)]
    return _last_words(view, proxy, here.not_ready())


def _living(view: ProxyAndDelegates, proxy: dict[str, Any], here: TargetChaperon) -> list[Action]:
    """Copy the status of a delegate, and end the proxy pod of one that ends or is lost before it is done."""
    patch = home_patch(proxy, here, _unsure(view, proxy), view.homecoming)
    if not (here.ending or here.lost) or is_done(here.chaperon):
        return [PatchProxy(patch, status=True)] if patch else []
    told: list[Action] = [PatchProxy(patch, status=True, last=True)] if patch and has_ended(here.chaperon) else []
    # A terminating chaperon is awaited by its proxy pod, not by the proxy pod's controller.
    return [*told, DeleteProxy(ENDING) if here.ending else DeleteChaperon(here)]


def home_patch(
    proxy: dict[str, Any], here: TargetChaperon, held: AbstractSet[str] = frozenset(), homecoming: Homecoming = USUAL
) -> dict[str, Any]:
    """Return the merge patch for status, annotations and finalizers of a bound proxy pod; {} if they match.

    Of Flotilla's finalizers, that of the pod's target and those in `held` stay.
    """
    if here.ranges != ANYWHERE:
        homecoming = homecoming.without_addresses()
    mine, theirs = (each["metadata"].get("annotations") or {} for each in (proxy, here.chaperon))
    annotations, left_out = fitting(mine, annotations_home(mine, theirs, homecoming))
    wanted_status, noted = brought(proxy, here.chaperon, here.ranges)
    annotations = {**annotations, **noted}
    status = merge_patch(proxy.get("status") or {}, _with_left_out(wanted_status, left_out))
    finalizers = proxy["metadata"].get("finalizers") or []
    wanted = podstate.held_by(finalizers, here.finalizer, held)
    changes: dict[str, Any] = {}
    if annotations:
        changes["annotations"] = annotations
    if set(wanted) != set(finalizers):
        changes["finalizers"] = wanted
    if not status and not changes:
        return {}
    patch = _metadata(proxy, guarded="finalizers" in changes or "conditions" in status, **changes)
    return patch | {"status": status} if status else patch


def _with_left_out(status: dict[str, Any], left_out: Sequence[str]) -> dict[str, Any]:
    """Return the status with a note about annotations that are not copied; they do not block the rest."""
    conditions = status.get("conditions")
    if left_out:
        told = {"type": CONDITION, "status": "False", "reason": "LeftOut", "message": message(left_out)}
        return {**status, "conditions": [*without_condition(conditions, CONDITION), told]}
    if find_condition(conditions, CONDITION) is None:
        return status
    return {**status, "conditions": without_condition(conditions, CONDITION)}


def _metadata(proxy: dict[str, Any], *, guarded: bool = True, **changes: Any) -> dict[str, Any]:
    """Lists are replaced whole, so a patch of finalizers or conditions is valid for one version only."""
    metadata = {"uid": proxy["metadata"]["uid"], **changes}
    if guarded:
        metadata["resourceVersion"] = proxy["metadata"]["resourceVersion"]
    return {"metadata": metadata}
