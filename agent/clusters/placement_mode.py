"""Mode of evaluating Placements in this cluster, and watches of the necessary kinds of Open Cluster Management.

Two controllers must never write the same decisions: the installer of the CRD of Placements evaluates them. The
mode is determined again regularly, because installations change, and as soon as one of the kinds is no longer
served. If the cluster serves no Placements, nothing is watched.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import Literal

import msgspec

from agent.api.kinds import CLUSTER_MANAGERS, CRDS, MANAGED_CLUSTERS, PLACEMENT_DECISIONS, PLACEMENTS, Kind
from agent.api.names.ocm import OURS
from agent.base.events import set_within
from agent.base.listeners import tell
from agent.clusters.cluster import Cluster
from agent.clusters.optional_watch import Watched
from agent.clusters.stores.placement_inputs import PlacementInputsCache
from agent.kube.errors import UNDECODABLE, Forbidden, KubeError, NotFound, Unreadable
from agent.kube.reviews import may_we
from agent.kube.store import Object
from agent.settings import PlacementSetting

log = logging.getLogger(__name__)

Mode = Literal["consume", "serve", "off"]

_NO_ANSWER_SECONDS = 5.0
_TO_SERVE = [
    {"verb": "create", "group": kind.group, "version": kind.version, "resource": kind.plural}
    for kind in (PLACEMENT_DECISIONS, MANAGED_CLUSTERS)
]
"""Rights to evaluate. An agent that evaluates on a hub lacks the second one."""

_WORDS: dict[Mode, str] = {
    "consume": "Placements are another controller's: their decisions are read",
    "serve": "Placements are evaluated here",
    "off": "Placements are not served here",
}


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_decoder = msgspec.json.Decoder(_Resources)


class PlacementMode:
    """Evaluation mode; `mode` is None until it is first known."""

    def __init__(self, local: Cluster, setting: PlacementSetting, interval: float) -> None:
        self._local = local
        self._interval = interval
        self._listeners: list[Callable[[], None]] = []
        self._watched: dict[Kind, Watched] = {}
        self._refusal = ""
        self._again = asyncio.Event()
        self.mode: Mode | None = None
        if setting == "auto":
            local.port.spawn("placement mode", self._run)
        else:
            self.mode = setting

    @property
    def active(self) -> bool:
        """Whether the cluster serves Placements, whichever controller evaluates them."""
        return self.mode in ("consume", "serve")

    def on_turn(self, listener: Callable[[], None]) -> None:
        """Register a listener: called when `mode` changes."""
        self._listeners.append(listener)

    def watch(self, kind: Kind) -> Watched:
        """Return the watch of a kind, active while the cluster serves Placements."""
        if kind not in self._watched:
            watched = self._watched[kind] = Watched(self._local.port, kind, self._interval)
            watched.subscribe(lambda old, new: None, lambda: self._turned(watched))
            watched.wanted(self.active)
        return self._watched[kind]

    @cached_property
    def fleet(self) -> PlacementInputsCache:
        """Inputs of Placements, watched from the first use on."""
        return PlacementInputsCache(self.watch)

    def _turned(self, watched: Watched) -> None:
        """Determine the mode again: if one kind is no longer served, Placements may not be either."""
        if self.active and watched.store is None:
            self._again.set()

    async def _run(self) -> None:
        while True:
            pause = self._interval
            try:
                self._become(await self._find())
            except KubeError as error:
                log.debug("who evaluates Placements is not known: %s", error)
                pause = min(pause, _NO_ANSWER_SECONDS)
            await set_within(self._again, pause)
            self._again.clear()

    def _become(self, mode: Mode) -> None:
        if mode == self.mode:
            return
        if self.mode is not None or mode != "off":
            log.info("%s", _WORDS[mode])
        self.mode = mode
        for watched in self._watched.values():
            watched.wanted(self.active)
        tell(self._listeners)

    async def _find(self) -> Mode:
        if not await self._serves(PLACEMENTS):
            return "off"
        if await self._serves(CLUSTER_MANAGERS):
            return "consume"
        try:
            found = Object(CRDS, await self._local.client.get_raw(CRDS, str(PLACEMENTS)))
        except NotFound:
            return "off"
        except Forbidden as error:
            self._refused(f"the agent may not read whose the CRD of Placements is ({error})")
            return "consume"
        if OURS not in found.labels:
            return "consume"
        for right in _TO_SERVE:
            if not await may_we(self._local.client, right):
                # The chart keeps its CRDs when their installation is switched off, and removes the rights.
                self._refused(f"the CRD of Placements is our chart's, and the agent may not create {right['resource']}")
                return "consume"
        return "serve"

    async def _serves(self, kind: Kind) -> bool:
        """Return whether the API server serves a kind. Every client may ask that."""
        path = f"/apis/{kind.group}/{kind.version}"
        try:
            answer = await self._local.client.session.request("GET", path, resource="apis")
        except NotFound:
            return False
        try:
            return any(each.name == kind.plural for each in _decoder.decode(answer).resources or ())
        except UNDECODABLE as error:
            raise Unreadable(f"what is served at {path} cannot be read: {error}") from error

    def _refused(self, reason: str) -> None:
        """Log a refusal once, until its reason changes."""
        if reason != self._refusal:
            self._refusal = reason
            remedy = "set agent.placement.crds=true or agent.placement.mode=serve"
            log.warning("%s, so none are evaluated here: %s", reason, remedy)
