"""What has come of applying the objects of an application, and of deleting them, as its status tells it. Pure."""

from collections.abc import Sequence

from agent.api.kinds import MANIFEST_WORKS
from agent.clusters.outcomes import Refusal, Remaining
from agent.model.abridged import abridged
from agent.model.applied import Place
from agent.model.p2code.status import LEFT, Told
from agent.model.p2code.verdicts import Verdict, not_applied

_NAMED = 3
"""Objects that are told of in words."""


def refused(refusals: Sequence[Refusal]) -> Verdict:
    """Some are not as they should be."""
    return not_applied(abridged([each.message for each in refusals], _NAMED, "; ", in_brackets=True))


def left(remaining: Sequence[Remaining]) -> Told:
    """Some that are to go are still there."""

    def words(each: Remaining) -> str:
        where = f"{each.namespace}/" if each.namespace else ""
        return f"{each.kind} {where}{each.name}" + (f" ({each.message})" if each.message else "")

    return Told(LEFT, "StillThere", f"waiting for {abridged([words(each) for each in remaining], _NAMED)}")


NOTHING_LEFT = Told(LEFT, "")


def is_work(place: Place) -> bool:
    """Whether what is there are ManifestWorks, and not the objects themselves."""
    return (place.kind.group, place.kind.name) == (MANIFEST_WORKS.group, MANIFEST_WORKS.name)
