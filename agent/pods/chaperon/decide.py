"""Decide the actions for one chaperon: pure (wire contract, 4.5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from agent.api import names
from agent.api.names import delegates, following, givingup
from agent.base.clock import parse, stamp
from agent.model.annotations import fitting, message
from agent.model.diff import equivalent, merge_patch
from agent.model.followed import observed
from agent.model.livechanges import delegate_patch, ephemeral_patch, missing_labels, resize_patch, told
from agent.model.podconditions import gate_patch
from agent.model.podpolicy import Rule, refusal, refusal_of_change
from agent.model.podstate import has_ended, is_refused, left_behind
from agent.model.status import ended_before, restarts_always, restarts_left_behind
from agent.pods.chaperon.actions import (
    Action,
    CreatePod,
    DeletePod,
    Foreign,
    LeaveOut,
    LookAgain,
    NoScheduler,
    PatchChaperon,
    PatchPod,
    PutStatus,
    Refuse,
    RefuseChange,
)
from agent.pods.chaperon.refusals import NO_SCHEDULER, unscheduled, unscheduled_in
from agent.pods.chaperon.telling import status_of, worth_telling


@dataclass(frozen=True)
class ChaperonAndPod:
    """A chaperon and the pod of the same name."""

    chaperon: dict[str, Any]
    pod: dict[str, Any] | None
    missing_limit: float
    """Seconds for which a delegate may be missing before it is recreated."""
    silence: float = 0.0
    """Seconds for which its status is still held back."""
    rules: tuple[Rule, ...] | None = ()
    """Rules for the contents of its pod; None until the policies have been read."""
    last: dict[str, Any] | None = None
    """Last observed state of its pod, if that had ended and has been deleted since."""
    candidates: bool = True
    """Whether a candidate scheduler runs in this cluster."""
    unmade: bool = False
    """Whether the creation of a pod was recorded without any pod appearing since."""
    unborn: bool = False
    """Whether the deleted pod never had a node."""
    bar: Literal["", "now", "ever"] = ""
    """Whether its fence forbids a pod: `now` until the source renews it, `ever` once it has expired."""


_UNREAD_SECONDS = 0.5
"""Sources are read within moments of the agent's start."""


def decide(view: ChaperonAndPod, now: datetime) -> list[Action]:
    """Return the actions that make chaperon and pod agree."""
    if view.chaperon["metadata"].get("deletionTimestamp"):
        return _last_words(view)
    return [*_allowed(view, _delegate(view, now), now), *_reservation(view.chaperon, now)]


def _allowed(view: ChaperonAndPod, actions: list[Action], now: datetime) -> list[Action]:
    """Remove the actions that the policies of Sources forbid."""
    if any(isinstance(action, CreatePod) for action in actions):
        if view.bar:
            return _barred(view, now)
        if view.rules is None:
            return [LookAgain(_UNREAD_SECONDS)]
        if not isinstance(view.chaperon.get("spec"), dict):
            return [Refuse("the PodChaperon has no spec, so there is no pod to create: delete it", by="")]
        refused = refusal(view.chaperon["spec"], view.rules)
        return [Refuse(refused.message, refused.source)] if refused else actions
    return [each for action in actions for each in _allowed_change(view.rules, action)]


_BARRED_SECONDS = 2.0


def _barred(view: ChaperonAndPod, now: datetime) -> list[Action]:
    """Create no pod behind a fence. Once the fence has expired, report the pod as missing permanently."""
    if view.bar == "now":
        return [LookAgain(_BARRED_SECONDS)]
    if names.ANNOTATION_POD_MISSING_SINCE in (view.chaperon["metadata"].get("annotations") or {}):
        return [LookAgain(3600)]
    return [PatchChaperon(_annotations({names.ANNOTATION_POD_MISSING_SINCE: stamp(now)}), if_missing=True)]


def _allowed_change(rules: tuple[Rule, ...] | None, action: Action) -> list[Action]:
    if not isinstance(action, PatchPod) or "spec" not in action.patch:
        return [action]
    if rules is None:
        return [LookAgain(_UNREAD_SECONDS)]
    refused = refusal_of_change(action.patch["spec"], rules)
    return [RefuseChange(refused.message)] if refused else [action]


def _delegate(view: ChaperonAndPod, now: datetime) -> list[Action]:
    if view.pod is None:
        return _without_pod(view, now)
    if not _is_ours(view.chaperon, view.pod):
        name = view.pod["metadata"]["name"]
        return [Foreign(f'resource "{name}" already exists and is not managed by PodChaperon')]
    if _is_given_up(view.chaperon):
        return [*_with_pod(replace(view, silence=0.0), view.pod, now), *_giving_up(view, view.pod, now)]
    # `_ending` comes first: its patch is guarded by the chaperon's version, which the other actions change.
    return [*_ending(view, view.pod, now), *_with_pod(view, view.pod, now)]


def _is_given_up(chaperon: Mapping[str, Any]) -> bool:
    return givingup.ANNOTATION_GIVE_UP in (chaperon["metadata"].get("annotations") or {})


def _giving_up(view: ChaperonAndPod, pod: dict[str, Any], now: datetime) -> list[Action]:
    """Delete the pod for its source unless it has a node; the pod's version decides against a concurrent bind.

    The record of the pod's creation is removed first: its absence proves that the pod has not run.
    """
    recorded = names.ANNOTATION_POD_MADE in view.chaperon["metadata"]["annotations"]
    if _spec(pod).get("nodeName"):
        kept: dict[str, str | None] = {givingup.ANNOTATION_GIVE_UP: None}
        kept |= {} if recorded or restarts_always(view.chaperon) else {names.ANNOTATION_POD_MADE: stamp(now)}
        return [PatchChaperon(_annotations(kept))]
    if pod["metadata"].get("deletionTimestamp"):
        return []
    taken_back: list[Action] = [PatchChaperon(_annotations({names.ANNOTATION_POD_MADE: None}))] if recorded else []
    return [*taken_back, DeletePod()]


_GONE_SECONDS = 1.0
"""The API server shows a pod that is deleted with grace period 0 as terminating just before it removes it."""


def _ending(view: ChaperonAndPod, pod: dict[str, Any], now: datetime) -> list[Action]:
    """Report to the source that the delegate is being deleted in the target, so that a replacement may start meanwhile.

    Deleting a chaperon also deletes its pod, and the watch may show the pod first. The API server then refuses the
    record, since the chaperon has another version. A pod that is never restarted may still succeed. It is recorded only
    when its end is overdue, for example on a lost node.
    """
    told = names.ANNOTATION_POD_ENDING in (view.chaperon["metadata"].get("annotations") or {})
    deleted = pod["metadata"].get("deletionTimestamp")
    if not deleted:
        return [PatchChaperon(_annotations({names.ANNOTATION_POD_ENDING: None}))] if told else []
    if told:
        return []
    again = restarts_always(view.chaperon)
    overdue = _moment(deleted, now) + timedelta(seconds=_GONE_SECONDS if again else view.missing_limit)
    if now < overdue and not (again and pod["metadata"].get("deletionGracePeriodSeconds")):
        return [LookAgain((overdue - now).total_seconds())]
    return [PatchChaperon(_annotations({names.ANNOTATION_POD_ENDING: stamp(now)}, view.chaperon))]


def _without_pod(view: ChaperonAndPod, now: datetime) -> list[Action]:
    chaperon = view.chaperon
    status = chaperon.get("status") or {}
    if told := _last_words(view):
        return told
    annotations = chaperon["metadata"].get("annotations") or {}
    since = annotations.get(names.ANNOTATION_POD_MISSING_SINCE)
    once, given_up = not restarts_always(chaperon), _is_given_up(chaperon)
    if (once or given_up) and since is not None:
        return [LookAgain(3600)]
    made = once and names.ANNOTATION_POD_MADE in annotations
    unmade = not status.get("phase") and (not made or view.unmade)
    if unmade and not given_up:
        return [CreatePod(once)]
    if since is None:
        said: dict[str, str | None] = {names.ANNOTATION_POD_MISSING_SINCE: stamp(now)}
        said |= dict.fromkeys([names.ANNOTATION_POD_MADE] if made and (view.unborn or unmade) else [])
        return [PatchChaperon(_annotations(said, chaperon), if_missing=True)]
    due = _moment(since, now) + timedelta(seconds=view.missing_limit)
    if now < due:
        return [LookAgain((due - now).total_seconds())]
    left = restarts_left_behind(status)
    text = msgspec.json.encode(left, order="deterministic").decode()
    if not left or annotations.get(delegates.ANNOTATION_RESTARTS) == text:
        return [CreatePod()]
    return [PatchChaperon(_annotations({delegates.ANNOTATION_RESTARTS: text})), CreatePod()]


def _last_words(view: ChaperonAndPod) -> list[Action]:
    """Report how a pod ended that has been deleted or is deleted with its chaperon.

    Skipped for pods that are always restarted: how they ended has no consequence.
    """
    pod = view.pod or view.last
    if pod is None or restarts_always(view.chaperon) or not has_ended(pod) or not _is_ours(view.chaperon, pod):
        return []
    status = status_of(view.chaperon, pod)
    return [] if equivalent(view.chaperon.get("status") or {}, status) else [PutStatus(status)]


def _is_ours(chaperon: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    uid = chaperon["metadata"]["uid"]
    return any(o.get("controller") and o["uid"] == uid for o in pod["metadata"].get("ownerReferences") or ())


def _with_pod(view: ChaperonAndPod, pod: dict[str, Any], now: datetime) -> list[Action]:
    actions: list[Action] = []
    chaperon = view.chaperon
    theirs = chaperon["metadata"].get("annotations") or {}
    before = chaperon.get("status") or {}
    changed: dict[str, str | None] = {}
    if names.ANNOTATION_POD_MISSING_SINCE in theirs:
        changed[names.ANNOTATION_POD_MISSING_SINCE] = None
    meant = told(chaperon)
    if not pod["metadata"].get("deletionTimestamp"):
        actions += _follow(meant, pod, before, now) if meant else []
        lacking = missing_labels(meant, chaperon, pod)
        if lacking:
            actions.append(PatchPod({"metadata": {"labels": lacking}}))
        elif lacking is not None:
            changed[delegates.ANNOTATION_NEW_LABELS] = None
        seen = observed(meant, pod) if not actions else ""
        if seen and seen != theirs.get(following.ANNOTATION_OBSERVED):
            changed[following.ANNOTATION_OBSERVED] = seen
    ours = meant.get("annotations", {})
    upwards = merge_patch(_travelling(theirs), _travelling(pod["metadata"].get("annotations") or {}))
    changed |= {key: value for key, value in upwards.items() if key not in ours}
    fit, left_out = fitting(theirs, changed)
    if left_out:
        actions.append(LeaveOut(message(left_out)))
    if fit:
        actions.append(PatchChaperon(_annotations(fit)))
    status = status_of(chaperon, pod)
    left = None if view.candidates else unscheduled_in(pod, now, _moment(pod["metadata"].get("creationTimestamp"), now))
    if left is not None:
        actions += _without_scheduler(status, before, left)
    elif worth_telling(status):
        if not equivalent(before, status):
            actions.append(LookAgain(view.silence) if view.silence > 0 else PutStatus(status))
    elif is_refused(before):
        # A pod exists by now, so the source no longer has a reason to try another target.
        actions.append(PutStatus({}))
    return actions


def _without_scheduler(status: dict[str, Any], before: Mapping[str, Any], left: float) -> list[Action]:
    if left > 0:
        return [LookAgain(left)]
    told = unscheduled(status)
    return [] if equivalent(before, told) else [NoScheduler(NO_SCHEDULER, told)]


def _reservation(chaperon: dict[str, Any], now: datetime) -> list[Action]:
    """Remove a reservation whose holder was killed, since its source would go on to count on it."""
    due = left_behind(chaperon["metadata"].get("annotations") or {})
    if due is None:
        return []
    if now < due:
        return [LookAgain((due - now).total_seconds())]
    return [PatchChaperon(_annotations({names.ANNOTATION_IS_RESERVED: None, names.ANNOTATION_HOLD: None}, chaperon))]


def _follow(meant: dict[str, Any], pod: dict[str, Any], before: Mapping[str, Any], now: datetime) -> list[Action]:
    actions: list[Action] = []
    if patch := delegate_patch(meant, pod):
        actions.append(PatchPod(patch))
    if patch := resize_patch(meant, pod):
        actions.append(PatchPod(patch, "resize"))
    if patch := ephemeral_patch(meant, pod, ended_before(pod, before)):
        actions.append(PatchPod(patch, "ephemeralcontainers"))
    if patch := gate_patch(meant.get("gates", {}), pod, stamp(now)):
        actions.append(PatchPod(patch, "status"))
    return actions


def _spec(chaperon_or_pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return chaperon_or_pod.get("spec") or {}


def _travelling(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if not names.is_ours(key)}


def _annotations(changed: Mapping[str, str | None], judged: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a patch of a chaperon's annotations, guarded by the version of `judged` unless that is None."""
    guard = {"resourceVersion": judged["metadata"]["resourceVersion"]} if judged is not None else {}
    return {"metadata": {"annotations": dict(changed), **guard}}


def _moment(text: str | None, otherwise: datetime) -> datetime:
    try:
        return parse(text or "")
    except ValueError:
        return otherwise
