"""Sites of Skupper and the links between them, as the driver `skupper` needs them for the Services of a namespace."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import SITES, SKUPPER_GRANTS, SKUPPER_LINKS, SKUPPER_TOKENS, Kind
from agent.api.names.links import LABEL_SKUPPER
from agent.clusters.deps import Deps
from agent.drivers.driver import LOCAL, Place
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from agent.model import skuppersites
from agent.model.servicelinks import Finding
from agent.model.skupper import Raw

BELIEVED_SECONDS = 2.0
"""Seconds for which objects found in a namespace of a cluster are cached, for all Services."""


class _Found(NamedTuple):
    """Skupper's objects in a namespace of a cluster."""

    sites: Sequence[Raw]
    links: Sequence[Raw] | None
    """None if reading is forbidden: roles from earlier versions do not grant it."""
    token: Raw | None
    """Ours, where we have asked for the link."""


class SkupperSites:
    """Creates Sites and links for annotated namespaces, once per pair, and reports their state."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._found: dict[tuple[str, str], tuple[float, _Found]] = {}
        """By virtual node and namespace: objects, and until when they are cached."""

    async def join(self, place: Place) -> None:
        """Create a Site in an annotated cluster and, in a target, a link from the target to the local Site."""
        namespace, port = place.service[0], place.port
        if not self._is_asked(namespace):
            return
        if not await port.list(SITES, namespace):
            with contextlib.suppress(AlreadyExists):
                await port.create_raw(SITES, skuppersites.site(namespace, reached=not place.node))
        if not place.node:
            return
        token = await self._token(place)
        if token is None:
            await self._hand_over(place)
        elif skuppersites.has_failed(token):
            await self._begin_again(place, token)

    async def joined(self, place: Place) -> Finding | None:
        """Return the known problem that keeps a cluster out of the network; None for no problem."""
        namespace = place.service[0]
        found = await self._look(place)
        if bad := skuppersites.sited(found.sites, namespace):
            return bad
        if not place.node or not self._is_asked(namespace):
            return None
        if found.token is None:
            here = await self._look(Place(LOCAL, self._deps.local.port, place.service, ""))
            return skuppersites.ungranted(here.sites, namespace, await self._granted(place))
        if bad := skuppersites.redeemed(found.token):
            return bad
        name = found.token["metadata"]["name"]
        return skuppersites.unlinked(found.links, name) if found.links is not None else None

    async def unmatched(self, place: Place, finding: Finding) -> Finding:
        """Add the problems of the cluster's Links to the finding of unmatched Listeners: they may be the cause."""
        words = [skuppersites.told(each) for each in (await self._look(place)).links or ()]
        return Finding(finding.status, finding.reason, "; ".join(filter(None, [finding.message, *words])))

    def forget_cluster(self, node: str) -> None:
        """Drop cached objects: the node may represent another cluster."""
        self._found = {key: known for key, known in self._found.items() if key[0] != node}

    def _is_asked(self, namespace: str) -> bool:
        said = names.annotation(self._deps.namespaces.annotations(namespace), names.SKUPPER_SITE)
        return said == "true"

    async def _look(self, place: Place) -> _Found:
        namespace, key = place.service[0], (place.node, place.service[0])
        now = asyncio.get_running_loop().time()
        until, found = self._found.get(key, (0.0, None))
        if found is None or until <= now:
            sites = await _listed(place, SITES)
            try:
                links: Sequence[Raw] | None = await _listed(place, SKUPPER_LINKS)
            except (Forbidden, NotFound):
                links = None
            token = await self._token(place) if place.node and self._is_asked(namespace) else None
            found = _Found(sites, links, token)
            self._found[key] = (now + BELIEVED_SECONDS, found)
        return found

    async def _token(self, place: Place) -> Raw | None:
        """The one of the link from a cluster to this one; of an earlier version it may have another name."""
        namespace, name = place.service[0], skuppersites.token_name(place.node, self._deps.cluster_uid)
        with contextlib.suppress(NotFound):
            return await place.port.get(SKUPPER_TOKENS, name, namespace)
        for each in await place.port.list(SKUPPER_TOKENS, namespace, labels=LABEL_SKUPPER):
            earlier = each["metadata"]["name"] == skuppersites.grant_name(place.node)
            if earlier and skuppersites.is_made_of(each, await self._granted(place)):
                return each
        return None

    async def _granted(self, place: Place) -> Raw | None:
        try:
            return await self._deps.local.port.get(
                SKUPPER_GRANTS, skuppersites.grant_name(place.node), place.service[0]
            )
        except NotFound:
            return None

    async def _hand_over(self, place: Place) -> None:
        namespace, granted = place.service[0], await self._granted(place)
        if granted is None:
            await self._deps.local.port.create_raw(SKUPPER_GRANTS, skuppersites.grant(namespace, place.node))
            return
        name = skuppersites.token_name(place.node, self._deps.cluster_uid)
        if (token := skuppersites.token(granted, namespace, name)) is not None:
            with contextlib.suppress(AlreadyExists):
                await place.port.create_raw(SKUPPER_TOKENS, token)

    async def _begin_again(self, place: Place, token: Raw) -> None:
        """Delete the token, and its grant if spent: a new grant has a new code."""
        granted = await self._granted(place)
        spent = granted if granted is not None and skuppersites.is_made_of(token, granted) else None
        used = [(self._deps.local.port, SKUPPER_GRANTS, spent)] if spent is not None else []
        for port, kind, obj in [*used, (place.port, SKUPPER_TOKENS, token)]:
            metadata = obj["metadata"]
            with contextlib.suppress(NotFound, Conflict):
                await port.delete(kind, metadata["name"], metadata["namespace"], uid=metadata["uid"])


async def _listed(place: Place, kind: Kind) -> list[Raw]:
    return [{**each, "kind": kind.name} for each in await place.port.list(kind, place.service[0])]
