"""Verbs that a target grants, by its own answer. The question stores nothing in the target."""

from collections.abc import Iterable

from agent.api.kinds import Kind
from agent.clusters.copies.refusals import remedy
from agent.clusters.target import Target


async def missing(target: Target, kind: Kind, verbs: Iterable[str]) -> list[str]:
    """Return the verbs that this cluster lacks in a target. Raises KubeError."""
    return [verb for _, verb in await target.port.lacking(target.namespace, [(kind, verb) for verb in verbs])]


async def granted(target: Target, kinds: Iterable[Kind], verb: str) -> list[Kind]:
    """Return the kinds for which this cluster has a verb in a target. Raises KubeError."""
    kinds = list(kinds)
    lacking = {kind for kind, _ in await target.port.lacking(target.namespace, [(kind, verb) for kind in kinds])}
    return [kind for kind in kinds if kind not in lacking]


def words(target: Target, kind: Kind, verbs: list[str]) -> str:
    """Return the remedy for missing verbs; empty if none is missing."""
    if not verbs:
        return ""
    lacking = f"the target's Source may not {', '.join(verbs)} {kind}: add the verbs to the role that it is bound to"
    return lacking + remedy(kind)
