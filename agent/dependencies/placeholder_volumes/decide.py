"""Decision about the placeholders for the volume of one claim. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.model.placeholder_volume import claim_uid, has_volume, is_for, is_needed, volume_for
from agent.model.quantity import InvalidQuantity, Quantity

Raw = dict[str, Any]


class ClaimAndVolumes(msgspec.Struct, frozen=True):
    """Claim, its copy, and its placeholders."""

    claim: Raw | None
    """Claim in the source, None if it does not exist."""
    there: Raw | None
    """Claim in the target of the volume, None if it is not known."""
    target: tuple[str, str]
    """Namespace and name of that target."""
    standing: Sequence[Raw]
    """Placeholders for claims of that name."""
    makes: bool
    """Whether the setting enables placeholders."""


@dataclass(frozen=True)
class Make:
    """Create the placeholder unless a pod in this cluster uses the claim."""

    volume: Raw


class Remove(msgspec.Struct, frozen=True):
    """Delete the placeholder of a deleted claim."""

    volume: Raw


class Replace(msgspec.Struct, frozen=True):
    """Replace the placeholder because the data are now in another target."""

    old: Raw
    new: Raw


class Grow(msgspec.Struct, frozen=True):
    """Increase the capacity because the volume in the target has grown."""

    volume: Raw
    capacity: str


Action = Make | Remove | Replace | Grow


def decide(view: ClaimAndVolumes) -> list[Action]:
    """Return the actions, which may run in any order."""
    uid = view.claim["metadata"]["uid"] if view.claim is not None else ""
    # This agent always sets a UID. A placeholder without one may be part of a backup that a user is restoring.
    actions: list[Action] = [Remove(volume) for volume in view.standing if claim_uid(volume) not in ("", uid)]
    own = next((volume for volume in view.standing if claim_uid(volume) == uid), None)
    if view.claim is None or view.there is None or not has_volume(view.there) or not view.makes:
        return actions
    wanted = volume_for(view.claim, view.there, view.target)
    if own is None:
        return [*actions, Make(wanted)] if is_needed(view.claim) and not _is_too_small(wanted, view.claim) else actions
    if not is_for(own, wanted):
        return [*actions, Replace(own, wanted)]
    if view.claim["spec"].get("volumeName") == own["metadata"]["name"]:
        actions += _grown(own, wanted, view.claim)
    return actions


def _is_too_small(wanted: Raw, claim: Raw) -> bool:
    """Return whether a placeholder is too small to be bound, for example if the volume of an adopted claim must
    still grow.
    """
    spec = claim["spec"]
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "")
    return not spec.get("volumeName") and _is_less(wanted["spec"]["capacity"], asked)


def _grown(own: Raw, wanted: Raw, claim: Raw) -> list[Action]:
    capacity = wanted["spec"]["capacity"].get("storage", "")
    shown = (claim.get("status") or {}).get("capacity")
    if _is_less(own["spec"].get("capacity"), capacity) or _is_less(shown, capacity):
        return [Grow(own, capacity)]
    return []


def _is_less(found: Mapping[str, Any] | None, capacity: str) -> bool:
    """Return whether an object's capacity is below another; False if it has none or it cannot be read."""
    try:
        return bool(found) and Quantity.of((found or {})["storage"]).nano < Quantity.of(capacity).nano
    except (InvalidQuantity, KeyError):
        return False
