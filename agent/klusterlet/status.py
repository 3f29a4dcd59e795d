"""Status of a ManifestWork: conditions of each manifest and of the whole, in the words of Open Cluster Management."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.conditions import find_condition, timestamp, without_condition
from agent.klusterlet.feedback import Feedback, Progress
from agent.klusterlet.manifests import Meta
from agent.klusterlet.rules import REASONS, Found

Raw = dict[str, Any]

APPLIED, AVAILABLE, DELETING, SYNCED = "Applied", "Available", "Deleting", "StatusFeedbackSynced"
PROGRESSING, DEGRADED = "Progressing", "Degraded"
CONTESTED = "multicluster/Contested"
"""Condition of a manifest: another writer keeps changing the object."""
AGGREGATED = "ConditionRulesAggregated"
BY_KIND = "ByKind"
"""Reason of Progressing and Degraded if no rule sets them."""
LONGEST_MESSAGE = 32_768
"""Maximum number of characters of a condition's message."""
_TIME = "lastTransitionTime"
_GENERATED = REASONS | {AGGREGATED, BY_KIND}
"""Reasons of conditions that are removed once nothing sets them."""
_OWN = frozenset((APPLIED, AVAILABLE, SYNCED, CONTESTED))
_ORDER = ("False", "Unknown", "True")


class Verdict(NamedTuple):
    """Status, reason and message of a condition."""

    status: str
    reason: str
    message: str


APPLIED_WELL = Verdict("True", "AppliedManifestComplete", "Apply manifest complete")
IS_AVAILABLE = Verdict("True", "ResourceAvailable", "Resource is available")
NOT_AVAILABLE = Verdict("False", "ResourceNotAvailable", "Resource is not available")
INCOMPLETE = Verdict("Unknown", "IncompleteResourceMeta", "Resource meta is incomplete")


def not_applied(reason: str) -> Verdict:
    """Return the verdict on a manifest that could not be applied."""
    return Verdict("False", "AppliedManifestFailed", f"Failed to apply manifest: {reason}")


def not_ignored(reason: str) -> Verdict:
    """Return the verdict on a manifest whose ignored fields are invalid."""
    return Verdict("False", "AppliedManifestSSAIgnoreFieldError", f"Failed to process ignoreFields: {reason}")


def not_fetched(reason: str) -> Verdict:
    """Return the verdict on the availability of an object that cannot be read."""
    return Verdict("Unknown", "FetchingResourceFailed", f"Failed to fetch resource: {reason}")


def skipped_for(api_version: str) -> Verdict:
    """Return the verdict on a manifest that is skipped, because its alternative in another version is applied."""
    return Verdict("True", "ManifestSkipped", f"Skipped: the manifest of version {api_version} is applied")


@dataclass(frozen=True)
class ManifestState:
    """State of one manifest and its object."""

    meta: Meta
    applied: Verdict
    available: Verdict | None
    """None for a skipped manifest."""
    feedback: Feedback | None = None
    """Values of its rules; None without the object."""
    has_rules: bool = False
    """Whether there are feedback rules."""
    rules: Sequence[Found] = ()
    progress: Progress | None = None
    contested: str = ""
    """Field manager that keeps changing the object; empty without one."""


@dataclass
class _Conditions:
    """Conditions under construction; times of earlier ones are kept while their status and generation stay."""

    before: Sequence[Mapping[str, Any]]
    generation: int
    now: datetime
    found: list[Raw] = field(default_factory=list)

    def set(self, type: str, verdict: Verdict, *, changed: bool = False) -> None:
        old = find_condition(self.before, type) or {}
        same = old.get("status") == verdict.status and old.get("observedGeneration") == self.generation
        time = old.get(_TIME) if same and not changed else None
        verdict = verdict._replace(message=verdict.message[:LONGEST_MESSAGE])
        written = {"observedGeneration": self.generation, _TIME: time or timestamp(self.now)}
        self.found.append({"type": type, **verdict._asdict(), **written})

    def with_others(self) -> list[Raw]:
        """Return all conditions, with those of other writers."""
        types = {each["type"] for each in self.found} | _OWN
        kept = [dict(each) for each in self.before if each.get("type") not in types]
        return self.found + [each for each in kept if each.get("reason") not in _GENERATED]


def status(work: Raw, states: Iterable[ManifestState], now: datetime) -> Raw:
    """Return the status of a ManifestWork, from the state of all its manifests."""
    before = work.get("status") or {}
    generation = int(work["metadata"].get("generation") or 0)
    known = {
        _who(each.get("resourceMeta") or {}): each
        for each in (before.get("resourceStatus") or {}).get("manifests") or ()
    }
    ordered = sorted(states, key=lambda each: each.meta.ordinal)
    manifests = [_manifest(each, known.get(_who(each.meta.written()), {}), generation, now) for each in ordered]
    whole = _Conditions(before.get("conditions") or (), generation, now)
    _conclude(whole, ordered, manifests)
    return {"conditions": whole.with_others(), "resourceStatus": {"manifests": manifests}}


def _who(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the identity by which the conditions of a manifest follow it to another ordinal."""
    return tuple(meta.get(each) for each in ("group", "version", "kind", "namespace", "name"))


def _manifest(state: ManifestState, before: Raw, generation: int, now: datetime) -> Raw:
    found = _Conditions(before.get("conditions") or (), generation, now)
    found.set(APPLIED, state.applied)
    values: list[Raw] = []
    if state.available is not None:
        found.set(AVAILABLE, state.available)
    if state.feedback is not None:
        values = state.feedback.values
        changed = values != ((before.get("statusFeedback") or {}).get("values") or [])
        found.set(SYNCED, _synced(state.feedback, has_rules=state.has_rules), changed=changed)
    for rule in state.rules:
        found.set(rule.type, Verdict(rule.status, rule.reason, rule.message))
    by_rule = {rule.type for rule in state.rules}
    for type, verdict in _by_kind(state.progress).items():
        if type not in by_rule:
            found.set(type, verdict)
    if state.contested:
        message = (
            f"{state.contested} has changed the object several times: remove the fields from one of the two, or set"
            " updateStrategy ServerSideApply with ignoreFields"
        )
        found.set(CONTESTED, Verdict("True", "Contested", message))
    feedback = {"statusFeedback": {"values": values}} if values else {"statusFeedback": {}}
    return {"resourceMeta": state.meta.written(), "conditions": found.with_others(), **feedback}


def _by_kind(progress: Progress | None) -> dict[str, Verdict]:
    if progress is None:
        return {}
    states = {PROGRESSING: progress.progressing, DEGRADED: progress.degraded}
    return {type: Verdict(str(holds), BY_KIND, progress.message) for type, holds in states.items()}


def _synced(feedback: Feedback, *, has_rules: bool) -> Verdict:
    if not has_rules:
        return Verdict("True", "NoStatusFeedbackSynced", "")
    if errors := feedback.errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Verdict("False", "StatusFeedbackSyncFailed", f"Sync status feedback failed with error {text}")
    return Verdict("True", "StatusFeedbackSynced", "")


def _conclude(whole: _Conditions, states: Sequence[ManifestState], manifests: Sequence[Raw]) -> None:
    if all(each.applied.status == "True" for each in states):
        whole.set(APPLIED, Verdict("True", "AppliedManifestWorkComplete", "Apply manifest work complete"))
    else:
        whole.set(APPLIED, Verdict("False", "AppliedManifestWorkFailed", "Failed to apply manifest work"))
    whole.set(AVAILABLE, _available([each.available.status for each in states if each.available is not None]))
    ruled: dict[str, list[Mapping[str, Any]]] = {}
    for manifest in manifests:
        for condition in manifest["conditions"]:
            if condition["reason"] in REASONS:
                ruled.setdefault(condition["type"], []).append(condition)
    for type, conditions in ruled.items():
        whole.set(type, _aggregated(type, conditions))
    degraded = [each.progress.message for each in states if each.progress is not None and each.progress.degraded]
    moving = [each.progress.message for each in states if each.progress is not None and each.progress.progressing]
    unapplied = [each.applied.message for each in states if each.applied.status != "True"]
    for type, why in ((PROGRESSING, unapplied + moving), (DEGRADED, degraded)):
        if type not in ruled:
            whole.set(type, Verdict(str(bool(why)), BY_KIND, why[0] if why else f"No manifest is {type}"))


def _available(statuses: Sequence[str]) -> Verdict:
    missing, unknown = statuses.count("False"), statuses.count("Unknown")
    if missing:
        message = f"{missing} of {len(statuses)} resources are not available"
        return Verdict("False", "ResourcesNotAvailable", message)
    if unknown:
        message = f"{unknown} of {len(statuses)} resources have unknown status"
        return Verdict("Unknown", "ResourcesStatusUnknown", message)
    return Verdict("True", "ResourcesAvailable", "All resources are available")


def _aggregated(type: str, conditions: Sequence[Mapping[str, Any]]) -> Verdict:
    """Return the condition of all manifests with a rule: False wins, then Unknown; for Progressing, True wins."""
    order = _ORDER[::-1] if type == PROGRESSING else _ORDER
    status = min((str(each["status"]) for each in conditions), key=order.index)
    message = str(conditions[0]["message"])
    if len(conditions) > 1:
        message = f"Aggregated from {len(conditions)} manifest conditions"
    return Verdict(status, AGGREGATED, message)


def with_deleting(work: Raw, remaining: str, now: datetime) -> list[Raw]:
    """Return the conditions of a ManifestWork that is being deleted.

    :param remaining: objects that are not deleted yet; empty if there are none or they are not known
    """
    before = (work.get("status") or {}).get("conditions") or []
    message = "ManifestWork is being deleted" + (f": waiting for {remaining}" if remaining else "")
    found = _Conditions(before, int(work["metadata"].get("generation") or 0), now)
    found.set(DELETING, Verdict("True", "WorkDeleting", message))
    return without_condition(before, DELETING) + found.found
