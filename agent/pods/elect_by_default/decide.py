"""The label that follows from a namespace's annotations. Pure."""

from collections.abc import Mapping

import msgspec

from agent.api import names
from agent.api.names.links import SERVICE_REROUTE, SERVICE_REROUTES
from agent.model import claimfilter, moveterms, targetchoice
from agent.model.namespaces import elects_by_default

_SWITCH = (None, "true", "false")


class LabelChange(msgspec.Struct, frozen=True):
    """Change of one namespace."""

    patch: dict[str, str | None] | None = None  # : labels of a merge patch, None if the label is right
    complaint: str = ""  # : about invalid values


def decide(annotations: Mapping[str, str], labels: Mapping[str, str]) -> LabelChange:
    """Return the change. The annotation decides: a label without it was set by hand, and is removed."""
    asked = names.annotation(annotations, names.ELECT_BY_DEFAULT)
    want = "true" if elects_by_default(annotations) else None
    wrong = labels.get(names.LABEL_ELECT_BY_DEFAULT) != want
    complaints = []
    if asked not in _SWITCH:
        complaints.append(
            f"annotation {names.LABEL_ELECT_BY_DEFAULT} is {asked!r} and elects nothing: "
            'write "true" to elect the pods of this namespace, or remove it'
        )
    for suffix in (names.FOLLOW_ACCOUNT, names.SHARE_SERVICES):
        said = names.annotation(annotations, suffix)
        if said not in _SWITCH:
            key = names.SHORT_PREFIX + suffix
            complaints.append(f'annotation {key} is {said!r} and counts as "false": write "true" or "false"')
    said = names.annotation(annotations, SERVICE_REROUTE)
    if said is not None and said not in SERVICE_REROUTES:
        key = names.SHORT_PREFIX + SERVICE_REROUTE
        complaints.append(f"annotation {key} is {said!r} and has no effect: write {', '.join(SERVICE_REROUTES)}")
    complaints += [f"{field} {reason}" for field, reason in moveterms.flaws(annotations)]
    complaints += [f"{field} {reason}" for field, reason in targetchoice.flaws(annotations)]
    complaints += [f"{field} {reason}" for field, reason in claimfilter.flaws(annotations)]
    return LabelChange({names.LABEL_ELECT_BY_DEFAULT: want} if wrong else None, "; ".join(complaints))
