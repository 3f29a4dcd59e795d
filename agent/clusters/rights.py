"""Which verbs a target grants, asked of the target itself: nothing is stored there by asking."""

from collections.abc import Iterable

from agent.api.kinds import Kind
from agent.clusters.refusals import remedy
from agent.clusters.target import Target


async def missing(target: Target, kind: Kind, verbs: Iterable[str]) -> list[str]:
    """Verbs that this cluster lacks in a target. Raises KubeError."""
    return [verb for verb in verbs if not await _may(target, kind, verb)]


def words(target: Target, kind: Kind, verbs: list[str]) -> str:
    """What to do about it; empty if no verb is missing."""
    if not verbs:
        return ""
    lacking = f"the target's Source may not {', '.join(verbs)} {kind}: add the verbs to the role that it is bound to"
    return lacking + remedy(kind)


async def _may(target: Target, kind: Kind, verb: str) -> bool:
    attributes = {"group": kind.group, "resource": kind.plural, "verb": verb, "namespace": target.namespace}
    return await target.port.may(attributes)
