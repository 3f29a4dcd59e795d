"""Location of the volumes of a pod's claims, by the agent's rules: pods stay with their data."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS
from agent.dependencies.follow.claims import HAS_VOLUME
from agent.dependencies.follow.homevolumes import HomeVolumes
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.model.podstate import occupied_node
from agent.model.references import references


async def promised(source: Client, pod: Object, notes: list[str]) -> dict[str, str]:
    """Return the virtual node that has, or is to have, the volume of each claim of a pod."""
    found, home = {}, HomeVolumes(source)
    for name in references(pod.raw).get(PERSISTENT_VOLUME_CLAIMS, ()):
        with suppress(NotFound):
            try:
                raw = await source.get_raw(PERSISTENT_VOLUME_CLAIMS, name, pod.namespace)
            except Forbidden as error:
                notes.append(f"where the volume of claim {name} is does not count: {error}")
                continue
            claim = Object(PERSISTENT_VOLUME_CLAIMS, raw)
            node = claim.annotations.get(names.ANNOTATION_VOLUME_IN)
            if node:
                found[name] = node
            elif why := await home.keep(claim.decode()):
                notes.append(f"claim {name} {why}, and does not follow: the event FollowBlocked says what to do")
    return found


async def there(target: Client, claims: Iterable[str], namespace: str) -> frozenset[str]:
    """Return the claims that have a volume in a target; includes claims that the user may not read."""
    found = []
    for name in claims:
        with suppress(NotFound):
            try:
                copy = Object(PERSISTENT_VOLUME_CLAIMS, await target.get_raw(PERSISTENT_VOLUME_CLAIMS, name, namespace))
            except Forbidden:
                found.append(name)
                continue
            if copy.phase in HAS_VOLUME:
                found.append(name)
    return frozenset(found)


def settled(
    claims: Mapping[str, str], pod: Object, asked: Mapping[str, Collection[str]], proxies: Iterable[Object]
) -> dict[str, str]:
    """Return the claims that bind a pod: provisioned, used by another pod, or promised by a target without an answer.

    :param asked: claims that have a volume in the target, by the virtual node of each target that answered
    """
    used = {
        (name, occupied_node(proxy))
        for proxy in proxies
        if proxy.namespace == pod.namespace and proxy.uid != pod.uid
        for name in references(proxy.raw).get(PERSISTENT_VOLUME_CLAIMS, ())
    }
    return {
        name: node for name, node in claims.items() if node not in asked or name in asked[node] or (name, node) in used
    }
