"""Conditions of an application for objects that were refused, or that still exist during its deletion. Pure."""

from collections.abc import Sequence

from agent.api.kinds import MANIFEST_WORKS
from agent.clusters.copies.outcomes import Refusal, Remaining
from agent.model.abridged import abridged
from agent.model.applied import Place
from agent.model.p2code.status import LEFT, Told
from agent.model.p2code.verdicts import Verdict, not_applied

_NAMED = 3
"""Maximum number of objects named in a message."""


def objects_refused(refusals: Sequence[Refusal]) -> Verdict:
    """Return the verdict that names refused objects, which differ from their manifests."""
    return not_applied(abridged([each.message for each in refusals], _NAMED, "; ", in_brackets=True))


def objects_left(remaining: Sequence[Remaining]) -> Told:
    """Return the condition that names objects whose deletion is pending."""

    def words(each: Remaining) -> str:
        where = f"{each.namespace}/" if each.namespace else ""
        return f"{each.kind} {where}{each.name}" + (f" ({each.message})" if each.message else "")

    return Told(LEFT, "StillThere", f"waiting for {abridged([words(each) for each in remaining], _NAMED)}")


NOTHING_LEFT = Told(LEFT, "")


def is_work(place: Place) -> bool:
    """Return True if the objects of a kind and namespace are ManifestWorks."""
    return (place.kind.group, place.kind.name) == (MANIFEST_WORKS.group, MANIFEST_WORKS.name)
